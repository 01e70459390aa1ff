//! The memory orderings of the ring's protocol, by name. PROTOCOL.md says which Acquire reads which
//! Release.

use annulus_sync::{fences, orderings};

orderings! {
    /// Store of a slot's sequence number, after its value was written.
    publish = Release;
    /// Load of a slot's sequence number, before its value is read.
    observe = Acquire;
    /// The `fetch_add` that takes a ticket.
    claim = AcqRel;
    /// Store of a cursor, after the slots before it were read.
    pass = Release;
    /// Load of a cursor, before the slots it has passed are cleared.
    survey = Acquire;
    /// Store of `released`, after the slots before it were cleared.
    free = Release;
    /// Load of `released`, before a slot is written again.
    admit = Acquire;
    /// Taking the sweep, before `released` is read.
    sweep_take = Acquire;
    /// Giving the sweep to the consumer it waits for.
    sweep_give = Release;
    /// A producer's end, after everything that it published.
    finish = Release;
    /// Load of the number of open producers, before the check for a last slot.
    end = Acquire;
}

fences! {
    /// A producer: sequence number stored, then "does a consumer wait?".
    fence_flush;
    /// A consumer: waker registered, then "is there a slot? does a producer wait?".
    fence_wait_data;
    /// A producer: waker registered, then "is there a free slot? does a consumer starve?".
    fence_wait_slot;
    /// A handle: a rare event stored (stop, the last end, a wanted lease), then "does any handle wait?".
    fence_tell;
    /// The mover of a cursor: cursor stored, then "does the sweep wait for it?".
    fence_passed;
    /// The sweeper: `released` stored and the sweep given to a consumer, then "has its cursor moved?
    /// does a producer wait? does a consumer?".
    fence_handed_on;
}
