//! The ring as its paper has it (section 3.3), for comparison with the exchange's own.
//!
//! Producers fill the slots of a group with one `fetch_add` each to claim and to complete. The
//! producer that completes a group puts it in the ring under a mutex, installs a replacement that
//! it allocated before, and updates the reference of each producer. Consumers look at a cached
//! count of published groups, then at the shared one, and then wait. The last reader of a group
//! frees its entry in the ring. `PROTOCOL.md` beside this file says where this differs from the
//! paper, and why: nothing blocks in a send, inputs may pause, and handles may go away.

mod consumer;
mod group;
mod news;
mod order;
mod producer;
mod reading;
mod shared;

use annulus_exchange::{
    plug::WaitList,
    transport::{Handles, Parcel, Receiver, Sender, Shape},
};
use annulus_sync::Arc;

use self::{consumer::PaperReceiver, producer::PaperSender, shared::PaperCore};

pub(crate) fn handles<T: Parcel>(shape: Shape) -> Handles<T> {
    let (producers, producer_seats) = WaitList::new(shape.producers);
    let (consumers, consumer_seats) = WaitList::new(shape.consumers);
    let shared = Arc::new(PaperCore::new(shape, producers, consumers));
    let senders = producer_seats
        .into_iter()
        .enumerate()
        .map(|(index, seat)| Box::new(PaperSender::<T>::new(seat, Arc::clone(&shared), index)) as Box<dyn Sender<T>>);
    let receivers = consumer_seats.into_iter().enumerate().map(|(index, seat)| {
        Box::new(PaperReceiver::<T>::new(seat, Arc::clone(&shared), index)) as Box<dyn Receiver<T>>
    });
    (senders.collect(), receivers.collect())
}
