//! The command line of `annulus-lab reproduce pages`.

use std::path::PathBuf;

use annulus_baselines::{clock::Clock, generator::Keys};
use annulus_pages::page::PageLayout;
use annulus_terminal::{
    machine,
    units::{self, counted},
};
use clap::Args;
use serde_json::{Value, json};

use crate::{
    pages::{DEFAULT_BUFFER_BYTES, LIMIT_BYTES, Setting, TupleSizes, default_memory_bytes},
    reproduce::store::Start,
};

const EXAMPLES: &str = "\
Examples:
  annulus-lab reproduce pages
  annulus-lab reproduce pages --out results --tuples 20M --rounds 5
  annulus-lab reproduce pages --oversubscribe --skip-flink
  annulus-lab reproduce pages --flink ~/annulus/bench/flink/run

Measures the figures of the evaluation in Ladner, Implementing an Efficient
Shuffle Operator for Streaming Database Systems, with Ranges, the way of
Annulus, beside the paper's variants:
  4.1, 4.2  throughput by threads; 16-byte tuples, 2, 4, 8 and 16 partitions
  4.3-4.5   the same for tuples of 4, 16 and 100 bytes, 32 and 1024 partitions
  4.6       peak memory; 16-byte tuples, 32 partitions, pages of 5 MiB, 1 to
            40 threads
  4.7       Apache Flink's keyBy; 1024 partitions, all cores; skipped without
            Java or Maven
Beside them stand the numbers that the paper's text has, from other hardware,
and the same of this machine.

Beyond the paper: tuples of any size (means of 16 and 100 bytes), and streams,
whose pages are taken out meanwhile; 32 and 1024 partitions, all cores.

Every variant is checked byte by byte before it is timed, with the page size
that suits it. Where the processor counts events, they are columns. A cell
that is too short to measure is repeated with more tuples, or left out. For
the columns, see annulus-lab bench pages --help. When all is measured,
pages.json, pages.csv and pages.html are written to the folder.

Results are kept in the folder as they come. After Ctrl-C or a crash, the same
command goes on where it was.";

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
    /// Discard the results of an unfinished run
    #[arg(long)]
    pub restart: bool,
    /// Take seconds, to test that all works; the figures mean nothing
    #[arg(long)]
    pub quick: bool,
}

const QUICK_TUPLES: u64 = 20_000;
const QUICK_PAGE_BYTES: usize = 16 << 10;
/// The page sizes that are tried for the paper's variants.
const PAGE_SIZES: [usize; 4] = [64 << 10, 256 << 10, 1 << 20, PAPER_PAGE_BYTES];
/// The paper's page size.
const PAPER_PAGE_BYTES: usize = 5 << 20;
/// The numbers of threads of figure 4.6, up to the paper's.
const MEMORY_THREADS: [usize; 6] = [1, 2, 4, 10, 20, 40];
/// The bytes of pages that wait in a stream.
const STREAM_BYTES: usize = 4 << 20;

impl ReproduceArgs {
    /// Returns the number of tuples of each run, unless memory determines it.
    pub(super) fn tuples(&self) -> Option<u64> {
        self.tuples.or(self.quick.then_some(QUICK_TUPLES))
    }

    /// Returns the setting of all cells: the paper's, or a quick run's.
    pub(super) fn setting(&self) -> Setting {
        let memory = || default_memory_bytes(machine::memory_bytes(), machine::available_bytes());
        Setting {
            page_sizes: if self.quick { vec![QUICK_PAGE_BYTES] } else { PAGE_SIZES.to_vec() },
            our_page_bytes: self.quick.then_some(QUICK_PAGE_BYTES),
            layout: PageLayout::Slotted,
            sizes: TupleSizes::Fixed,
            keys: Keys::Uniform,
            rounds: if self.quick { 1 } else { self.rounds },
            buffer_bytes: DEFAULT_BUFFER_BYTES,
            batch_tuples: None,
            memory_bytes: self.memory.map_or_else(memory, |bytes| bytes as u64),
            limit_bytes: if self.quick { 1 << 20 } else { LIMIT_BYTES },
            clock: Clock::Wall,
            counters: false,
            stream_bytes: None,
        }
    }

    /// Returns the setting of figure 4.6: the paper's pages.
    pub(super) fn memory_setting(&self, setting: &Setting) -> Setting {
        let page = if self.quick { QUICK_PAGE_BYTES } else { PAPER_PAGE_BYTES };
        Setting { page_sizes: vec![page], ..setting.clone() }
    }

    /// Returns the setting in which pages are taken out meanwhile.
    pub(super) fn stream_setting(&self, setting: &Setting) -> Setting {
        Setting { stream_bytes: Some(STREAM_BYTES), ..setting.clone() }
    }

    /// Returns what must be the same when a run goes on.
    pub(super) fn settings(&self) -> Value {
        let Self { tuples, rounds, oversubscribe, memory, quick, .. } = self;
        json!({ "figures": "pages", "tuples": tuples, "rounds": rounds, "oversubscribe": oversubscribe,
            "memory": memory, "quick": quick })
    }

    /// Returns whether the results of an unfinished run are used.
    pub(super) fn start(&self) -> Start {
        if self.restart { Start::Anew } else { Start::Resume }
    }

    /// Returns the numbers of threads of figure 4.6.
    pub(super) fn memory_threads(&self) -> Vec<usize> {
        let mut threads = MEMORY_THREADS.to_vec();
        threads.push(machine::cores());
        threads.sort_unstable();
        threads.dedup();
        threads
    }

    /// Returns the size of a quick run in words, or `None` if it is not one.
    pub(super) fn quick_size(&self) -> Option<String> {
        let (tuples, setting) = (self.tuples()?, self.setting());
        self.quick.then(|| {
            format!(
                "{} a run, pages of {} KiB, {}",
                counted(tuples, "tuple"),
                QUICK_PAGE_BYTES >> 10,
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
