//! Parameters of the choice of joins around a ring.

use annulus_datafusion::rust_options;

/// Parameters of the choice of joins around a ring, for tests and measurements. It is an extension of a session
/// without options in SQL; users have `annulus.cyclo_join`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingJoinOptions {
    /// The most bytes of a side that the cost model expects the engine to send to all workers, and of the right
    /// side of a join with the nearest rows that is sent.
    pub broadcast_limit: usize,
    /// The rows of a side from which on a join on equal keys has both sides sampled for a hot key.
    pub hot_key_rows: usize,
}

impl Default for RingJoinOptions {
    fn default() -> Self {
        Self { broadcast_limit: 64 << 20, hot_key_rows: 1_000_000 }
    }
}

rust_options!(RingJoinOptions, "annulus_ring_joins");
