//! The command line of `annulus-lab reproduce ring`.

use std::{collections::BTreeSet, path::PathBuf};

use annulus_terminal::{machine, units};
use clap::Args;
use serde_json::{Value, json};

use super::queries::QueryPlan;
use crate::reproduce::store::Start;

const EXAMPLES: &str = "\
Examples:
  annulus-lab reproduce ring
  annulus-lab reproduce ring --quick --out /tmp/ring
  annulus-lab reproduce ring --threads 1,2,4,8 --rounds 9

Measures the evaluation of Szymanski and Akidau, One Ring to Shuffle Them All
(arXiv:2605.29099), with all strategies, beside the published values:
  figure 5  throughput by threads, M = N, rows of 8 bytes
  figure 6  throughput by the size of rows, of a nearly normal size
  figure 7  throughput of the rings by K, 1 to 4, and the size of rows
  table 1   memory, synchronisation and time to the first row, as measured
  table 2   throughput by the size of rows, uniform and normal
  table 3   the same beside the paper's three machines
  figure 8  queries of TPC-H and ClickBench, with the ring and with channels
  table 4   their sums
and what the paper left out: M and N that differ, keys by Zipf's law, two rings
where one cache would have one, and processor events, if the machine counts any.

There may be more threads than cores; the page labels them. For the columns,
see annulus-lab bench exchange --help. Each query first runs with stock
DataFusion and in every other way, to compare the answers. One that fails in a
way stands on the page, and the same command repeats it. Tables are generated
once, as Parquet files, and then reused. Queries of ClickBench are left out
unless --clickbench names their file.

When all is measured, ring.json, ring.csv, ring-queries.csv and ring.html are
written to the folder. Results are kept there as they come. After Ctrl-C or a
crash, the same command goes on where it was.";

/// What is measured for the paper's figures.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = EXAMPLES)]
pub struct RingArgs {
    /// Folder for the files, created if necessary
    #[arg(long, value_name = "DIR", default_value = "annulus-ring")]
    pub out: PathBuf,
    /// Threads of figure 5, M and N [default: 1 to 192]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = units::parse_count)]
    pub threads: Vec<usize>,
    /// Bytes of rows in a run [default: that of annulus-lab bench exchange]
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    pub volume: Option<usize>,
    /// Timed runs of each strategy
    #[arg(long, default_value = "5", value_name = "N", value_parser = units::parse_count)]
    pub rounds: usize,
    /// Seed of keys, sizes and bytes
    #[arg(long, default_value = "1", value_name = "N")]
    pub seed: u64,
    /// Discard the results of an unfinished run
    #[arg(long)]
    pub restart: bool,
    /// Take under 3 minutes, to test that all works; the figures mean nothing
    #[arg(long)]
    pub quick: bool,
}

/// The threads of figure 5. The paper's are powers of two, and 192.
const THREADS: [usize; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 192];
const QUICK_THREADS: [usize; 2] = [1, 2];

impl RingArgs {
    pub(super) fn threads(&self) -> Vec<usize> {
        match (&self.threads[..], self.quick) {
            ([], true) => QUICK_THREADS.to_vec(),
            ([], false) => THREADS.to_vec(),
            (threads, _) => threads.iter().copied().collect::<BTreeSet<_>>().into_iter().collect(),
        }
    }

    pub(super) fn rounds(&self) -> usize {
        if self.quick { 1 } else { self.rounds }
    }

    /// Returns the sizes of rows: the paper's, or two of them.
    pub(super) fn row_bytes(&self) -> &'static [u32] {
        if self.quick { &[8, 64] } else { &[8, 16, 32, 64, 128, 256] }
    }

    /// Returns the threads of all other figures: all cores, and at least two.
    pub(super) fn full(&self) -> usize {
        machine::cores().max(2)
    }

    /// Returns what must be the same when a run goes on.
    pub(super) fn settings(&self, queries: &QueryPlan) -> Value {
        json!({ "figures": "ring", "threads": self.threads(), "volume": self.volume, "rounds": self.rounds(),
            "quick": self.quick, "queries": queries, "profile": "none" })
    }

    /// Returns whether the results of an unfinished run are used.
    pub(super) fn start(&self) -> Start {
        if self.restart { Start::Anew } else { Start::Resume }
    }

    /// Returns the size of a quick run in words, or `None` if it is not one.
    pub(super) fn quick_size(&self) -> Option<String> {
        self.quick.then(|| "1 round, few cells, few queries on small tables".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::{super::paper::FIGURE_5, *};

    #[test]
    fn every_published_number_of_threads_is_measured() {
        for [threads, ..] in FIGURE_5 {
            assert!(THREADS.contains(&threads.parse().unwrap()), "{threads}");
        }
    }
}
