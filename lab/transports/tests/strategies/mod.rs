//! The rivals, on which the suite runs.

use annulus_exchange::Strategy;
use annulus_transports::Rival;
pub use annulus_transports::transport;

/// The number of schedules of the stress test.
pub const SCHEDULES: u64 = 400;

/// Every rival.
pub fn all() -> Vec<Strategy> {
    Rival::ALL.map(Rival::strategy).to_vec()
}

/// The rivals with queues.
pub fn queues() -> Vec<Strategy> {
    [Rival::MutexChannel, Rival::Spsc].map(Rival::strategy).to_vec()
}

/// The rivals in turn.
pub fn for_schedule(seed: u64) -> Strategy {
    Rival::ALL[seed as usize % Rival::ALL.len()].strategy()
}
