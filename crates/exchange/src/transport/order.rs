//! The memory orderings that the transports share, by name. `queues/PROTOCOL.md` says which Acquire
//! reads which Release, and what each fence stands between.

use annulus_sync::{fences, orderings};

orderings! {
    /// A producer's end, after everything that it sent.
    last_end = Release;
    /// Load of the number of open producers, before the check for a last value.
    all_ended = Acquire;
}

fences! {
    /// A producer: value passed on, then "does a consumer wait?".
    fence_sent;
    /// A consumer: waker registered, then "is there a value? does a producer wait?".
    fence_wait_value;
    /// A consumer: value taken, then "does a producer wait?".
    fence_taken;
    /// A producer: waker registered, then "is there room? does a consumer starve?".
    fence_wait_space;
    /// A handle: a rare event stored (stop, an end, a lease given back), then "does any handle wait?".
    fence_event;
}
