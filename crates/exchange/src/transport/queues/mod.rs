//! Queues: each value is pushed to the queue of every consumer that it concerns, which costs an
//! operation for each of them. `PROTOCOL.md` beside this file says how handles wait, and how a full
//! queue is relieved.
//!
//! - [`Locked`]: one queue for each consumer, under a mutex, as the baseline of the ring's paper
//!   has it (section 4). Wakers take the place of its condition variables, so that tasks can wait,
//!   too.
//! - [`LockFree`]: the same with crossbeam's bounded queue.
//! - [`Pairs`]: a queue for each pair of a producer and a consumer, of `rtrb`.

mod consumer;
mod kind;
mod producer;
mod shared;

use annulus_sync::Arc;

pub(super) use self::kind::{LockFree, Locked, Pairs};
use self::{consumer::QueueReceiver, kind::Kind, producer::QueueSender, shared::Shared};
use super::{Handles, Parcel, Receiver, Sender, Shape};

/// Creates the handles of queues of one kind.
pub(super) fn handles<T: Parcel, K: Kind>(shape: Shape) -> Handles<T> {
    let (pushes, pops) = K::queues(shape.producers, shape.consumers, shape.bound());
    let shared = Arc::new(Shared::<T, K>::new(shape.producers, pops));
    let senders = pushes.into_iter().enumerate().map(|(index, push)| {
        Box::new(QueueSender::<T, K>::new(Arc::clone(&shared), index, push)) as Box<dyn Sender<T>>
    });
    let receivers = (0..shape.consumers)
        .map(|index| Box::new(QueueReceiver::<T, K>::new(Arc::clone(&shared), index)) as Box<dyn Receiver<T>>);
    (senders.collect(), receivers.collect())
}
