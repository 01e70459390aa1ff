//! The memory orderings that the transports share, by name. `queues/PROTOCOL.md` says which Acquire
//! reads which Release, and what each fence stands between.

use annulus_sync::{fences, orderings};

orderings! {
    /// Load of the number of open producers, before the check for a last value. `fence_sent` stands
    /// between a producer's values and its end.
    all_ended = Acquire;
}

fences! {
    /// A producer: value passed on, then "does a consumer wait?".
    fence_sent;
    /// A consumer: waker registered, then "is there a value? does a producer wait?".
    fence_wait_value;
    /// A producer: waker registered, then "is there a free slot? does a consumer starve?".
    fence_wait_space;
    /// A handle: values taken, a lease given back, a stop or an end stored, then "does any handle
    /// wait?".
    fence_event;
}
