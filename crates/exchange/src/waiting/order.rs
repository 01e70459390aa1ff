//! The memory orderings of the list of waiting handles, by name. `ring/PROTOCOL.md` says which
//! Acquire reads which Release.

use annulus_sync::orderings;

orderings! {
    /// The CAS that puts a node on the list of waiting handles, after its waker was written.
    park = Release;
    /// The swap that takes the list, before the wakers are read.
    unpark = Acquire;
    /// Store that takes a node off the list, after its waker was read.
    unlist = Release;
    /// Load of the same word, before the waker is written again.
    relist = Acquire;
}
