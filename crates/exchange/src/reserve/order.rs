//! The memory orderings of the row protocol, by name. PROTOCOL.md says which Acquire reads which
//! Release.

use annulus_sync::{fences, orderings};

orderings! {
    /// The compare-and-swap that claims rows. It sees the chunk that another claim installed, and
    /// publishes the one that it installs.
    rows_claim = AcqRel;
    /// The compare-and-swap that takes the open chunk out of the claim word.
    rows_seal = Acquire;
    /// The `fetch_add` that completes a claim and publishes its rows. The last one sees all rows.
    rows_complete = AcqRel;
    /// The end of a producer, after it has handed over all its rows. The last one sees the rows
    /// that the others left in the claim words.
    last_finish = AcqRel;
}

fences! {
    /// An opener of the gate: counter changed or exchange stopped, then "is a producer parked?". Also
    /// a consumer that begins to wait: counted as starving, then "is every producer idle?".
    fence_gate_opens;
    /// A producer: waker registered, then "is the gate open?".
    fence_gate_parks;
}
