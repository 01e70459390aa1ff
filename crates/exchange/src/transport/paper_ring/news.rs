//! The handles that a step under the mutex concerns, and their wake-up after it. Rule 5 of
//! PROTOCOL.md.

use super::{
    super::{Parcel, order as transport_order},
    shared::Shared,
};
use crate::{error::ExchangeError, waiting::Local, wake::AllCalls};

/// The sides that a step under the mutex concerns.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct News {
    pub(super) consumers: bool,
    pub(super) producers: bool,
}

impl<T: Parcel> Shared<T> {
    /// Wakes those whom a step concerns.
    pub(super) fn tell(&self, news: News, local: &mut Local) {
        if !news.consumers && !news.producers {
            return;
        }
        transport_order::fence_event();
        let mut calls = AllCalls::default();
        if news.consumers {
            calls.call(|| self.consumers.wake_all(local));
        }
        if news.producers {
            calls.call(|| self.producers.wake_all(local));
        }
        calls.finish();
    }

    pub(super) fn tell_all(&self, local: &mut Local) {
        self.tell(News { consumers: true, producers: true }, local);
    }

    pub(super) fn tell_consumers(&self, local: &mut Local) {
        self.tell(News { consumers: true, producers: false }, local);
    }

    /// Stops all handles with `error`, unless they were stopped before.
    pub(super) fn stop(&self, error: ExchangeError, local: &mut Local) {
        self.halt.stop(error, local);
        self.tell_all(local);
    }
}
