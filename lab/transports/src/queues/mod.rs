//! The queues of rivals, which take the place of the exchange's own. They are not ours, so models
//! of [`Pairs`] have another one in their place. [`LockedQueues`] has no models: those of the exchange's
//! `channel` run the same protocol over a queue for each consumer.

mod locked;
#[cfg(loom)]
mod modelled_pair;
mod pairs;

pub(crate) use self::{locked::LockedQueues, pairs::Pairs};
