//! Queues: each value is pushed to the queue of every consumer that it concerns, which costs an
//! operation for each of them. `PROTOCOL.md` beside this file says how handles wait, and how a full
//! queue is relieved. [`LockFree`] is crossbeam's bounded queue; [`Kind`] takes others.

mod consumer;
mod kind;
mod producer;
mod shared;

use annulus_sync::Arc;

pub use self::kind::Kind;
pub(super) use self::kind::LockFree;
#[cfg(feature = "transports")]
pub use self::kind::{PopEnd, PushEnd, QueueEnds};
use self::{consumer::QueueReceiver, producer::QueueSender, shared::QueueCore};
use super::{Handles, Parcel, Receiver, Sender, Shape};

/// Creates the handles of a transport with queues of one kind. No number of `shape` is 0.
pub fn handles<T: Parcel, K: Kind>(shape: Shape) -> Handles<T> {
    let (pushes, pops) = K::queues(shape.producers, shape.consumers, shape.bound());
    let shared = Arc::new(QueueCore::<T, K>::new(shape.producers, pops));
    let senders = pushes.into_iter().enumerate().map(|(index, push)| {
        Box::new(QueueSender::<T, K>::new(Arc::clone(&shared), index, push)) as Box<dyn Sender<T>>
    });
    let receivers = (0..shape.consumers)
        .map(|index| Box::new(QueueReceiver::<T, K>::new(Arc::clone(&shared), index)) as Box<dyn Receiver<T>>);
    (senders.collect(), receivers.collect())
}
