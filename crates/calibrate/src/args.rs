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

Repartitions generated rows in memory with each strategy, for rows of several
widths and types, several numbers of partitions, and operators above that read
the rows at once or pass them on. The rows of each strategy are compared with
those of DataFusion's operator before it is timed. Then tables are joined on
equal keys and a band, by hashing and by sorting.

The result is a profile. With annulus.strategy = 'auto', a query takes the
strategy that was cheapest for the measurement that is most like its own
repartition, and EXPLAIN says so. To replace the default strategy, another one
must have been cheaper by 5 %, and by more than the spread of either's times. A
join on equal keys and a band is sorted if comparing its pairs takes over 1.5
times as long.

The profile goes to the folder for configuration, as annulus/profile.json. The
variable ANNULUS_PROFILE or the option annulus.profile names another file, or
'none'. A profile of another machine, another minor version or another
optimization level is not used; the file records all three.

Calibrate when the machine is idle. On a busy one, runs have fewer rows or
rounds, so that the command still takes about --seconds. Costs of fewer than 3
rounds have a spread of at least 0.5, so they rarely replace the default. Each
measurement has at least one round of 250,000 rows. Ctrl-C leaves an old
profile as it was.

Columns:
  reads     whether consumers read the rows at once
  best      the fastest strategy; the next columns are its time for a row, and
            for a repartition of almost no rows
  by rule   the strategy of auto without a profile, and its time / the best time
  stock     time of DataFusion's operator / the best time";

/// The file of the profile, and the time to measure it.
#[derive(Args)]
#[command(after_long_help = EXAMPLES)]
pub struct CalibrateArgs {
    /// File for the profile [default: in the configuration folder]
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Seconds for all measurements together
    #[arg(long, default_value = "80", value_name = "SECONDS", value_parser = units::parse_count)]
    pub seconds: usize,
    /// Largest number of rows of a run, for small machines
    #[arg(long, default_value = "5M", value_name = "N", value_parser = units::parse_tuples)]
    pub rows: u64,
    /// Threads to measure with [default: cores]
    #[arg(long, value_name = "N", value_parser = units::parse_count)]
    pub threads: Option<usize>,
    /// Print the profile as one JSON object, for programs
    #[arg(long)]
    pub json: bool,
}
