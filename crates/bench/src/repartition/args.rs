//! The command line of `annulus bench repartition`.

use std::{fmt, path::PathBuf, str::FromStr};

use annulus_datafusion::config;
use annulus_terminal::units;
use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::words::name;

/// Which exchanges are measured, and how often.
#[derive(Args)]
#[command(after_help = "Examples:
  annulus bench repartition
  annulus bench repartition --shapes 4x4,16x256 --payloads a --paths gather,cluster,reserve
  annulus bench repartition --consumers slow,unpolled --shapes 4x4 --memory-limit 32M
  annulus bench repartition --json > bench.jsonl
  annulus bench repartition --html bench.html

The table is generated into memory first, in batches of 8192 rows; each input partition holds a contiguous share. For
every line both operators run once to compare the rows of each output partition, once to warm up and to count the heap,
then in turn, a new plan for each run: stock, ours, ours, stock, and so on.

  stock ms, ours ms  medians, from the first call of execute to the last row
  ratio              stock ms / ours ms: above 1 ours is faster
  spread             interquartile range of the ratios of the rounds, divided by their median
  ns/row             ours, elapsed time divided by rows
  ops, locks         ours, shared read-modify-write operations and lock acquisitions for each input batch
  memcpy share       a plain copy of the same bytes on the same number of threads into reused buffers / ours
  peak MB            most heap memory above the input, in a run that is not timed

Slow consumers run under --memory-limit and may spill. With 'slow' each consumer hashes its batches once, the last one
ten times; with 'unpolled' the last one is not polled before the others have ended. Stock's operator can fail or hang
there: then its figures are missing, and ours are checked against those of stock with even consumers.
The exit code is 1 when rows differ.")]
pub struct RepartitionArgs {
    /// Scale factor of the table: 1 has 6 million rows
    #[arg(long, default_value = "1", value_name = "SF", value_parser = units::parse_scale)]
    pub scale: f64,
    /// Input partitions x output partitions
    #[arg(long, value_name = "MxN", value_delimiter = ',', default_value = "2x2,4x4,16x16,64x64,16x256,8x1024")]
    pub shapes: Vec<Shape>,
    /// Columns
    #[arg(long, value_delimiter = ',', default_value = "a,b,c")]
    pub payloads: Vec<Payload>,
    /// Which side copies the rows in Annulus
    #[arg(long, value_name = "PATH", value_delimiter = ',', default_value = "auto")]
    pub paths: Vec<DataPath>,
    /// How the output is read
    #[arg(long, value_delimiter = ',', default_value = "even,slow,unpolled")]
    pub consumers: Vec<Consumers>,
    /// Timed runs of each operator
    #[arg(long, default_value = "7", value_name = "N", value_parser = units::parse_count)]
    pub rounds: usize,
    /// Worker threads [default: the number of cores]
    #[arg(long, value_name = "N", value_parser = units::parse_count)]
    pub threads: Option<usize>,
    /// Memory pool of the runs with slow consumers
    #[arg(long, default_value = "64M", value_name = "SIZE", value_parser = units::parse_size)]
    pub memory_limit: usize,
    /// Seconds after which a run counts as hung
    #[arg(long, default_value = "60", value_name = "S", value_parser = units::parse_count)]
    pub timeout: usize,
    /// Print one JSON object a line instead of a table
    #[arg(long)]
    pub json: bool,
    /// Write a page with the bars drawn
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// The side that copies the rows, as the option `annulus.path` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DataPath {
    /// The one that measured best
    Auto,
    /// Consumers gather
    Gather,
    /// Producers cluster
    Cluster,
    /// Producers gather into reserved ranges
    Reserve,
}

impl From<DataPath> for config::Path {
    fn from(path: DataPath) -> Self {
        match path {
            DataPath::Auto => Self::Auto,
            DataPath::Gather => Self::Gather,
            DataPath::Cluster => Self::Cluster,
            DataPath::Reserve => Self::Reserve,
        }
    }
}

impl fmt::Display for DataPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&name(self))
    }
}

/// Columns of lineitem, hashed on l_orderkey.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Payload {
    /// Fixed width: l_orderkey, l_partkey, l_suppkey, l_quantity, l_extendedprice, l_shipdate
    A,
    /// Those of a, and the strings l_comment and l_shipmode
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

/// How the output partitions are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Consumers {
    /// All as fast as they can, in unlimited memory
    Even,
    /// The last one does ten times the work of the others for each batch
    Slow,
    /// The last one is not polled before the others have ended
    Unpolled,
}

impl Consumers {
    /// Times that consumer `index` of `count` hashes each batch, the work that makes it slow.
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

/// Input and output partitions, written `MxN`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    pub inputs: usize,
    pub outputs: usize,
}

impl FromStr for Shape {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (inputs, outputs) =
            text.split_once('x').ok_or_else(|| format!("'{text}' is no shape; write one like 4x4 or 16x256"))?;
        Ok(Self { inputs: units::parse_count(inputs)?, outputs: units::parse_count(outputs)? })
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.inputs, self.outputs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_inputs_by_outputs() {
        assert_eq!("16x256".parse(), Ok(Shape { inputs: 16, outputs: 256 }));
        for text in ["16", "x", "0x4", "4x0", "4x4x4", "-1x2", ""] {
            assert!(text.parse::<Shape>().is_err(), "{text}");
        }
    }

    #[test]
    fn one_consumer_is_ten_times_slower() {
        let hashes: Vec<_> = (0..3).map(|index| Consumers::Slow.hashes(index, 3)).collect();
        assert_eq!(hashes, [1, 1, 10]);
    }
}
