//! `annulus bench`: rivals on the same input in the same run, the answers compared before anything
//! is timed.

use annulus_bench::{
    join::{self, JoinArgs},
    pages::{self, PagesArgs},
    repartition::{self, RepartitionArgs},
    roundabout::{self, RoundaboutArgs},
};
use anyhow::Result;
use clap::Subcommand;

use crate::{blocking, interrupt::until_interrupted, outcome::Outcome, runtime};

#[derive(Subcommand)]
pub enum BenchCommand {
    /// Compare DataFusion's RepartitionExec with Annulus on TPC-H lineitem, in memory
    Repartition(RepartitionArgs),
    /// Compare ways to shuffle tuples onto pages: the paper's and that of Annulus
    Pages(PagesArgs),
    /// Measure how fast elements go from one host of a roundabout to the next
    Roundabout(RoundaboutArgs),
    /// Join two tables around rings of different sizes
    Join(JoinArgs),
}

/// Runs the benchmark that `command` names.
pub fn run(command: BenchCommand) -> Result<Outcome> {
    match command {
        BenchCommand::Repartition(args) => runtime::run_with_spill(args.threads, async |spill| {
            let compare = async { repartition::run(&args, spill).await.map(|()| Outcome::Done) };
            until_interrupted(compare).await
        }),
        BenchCommand::Pages(args) => runtime::run(blocking::run(move |stop| pages::run(&args, stop))),
        BenchCommand::Roundabout(args) => runtime::run(blocking::run(move |stop| roundabout::run(&args, stop))),
        BenchCommand::Join(args) => runtime::run(blocking::run(move |stop| join::run(&args, stop))),
    }
}
