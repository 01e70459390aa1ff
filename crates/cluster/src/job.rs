//! What a user asks for.

use std::{
    fmt,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    str::FromStr,
    thread,
    time::Duration,
};

use annulus_dataset::{Collection, Existing, InputOptions, OutputFormat, input_that_reads};
use annulus_join::{JoinType, Side};
use serde::{Deserialize, Serialize};

use crate::error::ClusterError;

/// A join of two datasets.
#[derive(Clone, Debug)]
pub struct JoinJob {
    /// What both sides are joined on, and what comes out.
    pub query: Query,
    /// How the hosts do it.
    pub options: JoinOptions,
    /// Where the result goes, a folder for each host in it.
    pub output: PathBuf,
    /// What is done about a dataset that is there: [`Existing::Resume`] is not known.
    pub existing: Existing,
    /// What files are written as.
    pub format: OutputFormat,
}

/// What is joined on what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Query {
    /// The left side.
    pub left: Input,
    /// The right side.
    pub right: Input,
    /// Columns of the left and the right side that are equal.
    pub on: Vec<(String, String)>,
    /// A SQL predicate over both sides, whose names qualify their columns. A pair of rows must
    /// satisfy it, too.
    pub condition: Option<String>,
    /// Which rows come out.
    pub join: JoinKind,
    /// Added to the names of columns of the right side that the left side has, too.
    pub suffix: String,
}

impl Query {
    /// Refuses an output folder whose files an input would read: hosts open their inputs while
    /// others write.
    pub(crate) fn refuse_nested(&self, output: &Path, format: OutputFormat) -> Result<(), ClusterError> {
        if output.as_os_str().is_empty() {
            // A plan alone writes nothing.
            return Ok(());
        }
        let file = Collection::member_dir(output, 0).join(format!("part-00000.{}", format.extension()));
        match [&self.left, &self.right].into_iter().find_map(|input| input_that_reads(&input.paths, &file)) {
            Some(input) => Err(ClusterError::Nested { output: output.to_owned(), input: input.to_owned() }),
            None => Ok(()),
        }
    }
}

/// A dataset.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Input {
    /// How a predicate calls it.
    pub name: String,
    /// Its files, folders and globs.
    pub paths: Vec<String>,
    /// How they are read.
    pub options: InputOptions,
}

/// Hosts and coordinators say that they are there five times in this time.
pub const LEAST_TIMEOUT: Duration = Duration::from_secs(1);

/// So many threads, or as many as this machine has cores.
pub(crate) fn threads_or_cores(threads: Option<usize>) -> usize {
    threads.unwrap_or_else(|| thread::available_parallelism().map_or(1, NonZeroUsize::get))
}

/// How hosts join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JoinOptions {
    /// The side that goes around; if none is named, the one with fewer bytes, or on one host the
    /// other one.
    pub rotate: Option<Side>,
    /// How each host finds pairs; what suits the condition if none is named.
    pub algorithm: Option<Algorithm>,
    /// Threads that join on each host; as many as it has cores if none are named.
    pub threads: Option<usize>,
    /// Most bytes of a fragment, and so of a row that goes around.
    pub fragment_bytes: u32,
    /// Buffers of each host for fragments, at least 3.
    pub buffers: u32,
    /// After this time without a word a host counts as failed; at least [`LEAST_TIMEOUT`].
    pub timeout: Duration,
    /// What each host may use of memory, in bytes.
    pub memory_bytes: Option<u64>,
    /// Whose the inputs' files are.
    pub inputs: Inputs,
    /// Into how many parts the side that stays is divided, each of which costs a revolution.
    pub revolutions: Revolutions,
}

/// Whose files stand under the paths of the inputs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Inputs {
    /// All hosts see the same files, and each reads a part of them.
    #[default]
    Shared,
    /// Each host has files of its own there, with the same columns, and reads them all. The
    /// coordinator has some, too, from which it tells how large the inputs are.
    Each,
}

/// How often the ring turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revolutions {
    /// As often as the limit of memory asks for.
    Auto,
    /// So often.
    Exactly(usize),
}

/// How a host finds pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Algorithm {
    /// By a hash of equal keys.
    Hash,
    /// By sorting both sides: equal keys, a band, or both.
    Merge,
    /// By looking at every pair.
    Loops,
}

impl Algorithm {
    /// Its name, as users write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hash => "hash",
            Self::Merge => "merge",
            Self::Loops => "loops",
        }
    }
}

/// A join of SQL, by the name that users write.
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
    /// All names.
    pub fn names() -> impl Iterator<Item = &'static str> {
        KINDS.iter().map(|(name, _)| *name)
    }

    /// Its name.
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
            reason: format!("'{text}' is no join; choose {}", Self::names().collect::<Vec<_>>().join(", ")),
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
