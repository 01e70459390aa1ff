//! The strategies of this crate, on which the suite runs.

use annulus_exchange::Strategy;
pub use annulus_exchange::transport::transport;

/// The number of schedules of the stress test.
pub const SCHEDULES: u64 = 1200;

/// Every strategy.
pub fn all() -> Vec<Strategy> {
    [&Strategy::TRANSPORTS[..], &[Strategy::Reserve]].concat()
}

/// The strategies with a queue for each consumer.
pub fn queues() -> Vec<Strategy> {
    vec![Strategy::Channel]
}

/// Every other schedule has reserved ranges, whose protocol is the most intricate.
pub fn for_schedule(seed: u64) -> Strategy {
    match seed % 2 {
        0 => Strategy::Reserve,
        _ => Strategy::TRANSPORTS[(seed / 2) as usize % Strategy::TRANSPORTS.len()],
    }
}
