//! The ring as its paper has it (section 3.3), for comparison with the ring of this crate.
//!
//! Producers fill the slots of a group with one `fetch_add` each to claim and to complete. The
//! producer that completes a group puts it in the ring under a mutex, installs a replacement that
//! it allocated before, and updates the reference of each producer. Consumers look at a cached
//! count of published groups, then at the shared one, and then wait. The last reader of a group
//! frees its place in the ring. `PROTOCOL.md` beside this file says where this differs from the
//! paper, and why: nothing blocks in a send, inputs may pause, and handles may go away.

mod consumer;
mod group;
mod news;
mod order;
mod producer;
mod reading;
mod shared;

use annulus_sync::Arc;

use self::{consumer::PaperReceiver, producer::PaperSender, shared::Shared};
use super::{Handles, Parcel, Receiver, Sender, Shape};

pub(super) fn handles<T: Parcel>(shape: Shape) -> Handles<T> {
    let shared = Arc::new(Shared::new(shape));
    let senders = (0..shape.producers)
        .map(|index| Box::new(PaperSender::<T>::new(Arc::clone(&shared), index)) as Box<dyn Sender<T>>);
    let receivers = (0..shape.consumers)
        .map(|index| Box::new(PaperReceiver::<T>::new(Arc::clone(&shared), index)) as Box<dyn Receiver<T>>);
    (senders.collect(), receivers.collect())
}
