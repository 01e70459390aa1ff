//! What a host tells of its work: its progress, and a summary at the end.

use serde::{Deserialize, Serialize};

/// A step of a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Reading its rows of the stationary relation.
    #[default]
    Loading,
    /// Preparing them.
    Preparing,
    /// Joining the fragments of the rotating relation.
    Turning,
    /// Completing its files.
    Writing,
}

/// The progress of a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct HostProgress {
    /// The current step.
    pub phase: Phase,
    /// The rows read.
    pub rows_read: u64,
    /// The bytes of input files that are joined or in memory. Those of the rotating relation count
    /// in each revolution.
    pub bytes_done: u64,
    /// The revolutions completed.
    pub revolutions: u64,
    /// The fragments joined.
    pub fragments: u64,
    /// The milliseconds during which the host had no fragment to join.
    pub waiting_ms: u64,
    /// The rows written.
    pub rows_out: u64,
}

/// The work of one host in a join. Times are in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct HostSummary {
    /// Its rows of the left and the right side.
    pub rows: [u64; 2],
    /// The most bytes that these rows took in memory at one time, as they were read. On a single
    /// host that runs a query, the bytes of all rows that its scans returned.
    pub bytes: [u64; 2],
    /// The most bytes that prepared rows took at one time.
    pub prepared_bytes: u64,
    /// The bytes of input files that it read.
    pub bytes_read: u64,
    /// The rows of the rotating relation that it prepared: once for all revolutions, or with a key
    /// filter in each one in which they may have a partner.
    pub rows_prepared: u64,
    /// The rotating rows that key filters dropped before they were prepared, in all revolutions.
    pub rows_dropped: u64,
    /// The bytes of the key filters' parts that it saw, its own included.
    pub filter_bytes: u64,
    /// The bytes of rotating rows that it kept for further revolutions, in memory and on
    /// disk.
    pub bytes_kept: [u64; 2],
    /// The rows of its inputs that could not be read and were left out.
    pub rows_bad: u64,
    /// The rows that it wrote.
    pub rows_out: u64,
    /// The fragments that it sent around the ring.
    pub injected: u64,
    /// The fragments that it joined.
    pub joined: u64,
    /// The bytes of the fragments that it joined.
    pub bytes_joined: u64,
    /// The time to read the stationary relation, and to wait for own rows of the rotating relation
    /// without any other fragment to join.
    pub load_ms: f64,
    /// The time to prepare the stationary relation.
    pub setup_ms: f64,
    /// The time to join. Other threads read, prepare and write during it.
    pub join_ms: f64,
    /// The time spent waiting for other hosts' fragments.
    pub wait_ms: f64,
    /// The peak memory of the process since this join began, in bytes; 0 if the system does not
    /// report it.
    pub peak_bytes: u64,
}
