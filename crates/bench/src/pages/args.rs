//! The command line of `annulus bench pages`.

use std::path::PathBuf;

use annulus_baselines::generator::Keys;
use annulus_pages::page::Layout;
use annulus_terminal::{machine, units};
use clap::{Args, ValueEnum};

use super::{
    setting::{Setting, default_memory_bytes},
    variant::Variant,
};

/// Options of `annulus bench pages`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  annulus bench pages
  annulus bench pages --tuples 10M --tuple-bytes 16 --partitions 32,1024 --threads 2
  annulus bench pages --variants Ranges,SmbLockFreeBatched --zipf 1.1 --rounds 7
  annulus bench pages --layout compact --page-size 1M --our-page-size 256K
  annulus bench pages --json > pages.jsonl
  annulus bench pages --csv pages.csv --html pages.html

Tuples are generated, partitioned by key % partitions, and written onto pages: by the ten variants \
of 'Implementing an Efficient Shuffle Operator for Streaming Database Systems' (Ladner), by its two \
best cases, which ignore the key, and by Ranges, the partitioner of Annulus.

A cell is a tuple size, a number of partitions and a number of threads. In each cell every variant \
runs once to check every byte on its pages, and once to count memory. Then all run in turn; each \
round starts with the next variant. All memory is warm: the paper's variants take zeroed pages from \
a heap, and Ranges takes pages from a pool. Memory is freed after each cell. A variant whose pages \
cannot fit is skipped, and a line says so.

The table has a row for each cell. All variants are in --json, --csv and --html.
  ours M/s       mtuples_per_s of Ranges
  paper's M/s    that of the fastest of the paper's ten variants, with its name
  ratio          ours divided by paper's: above 1, Ranges is faster
  bound M/s      the faster of the paper's best cases
  limit share, peak MB, spread: as below, of Ranges or of both

Columns of --json and --csv; times are medians of the rounds:
  tuple_bytes    bytes of a tuple, including the key of 4 bytes
  mtuples_per_s  million tuples divided by shuffle_s
  generate_s     seconds in the generator, averaged over the threads
  shuffle_s      total_s - generate_s
  total_s        seconds from the first batch to the last page
  limit_share    bytes put on pages per second (of shuffle_s), divided by what as many threads
                 write past the cache to warm huge pages, before and after the cell
  peak_mb        most page memory plus most other memory of a run, in units of 1024 x 1024 bytes
  page_bytes     bytes of a page
  spread         interquartile range of the rounds' throughput, divided by its median
  too_short      whether shuffle_s is under 1 ms: then mtuples_per_s means little
  layout, zipf   if they are not the default
  .._per_tuple   with --counters, from one more run")]
pub struct PagesArgs {
    /// Tuples of each run, like 500k or 67.2M [default: 67.2M, or as many as fit on pages in half of
    /// the memory]
    #[arg(long, value_name = "N", value_parser = units::parse_tuples)]
    pub tuples: Option<u64>,
    /// Bytes of a tuple, including its key of 4 bytes
    #[arg(long, value_name = "B", value_delimiter = ',', default_value = "4,16,100", value_parser = parse_tuple_bytes)]
    pub tuple_bytes: Vec<u32>,
    /// Numbers of partitions
    #[arg(long, value_name = "P", value_delimiter = ',', default_value = "2,8,32,256,1024,4096")]
    #[arg(value_parser = units::parse_count)]
    pub partitions: Vec<usize>,
    /// Numbers of threads [default: 1 and the number of cores]
    #[arg(long, value_name = "T", value_delimiter = ',', value_parser = units::parse_count)]
    pub threads: Vec<usize>,
    /// Variants [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub variants: Vec<Variant>,
    /// Options of the measurement.
    #[command(flatten)]
    pub tuning: Tuning,
    /// Print one JSON object a line instead of a table
    #[arg(long)]
    pub json: bool,
    /// Write all measurements as comma-separated values
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Write an HTML page with bar charts
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// Options of how cells are measured.
#[derive(Args, Clone, Debug)]
pub struct Tuning {
    /// Bytes of the pages of the paper's variants
    #[arg(long, value_name = "SIZE", default_value = "5M", value_parser = units::parse_size)]
    pub page_size: usize,
    /// Bytes of the pages of Ranges [default: by the number of partitions, 1M to 256K]
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    pub our_page_size: Option<usize>,
    /// What a slot of a page holds: key, offset and length, or the key alone
    #[arg(long, default_value = "slotted")]
    pub layout: LayoutArg,
    /// Draw keys by Zipf's law with this exponent, from 2^20 keys [default: evenly]
    #[arg(long, value_name = "S", allow_negative_numbers = true)]
    pub zipf: Option<f64>,
    /// Timed runs of each variant
    #[arg(long, default_value = "5", value_name = "R", value_parser = units::parse_count)]
    pub rounds: usize,
    /// Software-managed buffers of the paper's variants, all threads together [default: 1M]
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    pub buffers: Option<usize>,
    /// Tuples of a batch from the generator [default: as many as fit in 256 KiB]
    #[arg(long, value_name = "N", value_parser = units::parse_count)]
    pub batch: Option<usize>,
    /// Memory limit of a cell [default: 60 % of the machine's, at most 90 % of what is free]
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    pub memory: Option<usize>,
    /// Count events of the processor for each tuple: instructions, cycles, and misses of branches,
    /// caches and the TLB
    #[arg(long)]
    pub counters: bool,
}

/// A page layout, as named on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LayoutArg {
    /// Key, offset and length, as in the paper
    Slotted,
    /// The key alone
    Compact,
}

/// Most bytes that each thread writes to measure the machine's write throughput.
pub const LIMIT_BYTES: u64 = 1 << 30;
/// Default of `--buffers`: the software-managed buffers of the paper's variants.
pub const DEFAULT_BUFFER_BYTES: usize = 1 << 20;

impl Tuning {
    /// Returns the setting that these options ask for.
    pub fn setting(&self) -> Setting {
        let default = || default_memory_bytes(machine::memory_bytes(), machine::available_bytes());
        Setting {
            paper_page_bytes: self.page_size,
            our_page_bytes: self.our_page_size,
            layout: match self.layout {
                LayoutArg::Slotted => Layout::Slotted,
                LayoutArg::Compact => Layout::Compact,
            },
            keys: self.zipf.map_or(Keys::Uniform, Keys::Zipf),
            rounds: self.rounds,
            buffer_bytes: self.buffers.unwrap_or(DEFAULT_BUFFER_BYTES),
            batch_tuples: self.batch,
            memory_bytes: self.memory.map_or_else(default, |bytes| bytes as u64),
            limit_bytes: LIMIT_BYTES,
            counters: self.counters,
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
