//! The memory orderings of the protocol, by name (`PROTOCOL.md`, "Memory ordering"). Under loom the
//! one that the environment variable `ANNULUS_WEAKEN` names becomes `Relaxed`. So `ci/loom.sh` can
//! show that a model fails without it.

use annulus_sync::orderings;

orderings! {
    /// A new page becomes the partition's current one: publishes its state and its memory to the
    /// reader.
    publish = Release;
    /// Reads the partition's current page: sees everything that `publish` published.
    current = Acquire;
    /// Tuples are written, or the page is closed: publishes them to the thread that finds the page
    /// complete, which sees those of all others.
    complete = AcqRel;
}
