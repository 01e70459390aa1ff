//! The command line of `annulus-lab bench pages`.

use std::path::PathBuf;

use annulus_baselines::{clock::Clock, generator::Keys};
use annulus_pages::page::PageLayout;
use annulus_terminal::{machine, units};
use clap::{Args, ValueEnum};

use super::{
    setting::{Setting, TupleSizes, default_memory_bytes},
    variant::Variant,
};

const EXAMPLES: &str = "\
Examples:
  annulus-lab bench pages
  annulus-lab bench pages --tuples 10M --tuple-bytes 16 --partitions 32,1024
  annulus-lab bench pages --variants Ranges,SmbLockFreeBatched --zipf 1.1
  annulus-lab bench pages --layout compact --page-sizes 1M --our-page-size 256K
  annulus-lab bench pages --sizes normal --tuple-bytes 100 --partitions 32
  annulus-lab bench pages --stream --waiting 4M --partitions 32 --threads 2
  annulus-lab bench pages --json > pages.jsonl
  annulus-lab bench pages --csv pages.csv --html pages.html

Tuples are generated, partitioned by key % partitions, and written onto pages.
The variants are those of Ladner, Implementing an Efficient Shuffle Operator
for Streaming Database Systems; its two best cases, which ignore the key; and
Ranges, the way of Annulus.

A cell is a tuple size, a number of partitions and a number of threads. In
each cell, the paper's variants run once with each of --page-sizes, and again
with those that are within a fifth of the best. Each variant is then measured
with the size that suits it; Ranges with its default. A size is left out if
the pages that are not full would take over four times the tuples' bytes.

With its size, every variant runs once to check every byte on its pages, and
once more to count memory. Then all variants run in turn, each round starting
with the next one. All page memory is touched before it is timed: the paper's
variants take zeroed pages from a heap, Ranges from a pool. A variant whose
pages cannot fit is skipped, and a line says so.

With --clock processor, other programs on the machine disturb less, but time
in which a thread waits for another one does not count.

With --stream, one more thread takes pages out while a variant runs, and gives
them back at once. Variants that cannot hand on pages are skipped, and a line
says why.

The table has a row for each cell; --json, --csv and --html have all variants:
  ours M/s       mtuples_per_s of Ranges
  paper's M/s    the fastest of the paper's variants, with its page size
  ratio          ours M/s / paper's M/s; above 1, Ranges is faster
  bound M/s      the faster of the paper's best cases
  copy M/s       the faster of the two plain copies below
  limit share, peak MB, spread
                 as below, of Ranges or of both

Columns of --json and --csv; times are medians of the rounds:
  tuple_bytes    including the key of 4 bytes; the mean with --sizes
  mtuples_per_s  million tuples / shuffle_s
  generate_s     seconds in the generator, averaged over the threads
  shuffle_s      total_s - generate_s
  total_s        seconds from the first batch to the last page
  limit_share    bytes put on pages per second of shuffle_s, divided by what as
                 many threads write past the cache to warm huge pages, before
                 and after the cell
  copy_mtuples_per_s
                 a plain copy of the same bytes from batches to warm huge pages
                 past the cache, by as many threads, without partitions
  copy_cached_mtuples_per_s
                 the same through the cache
  peak_mb        most page memory and other memory of a run, in MiB
  page_bytes     size of a page: the best of page_sizes
  page_sizes     mtuples_per_s with each size that was tried
  spread         interquartile range of the rounds' throughput / its median
  too_short      whether shuffle_s is under 1 ms: then mtuples_per_s means
                 little
  first_page_s   with --stream: seconds until the first page was taken out
  sizes, layout, zipf
                 if not the default
  .._per_tuple   with --counters, from one more run";

/// What the benchmark measures, and how often.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = EXAMPLES)]
pub struct PagesArgs {
    /// Tuples of each run, such as 500k [default: up to 67.2M]
    ///
    /// By default 67.2M, or as many as fit on pages in half of the memory.
    #[arg(long, value_name = "N", value_parser = units::parse_tuples)]
    pub tuples: Option<u64>,
    /// Sizes of a tuple, including its key of 4 bytes
    #[arg(long, value_name = "BYTES", value_delimiter = ',', default_value = "4,16,100")]
    #[arg(value_parser = parse_tuple_bytes)]
    pub tuple_bytes: Vec<u32>,
    /// Numbers of partitions
    #[arg(
        long,
        value_name = "N",
        value_delimiter = ',',
        default_value = "2,8,32,256,1024,4096",
        value_parser = units::parse_count
    )]
    pub partitions: Vec<usize>,
    /// Numbers of threads [default: 1 and the number of cores]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = units::parse_count)]
    pub threads: Vec<usize>,
    /// Variants to compare [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',', ignore_case = true, hide_possible_values = true)]
    pub variants: Vec<Variant>,
    /// How cells are measured.
    #[command(flatten)]
    pub tuning: TuningArgs,
    /// Print one JSON object per line instead of a table
    #[arg(long)]
    pub json: bool,
    /// Write all measurements as a CSV file
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Write an HTML report with bar charts
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// How cells are measured.
#[derive(Args, Clone, Debug)]
pub struct TuningArgs {
    /// Page sizes to try for the paper's variants
    #[arg(long, value_name = "SIZES", value_delimiter = ',', default_value = "64K,256K,1M,5M")]
    #[arg(value_parser = units::parse_size)]
    pub page_sizes: Vec<usize>,
    /// Page size of Ranges [default: 2M to 256K, by partitions]
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    pub our_page_size: Option<usize>,
    /// Distribution of tuple sizes
    #[arg(long, default_value = "fixed")]
    pub sizes: SizesArg,
    /// Take pages out while a variant runs
    #[arg(long)]
    pub stream: bool,
    /// Most bytes of complete pages that wait with --stream
    #[arg(long, value_name = "SIZE", default_value = "4M", value_parser = units::parse_size, requires = "stream")]
    pub waiting: usize,
    /// Contents of a page's slots
    #[arg(long, default_value = "slotted")]
    pub layout: LayoutArg,
    /// Exponent of a Zipf distribution of keys [default: uniform]
    ///
    /// There are 2^20 keys.
    #[arg(long, value_name = "S", allow_negative_numbers = true)]
    pub zipf: Option<f64>,
    /// Timed runs of each variant
    #[arg(long, default_value = "5", value_name = "N", value_parser = units::parse_count)]
    pub rounds: usize,
    /// Software-managed buffers of all threads together [default: 1M]
    ///
    /// Only the paper's variants have them.
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    pub buffers: Option<usize>,
    /// Tuples that the generator makes at once [default: 256 KiB]
    #[arg(long, value_name = "N", value_parser = units::parse_count)]
    pub batch: Option<usize>,
    /// Most memory of a cell
    ///
    /// By default 60 % of the machine's memory, and at most 90 % of what is free.
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    pub memory: Option<usize>,
    /// What times are measured by
    #[arg(long, default_value = "wall")]
    pub clock: ClockArg,
    /// Count processor events for each tuple
    ///
    /// Instructions, cycles, and misses of branches, caches and the TLB.
    #[arg(long)]
    pub counters: bool,
}

/// The distribution of tuple sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SizesArg {
    /// All have --tuple-bytes
    Fixed,
    /// Payloads from 0 to twice their mean
    Uniform,
    /// Payloads nearly normal around their mean
    Normal,
}

/// The clock of all times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ClockArg {
    /// Time that passes
    Wall,
    /// Time of all threads on cores, divided by their number, for busy machines
    Processor,
}

/// The layout of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LayoutArg {
    /// Key, offset and length, as in the paper
    Slotted,
    /// The key alone
    Compact,
}

/// The largest number of bytes that each thread writes to measure the machine's write throughput.
pub const LIMIT_BYTES: u64 = 1 << 30;
/// The default of `--buffers`: the size of the software-managed buffers of the paper's variants.
pub const DEFAULT_BUFFER_BYTES: usize = 1 << 20;

impl TuningArgs {
    /// Returns the setting that these options ask for.
    pub fn setting(&self) -> Setting {
        let default = || default_memory_bytes(machine::memory_bytes(), machine::available_bytes());
        Setting {
            page_sizes: self.page_sizes.clone(),
            our_page_bytes: self.our_page_size,
            layout: match self.layout {
                LayoutArg::Slotted => PageLayout::Slotted,
                LayoutArg::Compact => PageLayout::Compact,
            },
            sizes: match self.sizes {
                SizesArg::Fixed => TupleSizes::Fixed,
                SizesArg::Uniform => TupleSizes::Uniform,
                SizesArg::Normal => TupleSizes::Normal,
            },
            keys: self.zipf.map_or(Keys::Uniform, Keys::Zipf),
            rounds: self.rounds,
            buffer_bytes: self.buffers.unwrap_or(DEFAULT_BUFFER_BYTES),
            batch_tuples: self.batch,
            memory_bytes: self.memory.map_or_else(default, |bytes| bytes as u64),
            limit_bytes: LIMIT_BYTES,
            clock: match self.clock {
                ClockArg::Wall => Clock::Wall,
                ClockArg::Processor => Clock::Processor,
            },
            counters: self.counters,
            stream_bytes: self.stream.then_some(self.waiting),
        }
    }
}

/// Reads the bytes of a tuple: at least the 4 of its key.
pub fn parse_tuple_bytes(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(bytes) if (4..=65_536).contains(&bytes) => Ok(bytes),
        _ => Err(format!("invalid tuple size '{text}': expected 4 (the key alone) to 65536 bytes")),
    }
}

/// Returns the default of `--threads`: 1 and the number of cores.
pub fn default_threads() -> Vec<usize> {
    let mut threads = vec![1, machine::cores()];
    threads.dedup();
    threads
}
