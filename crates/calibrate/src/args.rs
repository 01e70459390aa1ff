//! The command line of `annulus calibrate`.

use std::path::PathBuf;

use annulus_terminal::units;
use clap::Args;

const EXAMPLES: &str = "\
Examples:
  annulus calibrate
  annulus calibrate --seconds 30 --output here.json
  annulus sql --set annulus.profile=here.json \"EXPLAIN SELECT ...\"
  annulus calibrate --json | jq '.cells[].costs'

Repartitions generated rows in memory, with every strategy that may be best,
for rows of several widths and types, several numbers of partitions, and
operators above that read the rows at once or pass them on. The rows of every
way are compared with those of DataFusion's operator before it is timed. Then
joins tables on equal keys and a band, by hashing and by sorting.

The result is a profile. With annulus.strategy = 'auto', SQL then takes the way
that was cheapest for what is most like the query's repartition, and EXPLAIN
says so. Another way than that of the rules must have been cheaper by 5 %, and
by more than the times of single runs of either differed. A join on equal keys
and a band is sorted if comparing its pairs takes over 1.5 times as long.

The profile goes to the folder for configuration, as annulus/profile.json. The
variable ANNULUS_PROFILE or the option annulus.profile names another one;
'none' is none. A profile of another machine, another minor version or another
optimization is not used. The file says which it is of.

Calibrate when the machine is idle. Where it is not, runs have fewer rows or
rounds, so that the whole takes about as long as --seconds says; costs of fewer
than 3 rounds have a spread of at least 0.5, so they hardly overrule. One round
of 250,000 rows for each kind is the least, whatever the time. Ctrl-C leaves
an old profile as it was.

Columns:
  reads     whether consumers read the rows at once
  best      the way with the least time; the columns after it are its time
            for a row and for a repartition of next to no rows
  by rule   what auto takes without a profile, and its time / that of the best
  stock     time of DataFusion's operator / that of the best";

/// Where the profile goes, and how long it takes.
#[derive(Args)]
#[command(after_long_help = EXAMPLES)]
pub struct CalibrateArgs {
    /// File for the profile [default: in the configuration folder]
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Time for all measurements, in seconds
    #[arg(long, default_value = "80", value_name = "SECONDS", value_parser = units::parse_count)]
    pub seconds: usize,
    /// Most rows of a run
    #[arg(long, default_value = "5M", value_name = "N", value_parser = units::parse_tuples)]
    pub rows: u64,
    /// Worker threads [default: number of cores]
    #[arg(long, value_name = "N", value_parser = units::parse_count)]
    pub threads: Option<usize>,
    /// Print the profile instead of a table
    #[arg(long)]
    pub json: bool,
}
