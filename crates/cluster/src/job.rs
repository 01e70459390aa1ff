//! Joins as users describe them.

use std::{
    fmt,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    str::FromStr,
    thread,
    time::Duration,
};

use annulus_dataset::{Collection, Existing, InputOptions, OutputFormat, Settings, input_that_reads};
use annulus_join::{JoinType, Side};
use serde::{Deserialize, Serialize};

use crate::error::ClusterError;

/// A join of two datasets.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct JoinJob {
    /// The inputs, the condition, and the rows and columns to output.
    pub query: Query,
    /// How the hosts run the join.
    pub options: JoinOptions,
    /// The folder of the result, with a folder for each host in it.
    pub output: PathBuf,
    /// The treatment of an existing dataset in the folder. [`Existing::Resume`] is not supported.
    pub existing: Existing,
    /// The format of the result's files.
    pub format: OutputFormat,
}

impl JoinJob {
    /// Returns a job with default options, which writes Parquet files to a new dataset in `output`.
    pub fn new(query: Query, output: impl Into<PathBuf>) -> Self {
        Self {
            query,
            options: JoinOptions::default(),
            output: output.into(),
            existing: Existing::Refuse,
            format: OutputFormat::Parquet,
        }
    }
}

/// The inputs and the condition of a join, and the rows and columns to output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Query {
    /// The left side.
    pub left: Input,
    /// The right side.
    pub right: Input,
    /// Pairs of columns, of the left and the right side, that must be equal.
    pub on: Vec<(String, String)>,
    /// A SQL predicate that pairs of rows must satisfy. The names of the inputs qualify their
    /// columns.
    pub condition: Option<String>,
    /// The rows to output.
    pub join: JoinKind,
    /// The expressions to output, as in SQL between `SELECT` and `FROM`. All columns if `None`.
    pub select: Option<String>,
    /// The suffix of a column of the right side if another column has the same name.
    pub suffix: String,
}

impl Query {
    /// Returns an inner join without a condition. Its suffix is `_right`.
    pub fn new(left: Input, right: Input) -> Self {
        Self {
            left,
            right,
            on: Vec::new(),
            condition: None,
            join: JoinKind(JoinType::Inner),
            select: None,
            suffix: "_right".to_owned(),
        }
    }

    /// Returns the settings that the manifest of its result records.
    pub(crate) fn settings(&self) -> Settings {
        let on = self.on.iter().map(|(left, right)| format!("{left}={right}")).collect::<Vec<_>>();
        let settings = [
            ("left", self.left.paths.join(" ")),
            ("right", self.right.paths.join(" ")),
            ("on", on.join(",")),
            ("where", self.condition.clone().unwrap_or_default()),
            ("type", self.join.to_string()),
        ];
        let select = self.select.clone().map(|select| ("select", select));
        settings.into_iter().chain(select).map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// Refuses an output folder whose files an input would read: hosts open their inputs while
    /// others write.
    pub(crate) fn refuse_nested(&self, output: &Path, format: OutputFormat) -> Result<(), ClusterError> {
        if output.as_os_str().is_empty() {
            // A plan without an output writes nothing.
            return Ok(());
        }
        let file = Collection::member_dir(output, 0).join(format!("part-00000.{}", format.extension()));
        match [&self.left, &self.right].into_iter().find_map(|input| input_that_reads(&input.paths, &file)) {
            Some(input) => Err(ClusterError::Nested { output: output.to_owned(), input: input.to_owned() }),
            None => Ok(()),
        }
    }
}

/// An input dataset.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Input {
    /// The name that qualifies its columns in SQL.
    pub name: String,
    /// Its files, folders and globs.
    pub paths: Vec<String>,
    /// How its files are read.
    pub options: InputOptions,
}

impl Input {
    /// Returns an input that is read with default options.
    pub fn new(name: impl Into<String>, paths: Vec<String>) -> Self {
        Self { name: name.into(), paths, options: InputOptions::default() }
    }
}

/// The shortest allowed timeout. Peers send five heartbeats per timeout.
pub const LEAST_TIMEOUT: Duration = Duration::from_secs(1);

/// Returns the given number of threads, or else the number of this machine's cores.
pub(crate) fn threads_or_cores(threads: Option<usize>) -> usize {
    threads.unwrap_or_else(|| thread::available_parallelism().map_or(1, NonZeroUsize::get))
}

/// How hosts run a join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct JoinOptions {
    /// The rotating side. If `None`, the one with fewer bytes, or on one host the one with more.
    pub rotate: Option<Side>,
    /// The algorithm of each host. If `None`, one that suits the condition; for equal keys, the one
    /// that is expected to take the shortest time.
    pub algorithm: Option<Algorithm>,
    /// The threads that join on each host. If `None`, as many as it has cores.
    pub threads: Option<usize>,
    /// The size of a fragment in bytes, which limits the size of a row of the rotating relation.
    pub fragment_bytes: u32,
    /// The number of buffers for fragments of each host, at least 3.
    pub buffers: u32,
    /// The time of silence after which a host counts as failed, at least [`LEAST_TIMEOUT`].
    pub timeout: Duration,
    /// The memory that each host may use, in bytes. No limit if `None`.
    pub memory_bytes: Option<u64>,
    /// Whether hosts share the input files or each has its own.
    pub inputs: Inputs,
    /// The filter of the stationary relation's keys that drops rotating rows without a partner
    /// before they are prepared and sent. With several revolutions, each has its filter.
    pub key_filter: KeyFilterMode,
    /// The links between hosts, on which the choice of the algorithm depends.
    pub link: Link,
    /// The number of parts of the stationary relation. Each part takes one revolution.
    pub revolutions: Revolutions,
    /// The time to wait in the queues of nodes that are busy with other joins. With zero, a busy
    /// node is an error.
    pub wait: Duration,
}

impl Default for JoinOptions {
    fn default() -> Self {
        Self {
            rotate: None,
            algorithm: None,
            threads: None,
            fragment_bytes: 1 << 20,
            buffers: 16,
            timeout: Duration::from_secs(5),
            memory_bytes: None,
            inputs: Inputs::Shared,
            key_filter: KeyFilterMode::Auto,
            link: Link::SharedMemory,
            revolutions: Revolutions::Exactly(1),
            wait: Duration::ZERO,
        }
    }
}

/// Whether hosts share the input files or each has its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Inputs {
    /// All hosts see the same files, and each reads a part of them.
    #[default]
    Shared,
    /// Each host has its own files under the same paths, with the same columns, and reads all of
    /// them. The coordinator needs some, too: it estimates the size of the inputs from them.
    Each,
}

/// Whether hosts make a filter of the stationary relation's keys, and of which form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyFilterMode {
    /// If it is expected to save more than it costs.
    #[default]
    Auto,
    /// No filter.
    Never,
    /// A Bloom filter.
    Bloom,
    /// The hashes of all keys.
    Exact,
}

/// The links between hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Link {
    /// The hosts are processes of one machine, and hand their buffers to each other.
    #[default]
    SharedMemory,
    /// The hosts are machines. A network of 1 GB/s is assumed.
    Network,
}

/// The number of revolutions of the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revolutions {
    /// The smallest number for which the memory limit suffices.
    Auto,
    /// This number.
    Exactly(usize),
}

/// The algorithm by which a host finds pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Algorithm {
    /// A hash join on equal keys.
    Hash,
    /// A sort-merge join: on equal keys, a band, or both.
    Merge,
    /// Nested loops: every pair is compared.
    Loops,
}

impl Algorithm {
    /// Returns the name that users write.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hash => "hash",
            Self::Merge => "merge",
            Self::Loops => "loops",
        }
    }
}

/// A join type of SQL, with the name that users write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "&'static str")]
pub struct JoinKind(pub JoinType);

const KINDS: [(&str, JoinType); 8] = [
    ("inner", JoinType::Inner),
    ("left", JoinType::Left),
    ("right", JoinType::Right),
    ("full", JoinType::Full),
    ("semi", JoinType::LeftSemi),
    ("anti", JoinType::LeftAnti),
    ("right-semi", JoinType::RightSemi),
    ("right-anti", JoinType::RightAnti),
];

impl JoinKind {
    /// Returns the names of all types.
    pub fn names() -> impl Iterator<Item = &'static str> {
        KINDS.iter().map(|(name, _)| *name)
    }

    /// Returns the name of the type.
    pub fn name(self) -> &'static str {
        KINDS.iter().find(|(_, join)| *join == self.0).map_or("inner", |(name, _)| name)
    }
}

impl fmt::Display for JoinKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for JoinKind {
    type Err = ClusterError;

    fn from_str(text: &str) -> Result<Self, ClusterError> {
        let known = KINDS.iter().find(|(name, _)| *name == text);
        known.map(|(_, join)| Self(*join)).ok_or_else(|| ClusterError::Option {
            option: "type",
            reason: format!(
                "invalid join type '{text}': expected one of {}",
                Self::names().collect::<Vec<_>>().join(", ")
            ),
        })
    }
}

impl TryFrom<String> for JoinKind {
    type Error = ClusterError;

    fn try_from(text: String) -> Result<Self, ClusterError> {
        text.parse()
    }
}

impl From<JoinKind> for &'static str {
    fn from(kind: JoinKind) -> Self {
        kind.name()
    }
}
