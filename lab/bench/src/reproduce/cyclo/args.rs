//! The command line of `annulus-lab reproduce cyclo-join`.

use std::path::PathBuf;

use annulus_terminal::units::{self, counted};
use clap::Args;
use indicatif::BinaryBytes;
use serde_json::{Value, json};

use crate::reproduce::store::Start;

const EXAMPLES: &str = "\
Examples:
  annulus-lab reproduce cyclo-join
  annulus-lab reproduce cyclo-join --rows 50M --more-rows 10M --out results
  annulus-lab reproduce cyclo-join --figures 9,12 --zipf-rows 1M

Measures the figures of the evaluation in Frey, Goncalves, Kersten and
Teubner, A Spinning Join That Does Not Get Dizzy. All hosts are threads of
this process. In figures 7 to 11, one host works at a time, as if it had the
machine to itself, which shows the work of each host. In figure 12 and in parts
of figures 7 and 11, all hosts work at once and share the cores. As root and
with iproute2, figure 11 also has links of a limited rate, beside a model. Its
waiting is comparable only if the machine is otherwise idle.

Every result is compared with an independent answer. For the columns, see
annulus-lab bench join --help. When all is measured, cyclo-join.jsonl,
cyclo-join.csv and cyclo-join.html are written to the folder. Results are kept
there as they come. After Ctrl-C or a crash, the same command goes on where it
was.";

/// What is measured for the paper's figures.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = EXAMPLES)]
pub struct CycloJoinArgs {
    /// Folder for the files, created if necessary
    #[arg(long, value_name = "DIR", default_value = "annulus-cyclo-join")]
    pub out: PathBuf,
    /// Figures [default: all]
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "3,5,7,8,9,10,11,12",
        hide_default_value = true
    )]
    pub figures: Vec<Figure>,
    /// Rows of each table in figures 7 and 10
    #[arg(long, value_name = "N", default_value = "10M", value_parser = units::parse_tuples)]
    pub rows: u64,
    /// Rows of each table per host in figures 8 and 11
    #[arg(long, value_name = "N", default_value = "2M", value_parser = units::parse_tuples)]
    pub more_rows: u64,
    /// Rows of each table in figure 9
    #[arg(long, value_name = "N", default_value = "300k", value_parser = units::parse_tuples)]
    pub zipf_rows: u64,
    /// Rows of each table in figure 12
    #[arg(long, value_name = "N", default_value = "4M", value_parser = units::parse_tuples)]
    pub link_rows: u64,
    /// Bytes of a run of figure 5, and half of those of figure 3
    #[arg(long, value_name = "SIZE", default_value = "512M", value_parser = units::parse_size)]
    pub bytes: usize,
    /// Timed runs of each cell
    #[arg(long, default_value = "3", value_name = "N", value_parser = units::parse_count)]
    pub rounds: usize,
    /// Seed of keys and numbers
    #[arg(long, default_value = "1", value_name = "N")]
    pub seed: u64,
    /// Discard the results of an unfinished run
    #[arg(long)]
    pub restart: bool,
    /// Take seconds, to test that all works; the figures mean nothing
    #[arg(long)]
    pub quick: bool,
}

/// A figure of the paper that can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Figure {
    /// Where the time on cores of a transfer goes, for TCP and other links
    #[value(name = "3")]
    Cost,
    /// Throughput between hosts, by the size of a buffer
    #[value(name = "5")]
    Transfer,
    /// Hash join: the same tables on more and more hosts
    #[value(name = "7")]
    Hash,
    /// Hash join: tables that grow with the number of hosts
    #[value(name = "8")]
    HashGrowing,
    /// Zipf-distributed keys, on one host and on six
    #[value(name = "9")]
    Zipf,
    /// Sort-merge join: the same tables on more and more hosts, with waiting times
    #[value(name = "10")]
    Sort,
    /// Sort-merge join: tables that grow with the number of hosts
    #[value(name = "11")]
    SortGrowing,
    /// Six hosts over different links with 1 to 4 threads; with table I, the load of the cores
    #[value(name = "12")]
    Links,
}

impl Figure {
    /// Returns its number in the paper.
    pub(super) fn number(self) -> u8 {
        match self {
            Self::Cost => 3,
            Self::Transfer => 5,
            Self::Hash => 7,
            Self::HashGrowing => 8,
            Self::Zipf => 9,
            Self::Sort => 10,
            Self::SortGrowing => 11,
            Self::Links => 12,
        }
    }
}

impl CycloJoinArgs {
    /// Returns these options, with the sizes of a quick run if it is one. Figures are sorted.
    pub(super) fn sized(&self) -> Self {
        let mut args = self.clone();
        args.figures.sort_unstable();
        args.figures.dedup();
        if self.quick {
            (args.rows, args.more_rows, args.zipf_rows, args.link_rows) = (20_000, 5_000, 2_000, 20_000);
            (args.bytes, args.rounds) = (4 << 20, 1);
        }
        args
    }

    /// Returns what must be the same when a run goes on.
    pub(super) fn settings(&self) -> Value {
        let Self { rows, more_rows, zipf_rows, link_rows, bytes, rounds, quick, .. } = self;
        let numbers: Vec<u8> = self.figures.iter().map(|figure| figure.number()).collect();
        json!({ "figures": numbers, "rows": rows, "more_rows": more_rows, "zipf_rows": zipf_rows,
            "link_rows": link_rows, "bytes": bytes, "rounds": rounds, "quick": quick })
    }

    /// Returns whether the results of an unfinished run are used.
    pub(super) fn start(&self) -> Start {
        if self.restart { Start::Anew } else { Start::Resume }
    }

    /// Returns the size of a quick run in words, or `None` if it is not one.
    pub(super) fn quick_size(&self) -> Option<String> {
        let rows = |rows: u64| counted(rows, "row");
        self.quick.then(|| {
            format!(
                "tables of {} in figures 7 and 10, {} per host in 8 and 11, {} in 9 and {} in 12; {} a run in \
                 figure 5; {}",
                rows(self.rows),
                rows(self.more_rows),
                rows(self.zipf_rows),
                rows(self.link_rows),
                BinaryBytes(self.bytes as u64),
                counted(self.rounds as u64, "round")
            )
        })
    }
}
