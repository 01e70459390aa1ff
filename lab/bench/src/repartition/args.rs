//! The command line of `annulus-lab bench repartition`.

use std::{fmt, path::PathBuf, str::FromStr};

use annulus_datafusion::config::{Strategy, Variant};
use annulus_terminal::units::{self, Shape};
use clap::{Args, ValueEnum};
use datafusion::error::DataFusionError;
use serde::{Serialize, Serializer};

use crate::words::name;

const EXAMPLES: &str = "\
Examples:
  annulus-lab bench repartition
  annulus-lab bench repartition --shapes 4x4,16x256 --payloads a \\
    --ways ring,ring+cluster,reserve
  annulus-lab bench repartition --consumers slow,unpolled --memory-limit 32M
  annulus-lab bench repartition --json > bench.jsonl
  annulus-lab bench repartition --html bench.html

The table is generated in memory, in batches of 8192 rows. Each input
partition reads a contiguous share. For every line, both operators run once to
compare the rows of each output partition, and once to warm up and to count
heap memory. Then they run in turn (stock, ours, ours, stock and so on), with
a new plan for each run.

Columns:
  stock ms, ours ms  medians, from the first call of execute to the last row
  ratio              stock ms / ours ms; above 1, ours is faster
  spread             interquartile range of the rounds' ratios / their median
  ns/row             elapsed time of ours / rows
  ops, locks         shared read-modify-write operations and lock acquisitions
                     of ours for each input batch
  memcpy share       time to copy the same bytes on the same number of threads
                     into reused buffers / time of ours
  peak MB            most heap memory above the input, in an untimed run

Runs with slow consumers have --memory-limit and may spill. With slow, each
consumer hashes its batches once and the last one ten times. With unpolled,
the last consumer is polled when the others have ended. Stock's operator can
fail or hang there: then its figures are missing, and the rows of ours are
compared with those of stock with even consumers.

The exit code is 1 if rows differ.";

/// What the benchmark measures, and how often.
#[derive(Args)]
#[command(after_long_help = EXAMPLES)]
pub struct RepartitionArgs {
    /// Scale factor of the table; 1 has 6 million rows
    #[arg(long, default_value = "1", value_name = "SF", value_parser = units::parse_scale)]
    pub scale: f64,
    /// Inputs and outputs
    ///
    /// Numbers of partitions before and after the repartition.
    #[arg(long, value_name = "MxN", value_delimiter = ',', default_value = "2x2,4x4,16x16,64x64,16x256,8x1024")]
    pub shapes: Vec<Shape>,
    /// Columns of the rows
    #[arg(long, value_delimiter = ',', default_value = "a,b,c")]
    pub payloads: Vec<Payload>,
    /// Strategies of Annulus, with a path if wanted
    ///
    /// Such as ring, ring+cluster or channel; the words are those of
    /// annulus.strategy.
    #[arg(long, value_name = "WAY", value_delimiter = ',', default_value = "auto")]
    pub ways: Vec<StrategyArg>,
    /// Behaviour of the consumers
    #[arg(long, value_delimiter = ',', default_value = "even,slow,unpolled")]
    pub consumers: Vec<Consumers>,
    /// Timed runs of each operator
    #[arg(long, default_value = "7", value_name = "N", value_parser = units::parse_count)]
    pub rounds: usize,
    /// Worker threads [default: number of cores]
    #[arg(long, value_name = "N", value_parser = units::parse_count)]
    pub threads: Option<usize>,
    /// Memory pool of runs with slow consumers
    #[arg(long, default_value = "64M", value_name = "SIZE", value_parser = units::parse_size)]
    pub memory_limit: usize,
    /// Seconds after which a run counts as hung
    #[arg(long, default_value = "60", value_name = "SECONDS", value_parser = units::parse_count)]
    pub timeout: usize,
    /// Print one JSON object per line instead of a table
    #[arg(long)]
    pub json: bool,
    /// Write an HTML report with bar charts
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// A way of the exchange, as in `ring` or `ring+cluster`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StrategyArg(pub Variant);

impl FromStr for StrategyArg {
    type Err = String;

    fn from_str(words: &str) -> Result<Self, String> {
        let way: Variant = words.parse().map_err(|error: DataFusionError| error.strip_backtrace())?;
        match way.strategy {
            Strategy::Stock => Err("invalid way 'stock': it is always measured, choose others".to_owned()),
            _ => Ok(Self(way)),
        }
    }
}

impl fmt::Display for StrategyArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for StrategyArg {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Columns of lineitem, hashed on l_orderkey.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Payload {
    /// Fixed width: l_orderkey, l_partkey, l_suppkey, l_quantity, l_extendedprice, l_shipdate
    A,
    /// The columns of a, and the strings l_comment and l_shipmode
    B,
    /// l_orderkey alone
    C,
}

impl Payload {
    /// The columns; the first is the key.
    pub fn columns(self) -> &'static [&'static str] {
        const ALL: [&str; 8] = [
            "l_orderkey",
            "l_partkey",
            "l_suppkey",
            "l_quantity",
            "l_extendedprice",
            "l_shipdate",
            "l_comment",
            "l_shipmode",
        ];
        match self {
            Self::A => &ALL[..6],
            Self::B => &ALL,
            Self::C => &ALL[..1],
        }
    }
}

impl fmt::Display for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&name(self))
    }
}

/// How consumers read the output partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Consumers {
    /// All read as fast as they can, with unlimited memory
    Even,
    /// The last one does ten times the work of the others
    Slow,
    /// The last one is not polled before the others have ended
    Unpolled,
}

impl Consumers {
    /// Returns how often consumer `index` of `count` hashes each batch: the work that makes it
    /// slow.
    pub fn hashes(self, index: usize, count: usize) -> usize {
        match self {
            Self::Slow if index + 1 == count => 10,
            Self::Slow => 1,
            Self::Even | Self::Unpolled => 0,
        }
    }
}

impl fmt::Display for Consumers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&name(self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_consumer_is_ten_times_slower() {
        let hashes: Vec<_> = (0..3).map(|index| Consumers::Slow.hashes(index, 3)).collect();
        assert_eq!(hashes, [1, 1, 10]);
    }
}
