//! `annulus-lab bench`: compares parts of Annulus with alternatives in the same run. Answers are
//! checked before anything is timed.

use annulus_bench::{
    exchange::{self, ExchangeArgs},
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
    /// Repartition rows in memory, with DataFusion's operator and with ours
    Repartition(RepartitionArgs),
    /// Exchange rows between threads, with every strategy
    Exchange(ExchangeArgs),
    /// Shuffle tuples onto pages, in the paper's ways and in ours
    Pages(PagesArgs),
    /// Send buffers from one host of a ring to the next
    Roundabout(RoundaboutArgs),
    /// Join two tables around rings of different sizes
    Join(JoinArgs),
}

/// Runs the benchmark that `command` names.
pub fn run(command: BenchCommand) -> Result<Outcome> {
    match command {
        BenchCommand::Repartition(args) => runtime::run_with_spill(args.threads, None, async |spill| {
            let compare = async { repartition::run(&args, spill).await.map(|()| Outcome::Done) };
            until_interrupted(compare).await
        }),
        BenchCommand::Exchange(args) => runtime::run(blocking::run(move |stop| exchange::run(&args, stop))),
        BenchCommand::Pages(args) => runtime::run(blocking::run(move |stop| pages::run(&args, stop))),
        BenchCommand::Roundabout(args) => runtime::run(blocking::run(move |stop| roundabout::run(&args, stop))),
        BenchCommand::Join(args) => runtime::run(blocking::run(move |stop| join::run(&args, stop))),
    }
}
