//! The command line of `annulus-lab bench exchange`.

use std::{fmt, path::PathBuf, str::FromStr};

use annulus_exchange::{Strategy, transport::Shape as TransportShape};
use annulus_terminal::units::{self, Shape};
use clap::{Args, ValueEnum, builder::PossibleValuesParser};
use serde::{Deserialize, Serialize};

use crate::words::name;

const EXAMPLES: &str = "\
Examples:
  annulus-lab bench exchange
  annulus-lab bench exchange --threads 2x2,16x16,192x192 --row-bytes 8
  annulus-lab bench exchange --strategies ring,paper-ring --groups 2 --rounds 9
  annulus-lab bench exchange --keys zipf --sizes normal --json > exchange.jsonl

The benchmark of section 4 of Szymanski and Akidau, One Ring to Shuffle Them
All (arXiv:2605.29099), for all strategies. Each producer makes batches, each a
copy of one of four in new memory, and indexes it by consumer. All strategies
but reserve pass the batches on by reference. reserve copies the rows. Each
consumer computes a checksum of every byte of its rows. Rows and checksums are
compared with the input's after every run. Strategies run in turn; each round
starts with the next one. There may be more threads than cores. batch, which
holds all rows, is left out where they need over half of the free memory.

Columns:
  GB/s         10^9 bytes of rows per second, median of the rounds; too short
               if a round takes under 1 ms, fills a ring under 32 times, or has
               under twice the batches of a ring from each producer
  spread       interquartile range of the rounds / their median
  limit        GB/s / GB/s of the producers' threads alone, which make the
               batches, index them, and compute all checksums: near 1, the
               strategy costs nothing
  first ms     time until half of the consumers have seen a row
  peak MB      most heap memory above the start, in an untimed run
  ops, locks   shared read-modify-write operations and lock acquisitions for
               each batch; of producers / of consumers
  hand-offs    stores that pass a value or a group on, for each batch
  wake-ups     wakers that handles called / threads that were woken by others
               which a handle had woken, for each batch
  switches     context switches of all threads, for each batch

With --keys zipf, keys follow Zipf's law with the exponent of --exponent. With
--sizes normal, row sizes have a normal distribution with a standard deviation
of a quarter of --row-bytes.";

/// The bytes of rows in a run, unless the command line says otherwise.
const VOLUME: usize = 256 << 20;
/// The fewest batches of a producer in a volume that the command line sets.
const FEWEST_BATCHES: usize = 4;
/// How often a run fills a ring if it is to count as measured. Until a ring has filled for the
/// first time, producers do not wait and take new memory for each batch.
const REVOLUTIONS: usize = 32;
/// The number of times that each producer fills a ring in a run that counts as measured.
/// With more threads than cores, a producer that has its turn may fill a ring alone, and all of these
/// batches are in new memory.
const FILLS: usize = 2;

/// Returns the fewest batches of all producers with which a run counts as measured.
pub(super) fn steady_batches(shape: TransportShape) -> usize {
    REVOLUTIONS.max(FILLS * shape.producers) * (shape.groups + 1) * shape.slots
}

/// What the benchmark measures, and how often.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = EXAMPLES)]
pub struct ExchangeArgs {
    /// Producers and consumers
    #[arg(long, value_name = "MxN", value_delimiter = ',', default_value = "2x2,4x4,16x16")]
    pub threads: Vec<Shape>,
    /// Bytes of a row, or their mean
    #[arg(long, value_name = "BYTES", value_delimiter = ',', default_value = "8,64,256",
        value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub row_bytes: Vec<u32>,
    /// Rows of a batch
    #[arg(long, value_name = "N", default_value = "8192", value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub rows: u32,
    /// Bytes of rows in a run [default: 256M, or as many as can be measured]
    ///
    /// That is 32 times what a ring holds, or twice that for each of more than 16 producers. At least
    /// four batches for each producer, or as many as --batches says.
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    pub volume: Option<usize>,
    /// Batches of each producer, instead of --volume
    #[arg(long, value_name = "N", value_parser = units::parse_count)]
    pub batches: Option<usize>,
    /// Sizes of rows
    #[arg(long, default_value = "uniform")]
    pub sizes: Sizes,
    /// Distribution of the keys
    #[arg(long, default_value = "uniform")]
    pub keys: Keys,
    /// Exponent of --keys zipf
    #[arg(long, value_name = "S", default_value = "1.0", value_parser = parse_exponent)]
    pub exponent: f64,
    /// Strategies [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',', hide_default_value = true,
        value_parser = PossibleValuesParser::new(words()), default_values_t = words().map(str::to_owned))]
    strategies: Vec<String>,
    /// Published groups of a ring, K
    #[arg(long, value_name = "K", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub groups: u32,
    /// Slots of a group, G [default: M]
    #[arg(long, value_name = "G", value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub slots: Option<u32>,
    /// Rings of ring-per-domain [default: last-level caches with producers]
    #[arg(long, value_name = "N", value_parser = units::parse_count)]
    pub domains: Option<usize>,
    /// Let the system move threads, instead of one pair for each CPU
    #[arg(long)]
    pub unpinned: bool,
    /// Timed runs of each strategy
    #[arg(long, default_value = "5", value_name = "N", value_parser = units::parse_count)]
    pub rounds: usize,
    /// Seed of keys, sizes and bytes
    #[arg(long, default_value = "1", value_name = "N")]
    pub seed: u64,
    /// Count hardware events in the untimed run, as columns for each row
    #[arg(long)]
    pub counters: bool,
    /// Print one JSON object per line instead of a table
    #[arg(long)]
    pub json: bool,
    /// Write the lines as CSV, too
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
}

impl ExchangeArgs {
    /// Returns the defaults for one cell: all strategies, pinned.
    pub(crate) fn new(threads: Shape, row_bytes: u32, volume: Option<usize>) -> Self {
        Self {
            threads: vec![threads],
            row_bytes: vec![row_bytes],
            rows: 8192,
            volume,
            batches: None,
            sizes: Sizes::Uniform,
            keys: Keys::Uniform,
            exponent: 1.0,
            strategies: words().map(str::to_owned).collect(),
            groups: 1,
            slots: None,
            domains: None,
            unpinned: false,
            rounds: 1,
            seed: 1,
            counters: false,
            json: false,
            csv: None,
        }
    }

    /// Returns the batches of each producer in a run of this shape.
    pub(super) fn batches_of_each(&self, shape: TransportShape, row_bytes: u32) -> usize {
        let batch_bytes = self.rows as usize * row_bytes as usize;
        let of = |volume: usize| (volume / shape.producers / batch_bytes).max(FEWEST_BATCHES);
        self.batches.unwrap_or_else(|| match self.volume {
            Some(volume) => of(volume),
            None => of(VOLUME).max(steady_batches(shape).div_ceil(shape.producers)),
        })
    }

    /// Sets the strategies.
    pub(crate) fn set_strategies(&mut self, strategies: &[Strategy]) {
        self.strategies = strategies.iter().map(Strategy::to_string).collect();
    }

    /// Returns what tells the cell from others of a run.
    pub(crate) fn key(&self) -> String {
        let Self { threads, row_bytes, sizes, keys, groups, .. } = self;
        let threads: Vec<_> = threads.iter().map(Shape::to_string).collect();
        format!("threads={} row_bytes={row_bytes:?} sizes={sizes} keys={keys} groups={groups}", threads.join(","))
    }

    /// Returns the strategies, in the order given.
    pub fn strategies(&self) -> Vec<Strategy> {
        self.strategies.iter().filter_map(|word| word.parse().ok()).collect()
    }
}

/// Returns the words of the strategies, those of the exchange first.
fn words() -> impl Iterator<Item = &'static str> {
    annulus_transports::register();
    Strategy::all().into_iter().filter(|strategy| *strategy != Strategy::Auto).map(Strategy::word)
}

fn parse_exponent(text: &str) -> Result<f64, String> {
    match f64::from_str(text) {
        Ok(exponent) if exponent > 0.0 && exponent <= 10.0 => Ok(exponent),
        _ => Err(format!("invalid exponent '{text}': expected a number above 0, at most 10")),
    }
}

/// How the sizes of rows are distributed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sizes {
    /// All rows have --row-bytes
    Uniform,
    /// Normal around --row-bytes
    Normal,
}

/// How the keys of rows are distributed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Keys {
    /// All consumers get about as many rows
    Uniform,
    /// By Zipf's law over a million keys
    Zipf,
}

impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&name(self))
    }
}

impl fmt::Display for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&name(self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_fill_a_ring_often_unless_their_size_is_given() {
        let args = |volume| ExchangeArgs::new(Shape { inputs: 4, outputs: 4 }, 256, volume);
        let batches = |args: &ExchangeArgs, shape, row_bytes| args.batches_of_each(shape, row_bytes);
        let large = TransportShape::new(4, 4).with_slots(4).with_groups(3);
        // 2 MiB a batch: 32 batches for each of four producers would be 256 MiB.
        let steady = batches(&args(None), large, 256);
        assert_eq!((steady, 4 * steady), (128, steady_batches(large)));
        assert_eq!(batches(&args(None), large, 1), VOLUME / 4 / 8192, "small batches are limited by their bytes");
        let crowd = TransportShape::new(192, 192).with_slots(192).with_groups(1);
        assert_eq!(batches(&args(None), crowd, 8), 2 * 2 * 192, "each producer fills a ring twice");
        assert_eq!(batches(&args(Some(64 << 20)), large, 256), 8);
        assert_eq!(batches(&args(Some(1)), large, 256), FEWEST_BATCHES);
        assert_eq!(batches(&ExchangeArgs { batches: Some(2), ..args(Some(1)) }, large, 256), 2);
    }
}
