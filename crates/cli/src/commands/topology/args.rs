//! The command line of `annulus topology`.

use annulus_terminal::units::{Shape, parse_size};

const EXAMPLES: &str = "\
Examples:
  annulus topology
  annulus topology --plan 4x4
  annulus topology --plan 8x2 --spread --batch-bytes 64K
  annulus topology --json

A CPU is usable if it is online, in the affinity mask and in the cpuset of the
control group. A domain has the usable CPUs that share a last-level cache, or
where no such cache is known, those of a NUMA node.

The suggestion has one producer and one consumer for each usable CPU, or for
each CPU of the quota, rounded up. A plan puts producer p and consumer p into
one domain, and gives each core one thread before any core gets a second one.
It fills one domain after the other, or all equally with --spread. The command
starts and pins no threads.

K is the number of groups that a ring holds: 2 where all threads share one
known last-level cache and batches are small, otherwise 1. The proposal of one
ring for each domain with producers has not been measured.

More: annulus help topology";

#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct TopologyArgs {
    /// Also print a CPU for each of M producers and N consumers
    #[arg(long, value_name = "MxN")]
    pub plan: Option<Shape>,
    /// Divide the threads of the plan among all cache domains
    #[arg(long, requires = "plan")]
    pub spread: bool,
    /// Size of the producers' batches, such as 64K, on which K depends
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub batch_bytes: Option<usize>,
    /// Print the topology as one JSON object, for programs
    #[arg(long)]
    pub json: bool,
}
