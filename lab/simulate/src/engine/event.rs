//! Events in the order of their time.

use std::cmp::Ordering;

/// What happens to a thread. The number is its generation when the event was made: a thread that
/// has lost its core since then has another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// It becomes ready.
    Ready,
    /// Its step ends.
    Step(u32),
    /// It has had its core for a slice.
    Slice(u32),
}

/// Something that happens to a thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event {
    /// The moment, in ns.
    pub(super) time: f64,
    /// Orders events of one moment by their creation.
    pub(super) sequence: u64,
    /// The thread.
    pub(super) thread: usize,
    /// The event.
    pub(super) kind: Kind,
}

impl Ord for Event {
    /// The earliest event is the largest: `BinaryHeap` takes that one first.
    fn cmp(&self, other: &Self) -> Ordering {
        other.time.total_cmp(&self.time).then(other.sequence.cmp(&self.sequence))
    }
}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Event {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Event {}
