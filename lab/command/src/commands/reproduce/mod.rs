//! `annulus-lab reproduce`: measures the figures of papers on this machine.

mod ring;

use annulus_bench::reproduce::{
    cyclo::{self, CycloJoinArgs},
    pages::{self, ReproduceArgs},
};
use anyhow::Result;
use clap::Subcommand;

use crate::{blocking, outcome::Outcome, runtime};

#[derive(Subcommand)]
pub enum ReproduceCommand {
    /// Exchanging rows between threads: throughput, synchronisation, whole queries
    Ring(ring::Args),
    /// Shuffling tuples onto pages: throughput, memory and Flink
    Pages(ReproduceArgs),
    /// Joins around a ring of hosts
    CycloJoin(CycloJoinArgs),
}

/// Runs the measurements that `command` names.
pub fn run(command: ReproduceCommand) -> Result<Outcome> {
    match command {
        ReproduceCommand::Ring(args) => runtime::run_with_spill(None, None, async |spill| ring::run(args, spill).await),
        ReproduceCommand::Pages(args) => runtime::run(blocking::run(move |stop| pages::run(&args, stop))),
        ReproduceCommand::CycloJoin(args) => runtime::run(blocking::run(move |stop| cyclo::run(&args, stop))),
    }
}
