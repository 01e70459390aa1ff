//! The command line of `annulus-lab tpch`.

use crate::{comparison::TpcArgs, suites::tpch::queries::LAST};

const EXAMPLES: &str = "\
Examples:
  annulus-lab tpch
  annulus-lab tpch --scale 10 --queries 1,3-5 --iterations 5
  annulus-lab tpch --target-partitions 64 --memory-limit 2G --json
  annulus-lab tpch --strategies auto,ring,ring+cluster --html tpch.html
  annulus-lab tpch --strategies ring --groups 4 --slots 2

The tables are generated once, as Parquet files, and then reused. Each query
first runs on both engines, or with each of the strategies, to compare the
answers. Then it is timed on them in turn, from the SQL text to the last row;
the report shows medians.

Decimal literals are decimals, as in the SQL standard. Query 15 uses a common
table expression instead of a view. The exit code is 1 if an answer differs.";

#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct TpchArgs {
    #[command(flatten)]
    pub suite: TpcArgs<LAST>,
}
