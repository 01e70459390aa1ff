//! Whole queries, for figure 8 and table 4. This crate runs no engine for them: the command hands
//! it a [`QueryRunner`].

mod page;
mod plan;

use std::{error::Error, fmt};

use anyhow::Result;
pub(super) use page::{figure_8, table_4};
pub use plan::QueryArgs;
pub(super) use plan::QueryPlan;
use serde::{Deserialize, Serialize};

use annulus_terminal::statistics::SHORTEST_S;

/// A benchmark of whole queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Suite {
    /// TPC-H, without query 21, which the paper's engine could not run.
    Tpch,
    /// ClickBench, whose queries have numbers from 1.
    Clickbench,
}

impl Suite {
    /// Both, in the paper's order.
    pub const ALL: [Self; 2] = [Self::Tpch, Self::Clickbench];

    /// Returns the name that people know.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tpch => "TPC-H",
            Self::Clickbench => "ClickBench",
        }
    }

    /// Returns its word in the files.
    pub fn word(self) -> &'static str {
        match self {
            Self::Tpch => "tpch",
            Self::Clickbench => "clickbench",
        }
    }
}

/// A way to run queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueryWay {
    /// The value of `annulus.strategy`.
    pub way: &'static str,
    /// The published groups of an exchange; 0 is the default. `None` for DataFusion's own operator.
    pub groups: Option<usize>,
}

/// All ways that are measured. The others are compared with the first one.
pub const WAYS: [QueryWay; 8] =
    [STOCK, RING, RING_K1, CHANNEL, CHANNEL_CLUSTER, PAPER_RING, MUTEX_CHANNEL_CLUSTER, AUTO];

const STOCK: QueryWay = QueryWay { way: "stock", groups: None };
/// The paper's K in whole queries is 2.
const RING: QueryWay = QueryWay { way: "ring", groups: Some(2) };
const RING_K1: QueryWay = QueryWay { way: "ring", groups: Some(1) };
/// With one group, a channel has room for a batch of each producer, as in the paper.
const CHANNEL: QueryWay = QueryWay { way: "channel", groups: Some(1) };
/// The paper's channels in whole queries: producers copy rows into batches of each consumer.
const CHANNEL_CLUSTER: QueryWay = QueryWay { way: "channel+cluster", groups: Some(1) };
/// The paper's own pair: its protocol, and its queues under a mutex.
const PAPER_RING: QueryWay = QueryWay { way: "paper-ring", groups: Some(2) };
const MUTEX_CHANNEL_CLUSTER: QueryWay = QueryWay { way: "mutex-channel+cluster", groups: Some(1) };
/// As a session has it by default, but without a profile of the machine.
const AUTO: QueryWay = QueryWay { way: "auto", groups: Some(0) };

/// The channels of figure 8, each with the ring that it is compared with.
const PAIRS: [(QueryWay, QueryWay); 3] =
    [(CHANNEL_CLUSTER, RING), (CHANNEL, RING), (MUTEX_CHANNEL_CLUSTER, PAPER_RING)];

impl QueryWay {
    /// Returns its name for people.
    pub fn name(self) -> String {
        match (self.way, self.groups) {
            ("ring", Some(groups)) => format!("ring, K = {groups}"),
            (way, _) => way.to_owned(),
        }
    }
}

/// The tables that queries read.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct QueryTables {
    /// The scale factor of TPC-H's tables.
    pub scale: f64,
    /// ClickBench's table.
    #[serde(flatten)]
    pub hits: Hits,
    /// The seed of ClickBench's table.
    #[serde(skip)]
    pub seed: u64,
}

/// Where ClickBench's table is from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum Hits {
    /// It is generated, with this number of rows.
    #[serde(rename = "hits_rows")]
    Generated(u64),
    /// It is a file or a folder.
    #[serde(rename = "hits_data")]
    Data(String),
}

/// A query to measure in all [`WAYS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueryCell {
    /// The benchmark that it is from.
    pub suite: Suite,
    /// The number, from 1.
    pub query: u8,
    /// The number of worker threads, and of partitions.
    pub threads: usize,
    /// The number of timed runs in each way.
    pub rounds: usize,
}

/// The time of a query in one of the [`WAYS`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WayTime {
    /// The strategy, and the path if it is not the default.
    pub way: String,
    /// The published groups of an exchange: of a ring, K.
    pub groups: Option<usize>,
    /// The median of the rounds in milliseconds, from the SQL text to the last row.
    pub ms: f64,
    /// The interquartile range of the rounds, divided by their median.
    pub spread: f64,
    /// The number of rows that passed through exchanges in a run.
    pub shuffled_rows: u64,
}

/// A query that gave the same answer in all ways, and its times.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct QueryLine {
    /// The benchmark that it is from.
    pub suite: Suite,
    /// The number, from 1.
    pub query: u8,
    /// The number of worker threads, and of partitions.
    pub threads: usize,
    /// The number of rows of the answer.
    pub rows: usize,
    /// Its times, in the order of [`WAYS`].
    pub ways: Vec<WayTime>,
}

impl QueryLine {
    fn time(&self, way: QueryWay) -> Option<&WayTime> {
        self.ways.iter().find(|time| time.way == way.way && time.groups == way.groups)
    }

    fn ms(&self, way: QueryWay) -> Option<f64> {
        self.time(way).map(|time| time.ms)
    }

    /// Returns the number of rows that passed through exchanges in a run with the ring.
    fn shuffled_rows(&self) -> u64 {
        self.ways.iter().find(|time| time.way == RING.way).map_or(0, |time| time.shuffled_rows)
    }

    fn shuffles(&self) -> bool {
        self.shuffled_rows() > 0
    }

    /// Returns whether the time in this way is too short to measure.
    fn is_too_short(&self, way: QueryWay) -> bool {
        self.ms(way).is_some_and(|ms| ms < 1e3 * SHORTEST_S)
    }

    /// Returns the logarithm to base 2 of the time in one way divided by the time in another,
    /// unless one of them is too short to measure.
    fn log2(&self, way: QueryWay, other: QueryWay) -> Option<f64> {
        let (ms, other_ms) = (self.ms(way)?, self.ms(other)?);
        (!self.is_too_short(way) && !self.is_too_short(other)).then(|| (ms / other_ms).log2())
    }
}

/// A query failed in one of the [`WAYS`], or an answer differed from that of the first one.
#[derive(Debug)]
pub struct QueryFailed(pub String);

impl fmt::Display for QueryFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for QueryFailed {}

/// Runs whole queries.
pub trait QueryRunner {
    /// Returns the version of DataFusion that runs them.
    fn datafusion_version(&self) -> String;

    /// Generates the tables that are missing.
    ///
    /// # Errors
    /// If a table cannot be written, or the run was interrupted.
    fn prepare(&mut self, tables: &QueryTables) -> Result<()>;

    /// Compares the answers of all [`WAYS`] with that of the first one. Then times the ways in
    /// turn, each `cell.rounds` times.
    ///
    /// # Errors
    /// [`QueryFailed`] if a query fails in one way or an answer differs: then the other queries are
    /// measured all the same. Another error if the run was interrupted.
    fn measure(&mut self, cell: &QueryCell) -> Result<QueryLine>;
}

/// Whole queries, and what runs them.
pub struct Whole<'a> {
    /// The tables and threads.
    pub args: &'a QueryArgs,
    /// The runner of the queries.
    pub runner: &'a mut dyn QueryRunner,
}

/// Returns a line of CSV for each query in each way, below a header.
pub(super) fn csv(lines: &[QueryLine]) -> String {
    let mut text = "suite,query,threads,rows,way,groups,ms,spread,shuffled_rows\n".to_owned();
    for line in lines {
        let QueryLine { suite, query, threads, rows, ways } = line;
        for WayTime { way, groups, ms, spread, shuffled_rows } in ways {
            let groups = groups.map_or(String::new(), |groups| groups.to_string());
            let suite = suite.word();
            text += &format!("{suite},{query},{threads},{rows},{way},{groups},{ms},{spread},{shuffled_rows}\n");
        }
    }
    text
}
