//! The memory orderings of a lease word, by name. `ring/PROTOCOL.md` says which Acquire reads which
//! Release.

use annulus_sync::orderings;

orderings! {
    /// Taking a lease, before the cursor is read.
    lease_take = Acquire;
    /// Giving a lease back, after the cursor was written.
    lease_give = Release;
}
