//! What can be wrong with a request.

/// An error of a simulation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A count is out of range.
    #[error("invalid {what} {value}: expected {least} to {most}")]
    Range {
        /// The name of the count.
        what: &'static str,
        /// The value.
        value: usize,
        /// The least allowed value.
        least: usize,
        /// The largest allowed value.
        most: usize,
    },
    /// The cores cannot be divided among the domains.
    #[error("{domains} cache domains for {cores} cores: expected at least one core for each domain")]
    Domains {
        /// The cores.
        cores: usize,
        /// The domains.
        domains: usize,
    },
    /// A line of the stored table cannot be read.
    #[error("damaged line in the published table: '{line}'")]
    Table {
        /// The line.
        line: String,
    },
    /// All threads wait, and none can wake another one.
    #[error("the simulation of {strategy} cannot continue: every thread waits")]
    Stuck {
        /// The strategy.
        strategy: &'static str,
    },
}
