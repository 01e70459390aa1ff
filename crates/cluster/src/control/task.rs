//! One host's part of a join, as the coordinator orders it.

use std::{path::PathBuf, sync::Arc};

use annulus_dataset::{Compression, Dataset, Existing, OutputFormat};
use annulus_join::{Side, Sides};
use arrow::{
    datatypes::SchemaRef,
    ipc::{reader::StreamReader, writer::StreamWriter},
};
use serde::{Deserialize, Serialize};

use crate::{
    error::ClusterError,
    job::{Algorithm, Query, threads_or_cores},
};

/// The largest number of threads of a host.
pub(crate) const MOST_THREADS: usize = 4096;
/// The largest number of revolutions of a join.
pub(crate) const MOST_REVOLUTIONS: usize = 1 << 20;

/// One host's part of a join.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Task {
    pub(crate) join: JoinTask,
    /// The left and the right side.
    pub(crate) inputs: Sides<InputTask>,
    pub(crate) ring: RingTask,
    pub(crate) resources: Resources,
    pub(crate) output: HostOutput,
}

/// The join, the same for all hosts.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct JoinTask {
    pub(crate) query: Query,
    /// The time that functions like `now()` return, in nanoseconds since 1970.
    pub(crate) now_ns: i64,
    /// The rotating side.
    #[serde(with = "side_name")]
    pub(crate) rotate: Side,
    pub(crate) algorithm: Algorithm,
    pub(crate) revolutions: usize,
    /// Set if the only host runs the join as a query of DataFusion, without a ring.
    pub(crate) single: Option<Single>,
}

/// How a single host runs a join.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Single {
    /// Whether the keys of the stationary relation may drop rows of the other one where they are
    /// read.
    pub(crate) key_filter: bool,
}

/// The part of one input that a host reads.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct InputTask {
    /// The columns of the input, as an Arrow IPC stream without batches.
    pub(crate) schema: Vec<u8>,
    /// The units of the dataset that this host reads; all if `None`.
    pub(crate) units: Option<Vec<usize>>,
    /// The files that the units are parts of.
    pub(crate) files: Files,
}

/// A host's place in the ring, and the ring's buffers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct RingTask {
    pub(crate) host: u16,
    pub(crate) hosts: u16,
    /// A number that is unique to the join.
    pub(crate) session: u64,
    pub(crate) neighbours: Neighbours,
    pub(crate) fragment_bytes: u32,
    pub(crate) buffers: u32,
    pub(crate) timeout_ms: u64,
}

/// The threads and the memory that a host may use.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Resources {
    /// The number of threads. If `None`, the number of cores.
    pub(crate) threads: Option<usize>,
    /// The limit of memory in bytes. If `None`, there is none.
    pub(crate) memory_bytes: Option<u64>,
    /// The most bytes of the rotating relation that are kept in memory between revolutions.
    pub(crate) kept_bytes: u64,
}

/// A side in messages: `"left"` or `"right"`.
mod side_name {
    use annulus_join::Side;
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(side: &Side, serializer: S) -> Result<S::Ok, S::Error> {
        if *side == Side::Left { "left" } else { "right" }.serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Side, D::Error> {
        match String::deserialize(deserializer)?.as_str() {
            "left" => Ok(Side::Left),
            "right" => Ok(Side::Right),
            other => Err(D::Error::custom(format!("invalid side '{other}'"))),
        }
    }
}

/// The state of a dataset's files when the join was planned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Files {
    fingerprint: Option<String>,
    outline: Option<u64>,
}

impl Files {
    pub(crate) fn of(dataset: &Dataset) -> Self {
        Self { fingerprint: dataset.fingerprint.clone(), outline: dataset.outline }
    }

    /// Returns whether a host sees the same files. On another machine, paths and modification times
    /// may differ.
    fn are(&self, dataset: &Dataset, neighbours: &Neighbours) -> bool {
        match neighbours {
            Neighbours::Folder(_) => self.fingerprint == dataset.fingerprint,
            Neighbours::Ring(_) => self.outline == dataset.outline,
        }
    }
}

impl Task {
    /// Returns whether a dataset is unchanged since the units of side `side` were assigned.
    pub(crate) fn is_planned_for(&self, dataset: &Dataset, side: Side) -> bool {
        let InputTask { units, files, .. } = &self.inputs[side];
        units.is_none() || files.are(dataset, &self.ring.neighbours)
    }

    /// Checks the numbers of an order, because it may come from another program.
    pub(crate) fn checked(mut self) -> Result<Self, ClusterError> {
        let fits = (1..=MOST_THREADS).contains(&self.resources.threads.unwrap_or(1))
            && (1..=MOST_REVOLUTIONS).contains(&self.join.revolutions)
            && self.ring.host < self.ring.hosts
            && (self.join.single.is_none() || self.ring.hosts == 1 && self.join.revolutions == 1);
        if fits {
            // The machine may lose cores later, and how many rows are read together depends on
            // their number.
            self.resources.threads = Some(self.threads());
            Ok(self)
        } else {
            Err(ClusterError::Control { reason: "an order has a number that is out of range".to_owned() })
        }
    }

    /// Returns the number of threads that join on this host.
    pub(crate) fn threads(&self) -> usize {
        threads_or_cores(self.resources.threads)
    }
}

/// How a host finds its neighbours.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Neighbours {
    /// By sockets in a folder: hosts of one machine, which share their buffers.
    Folder(PathBuf),
    /// By the ring file, of which each host has a copy. Holds the names of the participating hosts,
    /// in order.
    Ring(Vec<String>),
}

/// The place of a host's files: its folder within the folder of the result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HostOutput {
    pub(crate) dir: PathBuf,
    pub(crate) member: usize,
    pub(crate) format: OutputFormat,
    pub(crate) compression: Compression,
    pub(crate) existing: Existing,
}

/// Encodes a schema.
pub(crate) fn schema_to(schema: &SchemaRef) -> Result<Vec<u8>, ClusterError> {
    Ok(StreamWriter::try_new(Vec::new(), schema)?.into_inner()?)
}

/// Decodes a schema that [`schema_to`] encoded.
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
    fn changed_files_are_detected() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("b.csv"), "x\n1\n").unwrap();
        let files = Files::of(&open(folder.path()));
        let (processes, machines) = (Neighbours::Folder("any".into()), Neighbours::Ring(Vec::new()));
        assert!(files.are(&open(folder.path()), &processes) && files.are(&open(folder.path()), &machines));
        // A copy with another modification time.
        let file = fs::File::options().append(true).open(folder.path().join("b.csv")).unwrap();
        file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
        assert!(!files.are(&open(folder.path()), &processes) && files.are(&open(folder.path()), &machines));
        fs::write(folder.path().join("a.csv"), "x\n2\n").unwrap();
        assert!(!files.are(&open(folder.path()), &processes) && !files.are(&open(folder.path()), &machines));
    }
}
