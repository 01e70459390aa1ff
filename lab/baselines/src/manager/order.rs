//! The memory orderings of the lock-free page manager, by name. PROTOCOL.md says which Acquire
//! reads which Release.

use annulus_sync::orderings;

orderings! {
    /// Store of the open page, after it was created.
    install = Release;
    /// Load of the open page, before places on it are taken.
    look = Acquire;
    /// The `fetch_add` that completes a claim after its places were written, and before the page is read.
    complete = AcqRel;
    /// Store that no page will be added, after the error was stored.
    fail = Release;
    /// Load of the same word, before the error is read.
    give_up = Acquire;
}
