//! The memory orderings of the paper's ring, by name. PROTOCOL.md says which Acquire reads which
//! Release. What is not here is Relaxed, because a mutex orders it.

use annulus_sync::orderings;

orderings! {
    /// The `fetch_add` that completes a claim. The last one sees all values of the group.
    complete = AcqRel;
    /// Store of the number of published groups, after the group was put in its entry.
    publish = Release;
    /// Load of that number, before the group is read.
    observe = Acquire;
    /// The `fetch_sub` with which a consumer leaves a group. The last one sees the reads of all.
    leave = AcqRel;
    /// The `fetch_sub` with which a producer ends. The last one sees what the others did before, and
    /// closes the ring.
    end = AcqRel;
    /// Store of the end, after the last group was published.
    close = Release;
    /// Load of the end, before the check for a last group.
    closed = Acquire;
}
