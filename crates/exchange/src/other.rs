//! Strategies of other crates: transports that a program registers when it starts.

use std::{
    fmt,
    hash::{Hash, Hasher},
    panic::RefUnwindSafe,
    sync::{PoisonError, RwLock},
};

use crate::{
    contract::{Handles, Shape},
    indexed::IndexedBatch,
};

/// The transports that were registered, in that order.
static REGISTERED: RwLock<Vec<OtherTransport>> = RwLock::new(Vec::new());

/// A transport of another crate, which passes the batches of an exchange on.
pub trait Transport: Send + Sync + RefUnwindSafe + 'static {
    /// Returns the word for it in options: lower case, and none of the exchange's own.
    fn word(&self) -> &'static str;

    /// Creates the handles of all producers and of all consumers. No number of `shape` is 0.
    fn handles(&self, shape: Shape) -> Handles<IndexedBatch>;

    /// Returns whether a consumer can read a batch as soon as it was sent. Inputs without an end
    /// need that.
    fn shows_at_once(&self) -> bool {
        true
    }

    /// Returns whether all batches are kept until every producer has ended. Then batches that the
    /// memory budget refuses are spilled when they are sent.
    fn keeps_all(&self) -> bool {
        false
    }
}

/// A transport that was registered. Two are equal if they have the same word.
#[derive(Clone, Copy)]
pub struct OtherTransport(&'static dyn Transport);

impl OtherTransport {
    /// Registers a transport, so that its word names a strategy in this process, and returns it.
    /// The first transport with a word keeps it; case does not matter.
    pub(crate) fn register(transport: &'static dyn Transport) -> Self {
        let mut registered = REGISTERED.write().unwrap_or_else(PoisonError::into_inner);
        let known = registered.iter().find(|known| known.word().eq_ignore_ascii_case(transport.word()));
        known.copied().unwrap_or_else(|| {
            registered.push(Self(transport));
            Self(transport)
        })
    }

    /// Returns the transports that were registered.
    pub(crate) fn registered() -> Vec<Self> {
        REGISTERED.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the word for the transport in options.
    pub fn word(self) -> &'static str {
        self.0.word()
    }

    pub(crate) fn transport(self) -> &'static dyn Transport {
        self.0
    }
}

impl fmt::Debug for OtherTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl PartialEq for OtherTransport {
    fn eq(&self, other: &Self) -> bool {
        self.word() == other.word()
    }
}

impl Eq for OtherTransport {}

impl Hash for OtherTransport {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.word().hash(state);
    }
}
