//! The handles that a step under the mutex concerns, and their wake-up after it. Rule 5 of
//! PROTOCOL.md.

use annulus_exchange::{
    ExchangeError,
    plug::{AllCalls, HandleStats},
    transport::Parcel,
};

use super::shared::PaperCore;
use crate::order as rival_order;

/// The sides that a step under the mutex concerns.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct News {
    pub(super) consumers: bool,
    pub(super) producers: bool,
}

impl<T: Parcel> PaperCore<T> {
    /// Wakes those whom a step concerns.
    pub(super) fn tell(&self, news: News, stats: &mut HandleStats) {
        if !news.consumers && !news.producers {
            return;
        }
        rival_order::fence_rival_event();
        let mut calls = AllCalls::default();
        if news.consumers {
            calls.call(|| self.consumers.wake_all(stats));
        }
        if news.producers {
            calls.call(|| self.producers.wake_all(stats));
        }
        calls.finish();
    }

    pub(super) fn tell_all(&self, stats: &mut HandleStats) {
        self.tell(News { consumers: true, producers: true }, stats);
    }

    pub(super) fn tell_consumers(&self, stats: &mut HandleStats) {
        self.tell(News { consumers: true, producers: false }, stats);
    }

    /// Stops all handles with `error`, unless they were stopped before.
    pub(super) fn stop(&self, error: ExchangeError, stats: &mut HandleStats) {
        self.stop_reason.stop(error, stats);
        self.tell_all(stats);
    }
}
