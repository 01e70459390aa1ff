//! The memory orderings of the protocol, by name (`PROTOCOL.md`, "Memory ordering"). Under loom the
//! one that the environment variable `ANNULUS_WEAKEN` names becomes `Relaxed`, so that `ci/loom.sh`
//! can show that a model fails without it.

use annulus_sync::orderings;

orderings! {
    /// A new page becomes the lane's current one: who reads it sees its state and owns its memory anew.
    publish = Release;
    /// Reads the lane's current page; reads `publish`.
    current = Acquire;
    /// Tuples are written, or the page is closed: gives them to whoever finds the page complete, and takes what the others
    /// gave.
    complete = AcqRel;
}
