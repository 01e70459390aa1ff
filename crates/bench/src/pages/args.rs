//! The command line of `annulus bench pages`.

use std::path::PathBuf;

use annulus_baselines::generator::Keys;
use annulus_pages::page::PageLayout;
use annulus_terminal::{machine, units};
use clap::{Args, ValueEnum};

use super::{
    setting::{Setting, default_memory_bytes},
    variant::Variant,
};

/// What is measured, and how often.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  annulus bench pages
  annulus bench pages --tuples 10M --tuple-bytes 16 --partitions 32,1024 --threads 2
  annulus bench pages --variants Ranges,SmbLockFreeBatched --zipf 1.1 --rounds 7
  annulus bench pages --layout compact --page-size 1M --our-page-size 256K
  annulus bench pages --json > pages.jsonl
  annulus bench pages --csv pages.csv --html pages.html

Tuples are generated, partitioned by key % partitions, and written onto pages: in the ways of Ladner, Implementing an \
Efficient Shuffle Operator for Streaming Database Systems, in its two best cases, which ignore the key, and by Ranges, the way \
of Annulus.

For every cell (tuple size, partitions, threads) each variant runs once and every byte on its pages is checked, and once more \
to count memory. Then all run in turn, each round beginning with the next one. All memory is warm: the paper's variants take \
zeroed pages from a heap, and Ranges from a pool, that have as many touched pages as the checked run took. The memory is given \
back after each cell. A variant whose pages cannot fit is skipped, with a line that says so.

The table has a row for each cell; all variants are in --json, --csv and --html:
  ours M/s       mtuples_per_s of Ranges
  paper's M/s    that of the fastest of the paper's ten variants, which is named
  ratio          the first by the second: above 1 Ranges is faster
  bound M/s      the faster of the paper's best cases
  limit share, peak MB, spread: as below, of Ranges, or of both

Columns of --json and --csv, times being medians of the rounds:
  tuple_bytes    with the key of 4 bytes
  mtuples_per_s  million tuples by shuffle_s
  generate_s     seconds in the generator, averaged over the threads
  shuffle_s      total_s - generate_s
  total_s        seconds from the first batch to the last page
  limit_share    bytes put on pages a second (shuffle_s), by what as many threads write
                 past the cache to warm huge pages before and after the cell
  peak_mb        most page memory and most other memory of a run, in units of 1024 x 1024 bytes
  page_bytes     bytes of a page
  spread         interquartile range of the rounds' throughput, by its median
  layout, zipf   if they are not the default
  .._per_tuple   with --counters, from one more run")]
pub struct PagesArgs {
    /// Tuples of each run, like 500k or 67.2M [default: 67.2M, or as many as have room on pages in
    /// half of the memory]
    #[arg(long, value_name = "N", value_parser = units::parse_tuples)]
    pub tuples: Option<u64>,
    /// Bytes of a tuple, with its key of 4 bytes
    #[arg(long, value_name = "B", value_delimiter = ',', default_value = "4,16,100", value_parser = parse_tuple_bytes)]
    pub tuple_bytes: Vec<u32>,
    /// Numbers of partitions
    #[arg(long, value_name = "P", value_delimiter = ',', default_value = "2,8,32,256,1024,4096", value_parser = units::parse_count)]
    pub partitions: Vec<usize>,
    /// Numbers of threads [default: 1 and the number of cores]
    #[arg(long, value_name = "T", value_delimiter = ',', value_parser = units::parse_count)]
    pub threads: Vec<usize>,
    /// Variants [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub variants: Vec<Variant>,
    /// How it is measured.
    #[command(flatten)]
    pub tuning: Tuning,
    /// Print one JSON object a line instead of a table
    #[arg(long)]
    pub json: bool,
    /// Write all measurements as comma-separated values
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Write a page with the bars drawn
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// How cells are measured.
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
    /// Keys by Zipf's law with this exponent, over 2^20 keys [default: even]
    #[arg(long, value_name = "S", allow_negative_numbers = true)]
    pub zipf: Option<f64>,
    /// Timed runs of each variant
    #[arg(long, default_value = "5", value_name = "R", value_parser = units::parse_count)]
    pub rounds: usize,
    /// Software-managed buffers of the paper's variants, of all threads together [default: 1M]
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    pub buffers: Option<usize>,
    /// Tuples that the generator makes at once [default: as many as 256 KiB hold]
    #[arg(long, value_name = "N", value_parser = units::parse_count)]
    pub batch: Option<usize>,
    /// Most memory of a cell [default: 60 % of the machine's, and 90 % of what is free]
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    pub memory: Option<usize>,
    /// Count events of the processor for each tuple: instructions, cycles, and misses of branches,
    /// caches and the TLB
    #[arg(long)]
    pub counters: bool,
}

/// A page layout by its word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LayoutArg {
    /// Key, offset and length, as the paper has it
    Slotted,
    /// The key alone
    Compact,
}

/// Most bytes that each thread writes to measure what the machine can.
pub const LIMIT_BYTES: u64 = 1 << 30;
/// Software-managed buffers of the paper's variants, unless the user says so.
pub const DEFAULT_BUFFER_BYTES: usize = 1 << 20;

impl Tuning {
    /// The setting that is asked for.
    pub fn setting(&self) -> Setting {
        let default = || default_memory_bytes(machine::memory_bytes(), machine::available_bytes());
        Setting {
            paper_page_bytes: self.page_size,
            our_page_bytes: self.our_page_size,
            layout: match self.layout {
                LayoutArg::Slotted => PageLayout::Slotted,
                LayoutArg::Compact => PageLayout::Compact,
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

/// Reads the bytes of a tuple, at least those of its key.
pub fn parse_tuple_bytes(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(bytes) if (4..=65_536).contains(&bytes) => Ok(bytes),
        _ => Err(format!("'{text}' is no tuple size; choose 4 (the key alone) to 65536 bytes")),
    }
}

/// One thread and as many as there are cores.
pub fn default_threads() -> Vec<usize> {
    let mut threads = vec![1, machine::cores()];
    threads.dedup();
    threads
}
