//! Orders and reports.

use std::{path::PathBuf, sync::Arc};

use annulus_dataset::{Compression, Dataset, Existing, Manifest, OutputFormat};
use annulus_join::Side;
use arrow::{
    datatypes::SchemaRef,
    ipc::{reader::StreamReader, writer::StreamWriter},
};
use serde::{Deserialize, Serialize};

use crate::{
    error::ClusterError,
    job::{Algorithm, Query, threads_or_cores},
};

/// From the coordinator.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    Load(Box<Task>),
    /// The most rows of the side that stays on one host.
    Prepare {
        build_rows: u64,
    },
    Turn,
    Publish,
    /// The result is complete.
    Keep,
    /// The coordinator has heard that the host is alive.
    Heard,
}

/// Threads of a host.
pub(crate) const MOST_THREADS: usize = 4096;
/// Of a join.
pub(crate) const MOST_REVOLUTIONS: usize = 1 << 20;

/// What one host is to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Task {
    pub(crate) query: Query,
    /// What `now()` is, in nanoseconds since 1970.
    pub(crate) now_ns: i64,
    /// The columns of both sides, as Arrow IPC streams without batches.
    pub(crate) schemas: [Vec<u8>; 2],
    /// Which units of both sides' datasets are this host's; all if none are named.
    pub(crate) units: [Option<Vec<usize>>; 2],
    /// The files that units are of, if they are named.
    pub(crate) files: [Files; 2],
    pub(crate) rotates_left: bool,
    pub(crate) algorithm: Algorithm,
    /// This host, of so many.
    pub(crate) host: u16,
    pub(crate) hosts: u16,
    pub(crate) session: u64,
    pub(crate) neighbours: Neighbours,
    pub(crate) threads: Option<usize>,
    pub(crate) fragment_bytes: u32,
    pub(crate) buffers: u32,
    pub(crate) timeout_ms: u64,
    pub(crate) memory_bytes: Option<u64>,
    pub(crate) revolutions: usize,
    pub(crate) output: HostOutput,
}

/// What a dataset's files were when the join was planned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Files {
    fingerprint: Option<String>,
    outline: Option<u64>,
}

impl Files {
    pub(crate) fn of(dataset: &Dataset) -> Self {
        Self { fingerprint: dataset.fingerprint.clone(), outline: dataset.outline }
    }

    /// Whether a host sees the same. On another machine files lie elsewhere, and have times of
    /// change of their own.
    fn are(&self, dataset: &Dataset, neighbours: &Neighbours) -> bool {
        match neighbours {
            Neighbours::Folder(_) => self.fingerprint == dataset.fingerprint,
            Neighbours::Ring(_) => self.outline == dataset.outline,
        }
    }
}

impl Task {
    /// Whether a dataset is what it was when the units of this side were told.
    pub(crate) fn is_planned_for(&self, dataset: &Dataset, side: usize) -> bool {
        self.units[side].is_none() || self.files[side].are(dataset, &self.neighbours)
    }

    /// An order may come from a program that is not ours.
    pub(crate) fn checked(self) -> Result<Self, ClusterError> {
        let fits = (1..=MOST_THREADS).contains(&self.threads.unwrap_or(1))
            && (1..=MOST_REVOLUTIONS).contains(&self.revolutions)
            && self.host < self.hosts;
        if fits {
            // The machine may take cores away later, and what is read together depends on their number.
            Ok(Self { threads: Some(self.threads()), ..self })
        } else {
            Err(ClusterError::Control { reason: "an order with numbers that cannot be".to_owned() })
        }
    }

    pub(crate) fn rotate(&self) -> Side {
        if self.rotates_left { Side::Left } else { Side::Right }
    }

    /// Threads that join here.
    pub(crate) fn threads(&self) -> usize {
        threads_or_cores(self.threads)
    }
}

/// How a host finds its neighbours.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Neighbours {
    /// By sockets in a folder: hosts of one machine, which share their buffers.
    Folder(PathBuf),
    /// By the file of the ring, which each host has: the names of those that take part, in order.
    Ring(Vec<String>),
}

/// What a coordinator says first on a connection: which of the two it is that belong to a join.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Lane {
    Orders(u64),
    Reports(u64),
}

/// Where a host's files go: to its folder in that of all hosts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HostOutput {
    pub(crate) dir: PathBuf,
    pub(crate) member: usize,
    pub(crate) format: OutputFormat,
    pub(crate) compression: Compression,
    pub(crate) existing: Existing,
}

/// From a host.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Report {
    Alive(HostProgress),
    /// With its rows of the side that stays.
    Loaded {
        build_rows: u64,
    },
    Prepared,
    Sealed(HostSummary),
    Published(Box<Manifest>),
    /// Its files stay.
    Kept,
    /// It was told to end, and leaves nothing.
    Stopped,
    /// It is at other joins, and takes no more.
    Busy,
    Failed {
        reason: String,
        /// Another host that is to blame.
        other: Option<u16>,
    },
}

/// What a host is at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Reads its rows.
    #[default]
    Loading,
    /// Prepares them.
    Preparing,
    /// Joins what comes by.
    Turning,
    /// Ends its files.
    Writing,
}

/// How far a host is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostProgress {
    /// What it is at.
    pub phase: Phase,
    /// Rows that it has read.
    pub rows_read: u64,
    /// Bytes of the files that it has read, again in each revolution.
    pub bytes_read: u64,
    /// Revolutions that are over.
    pub revolutions: u64,
    /// Fragments that it has joined.
    pub fragments: u64,
    /// Milliseconds in which it had none to join.
    pub waiting_ms: u64,
    /// Rows that it has written.
    pub rows_out: u64,
}

/// What a join was for one host. Times are in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostSummary {
    /// Its rows of the left and the right side.
    pub rows: [u64; 2],
    /// Bytes of those in memory as they were read, the most at one time.
    pub bytes: [u64; 2],
    /// Bytes of what was prepared, at one time.
    pub prepared_bytes: u64,
    /// Rows of its inputs that could not be read, and were left out.
    pub rows_bad: u64,
    /// Rows that it wrote.
    pub rows_out: u64,
    /// Fragments that it sent around.
    pub injected: u64,
    /// Fragments that it joined.
    pub joined: u64,
    /// Bytes of those.
    pub bytes_joined: u64,
    /// Reading what stays, and waiting for rows that go around to be read.
    pub load_ms: f64,
    /// Preparing what stays.
    pub setup_ms: f64,
    /// Joining, and what was read, prepared and written meanwhile.
    pub join_ms: f64,
    /// Waiting for data.
    pub wait_ms: f64,
    /// Most memory of the process since this join began, in bytes; 0 where the system does not
    /// tell.
    pub peak_bytes: u64,
}

/// A schema as bytes.
pub(crate) fn schema_to(schema: &SchemaRef) -> Result<Vec<u8>, ClusterError> {
    Ok(StreamWriter::try_new(Vec::new(), schema)?.into_inner()?)
}

/// What [`schema_to`] made.
pub(crate) fn schema_from(bytes: &[u8]) -> Result<SchemaRef, ClusterError> {
    Ok(Arc::clone(&StreamReader::try_new(bytes, None)?.schema()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use annulus_dataset::InputOptions;

    use super::*;

    fn open(folder: &std::path::Path) -> Dataset {
        Dataset::open(&[folder.to_str().unwrap().to_owned()], &InputOptions::default()).unwrap()
    }

    #[test]
    fn files_that_are_others_are_noticed() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("b.csv"), "x\n1\n").unwrap();
        let files = Files::of(&open(folder.path()));
        let (processes, machines) = (Neighbours::Folder("any".into()), Neighbours::Ring(Vec::new()));
        assert!(files.are(&open(folder.path()), &processes) && files.are(&open(folder.path()), &machines));
        // Copied: of another time.
        let file = fs::File::options().append(true).open(folder.path().join("b.csv")).unwrap();
        file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
        assert!(!files.are(&open(folder.path()), &processes) && files.are(&open(folder.path()), &machines));
        fs::write(folder.path().join("a.csv"), "x\n2\n").unwrap();
        assert!(!files.are(&open(folder.path()), &processes) && !files.are(&open(folder.path()), &machines));
    }
}
