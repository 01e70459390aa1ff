//! The command line of `annulus reproduce pages`.

use std::path::PathBuf;

use annulus_baselines::generator::Keys;
use annulus_pages::page::PageLayout;
use annulus_terminal::{
    machine,
    units::{self, counted},
};
use clap::Args;

use crate::pages::{DEFAULT_BUFFER_BYTES, LIMIT_BYTES, Setting, default_memory_bytes};

const EXAMPLES: &str = "\
Examples:
  annulus reproduce pages
  annulus reproduce pages --out results --tuples 20M --rounds 5
  annulus reproduce pages --oversubscribe --skip-flink
  annulus reproduce pages --flink ~/annulus/bench/flink/run

Measures the figures of the evaluation in Ladner, Implementing an Efficient
Shuffle Operator for Streaming Database Systems, with Ranges, the way of
Annulus, beside the paper's variants:
  4.1, 4.2  throughput by threads; 16-byte tuples, 2, 4, 8 and 16 partitions
  4.3-4.5   the same for tuples of 4, 16 and 100 bytes, 32 and 1024 partitions
  4.6       peak memory; 16-byte tuples, 32 partitions, all cores
  4.7       Apache Flink's keyBy; 1024 partitions, all cores; skipped without
            Java or Maven

Every variant is checked byte by byte before it is timed. For the columns, see
annulus bench pages --help. When all is measured, pages.json, pages.csv and
pages.html are written to the folder.";

/// What is measured for the paper's figures.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = EXAMPLES)]
pub struct ReproduceArgs {
    /// Folder for the files, created if necessary
    #[arg(long, value_name = "DIR", default_value = "annulus-pages")]
    pub out: PathBuf,
    /// Tuples of each run, such as 500k [default: up to 67.2M]
    ///
    /// By default 67.2M, or as many as fit on pages in half of the memory.
    #[arg(long, value_name = "N", value_parser = units::parse_tuples)]
    pub tuples: Option<u64>,
    /// Timed runs of each variant
    #[arg(long, default_value = "3", value_name = "N", value_parser = units::parse_count)]
    pub rounds: usize,
    /// Measure up to twice as many threads as cores
    #[arg(long)]
    pub oversubscribe: bool,
    /// Most memory of a cell
    ///
    /// By default 60 % of the machine's memory, and at most 90 % of what is free.
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    pub memory: Option<usize>,
    /// Flink benchmark to run, or its folder
    ///
    /// By default bench/flink/run in this folder or one above it.
    #[arg(long, value_name = "PATH", conflicts_with = "skip_flink")]
    pub flink: Option<PathBuf>,
    /// Leave out figure 4.7
    #[arg(long)]
    pub skip_flink: bool,
    /// Take seconds, to test that all works; the figures mean nothing
    #[arg(long)]
    pub quick: bool,
}

const QUICK_TUPLES: u64 = 20_000;
const QUICK_PAGE_BYTES: usize = 16 << 10;

impl ReproduceArgs {
    /// Returns the number of tuples of each run, unless memory determines it.
    pub(super) fn tuples(&self) -> Option<u64> {
        self.tuples.or(self.quick.then_some(QUICK_TUPLES))
    }

    /// Returns the setting of all cells: the paper's, or a quick run's.
    pub(super) fn setting(&self) -> Setting {
        let memory = || default_memory_bytes(machine::memory_bytes(), machine::available_bytes());
        Setting {
            paper_page_bytes: if self.quick { QUICK_PAGE_BYTES } else { 5 << 20 },
            our_page_bytes: self.quick.then_some(QUICK_PAGE_BYTES),
            layout: PageLayout::Slotted,
            keys: Keys::Uniform,
            rounds: if self.quick { 1 } else { self.rounds },
            buffer_bytes: DEFAULT_BUFFER_BYTES,
            batch_tuples: None,
            memory_bytes: self.memory.map_or_else(memory, |bytes| bytes as u64),
            limit_bytes: if self.quick { 1 << 20 } else { LIMIT_BYTES },
            counters: false,
        }
    }

    /// Returns the size of a quick run in words, or `None` if it is not one.
    pub(super) fn quick_size(&self) -> Option<String> {
        let (tuples, setting) = (self.tuples()?, self.setting());
        self.quick.then(|| {
            format!(
                "{} a run, pages of {} KiB, {}",
                counted(tuples, "tuple"),
                setting.paper_page_bytes >> 10,
                counted(setting.rounds as u64, "round")
            )
        })
    }

    /// Returns the numbers of threads: from 1 to the number of cores, or twice as many.
    pub(super) fn threads(&self) -> Vec<usize> {
        let most = machine::cores() * if self.oversubscribe { 2 } else { 1 };
        (1..=most).collect()
    }
}
