//! The memory orderings of the counts of producers, by name. `reserve/PROTOCOL.md` says what each
//! is for.

use annulus_sync::{fences, orderings};

orderings! {
    /// The `fetch_sub` of a producer's end, after it was taken off the idle ones.
    leave_live = Release;
    /// Load of the number of live producers, before that of the idle ones.
    survey_live = Acquire;
}

fences! {
    /// A producer that turns idle or ends: counted, then "are all idle? does a consumer wait?".
    fence_turns_idle;
}
