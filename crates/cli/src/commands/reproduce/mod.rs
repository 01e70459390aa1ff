//! `annulus reproduce`: measures the figures of papers on this machine.

use annulus_bench::reproduce::{
    cyclo::{self, CycloJoinArgs},
    pages::{self, ReproduceArgs},
    ring::{self, RingArgs},
};
use anyhow::Result;
use clap::Subcommand;

use crate::{blocking, outcome::Outcome, runtime};

#[derive(Subcommand)]
pub enum ReproduceCommand {
    /// Exchanging rows between threads: throughput, memory and synchronisation
    Ring(RingArgs),
    /// Shuffling tuples onto pages: throughput, memory and Flink
    Pages(ReproduceArgs),
    /// Joins around a ring of hosts
    CycloJoin(CycloJoinArgs),
}

/// Runs the measurements that `command` names.
pub fn run(command: ReproduceCommand) -> Result<Outcome> {
    runtime::run(async {
        match command {
            ReproduceCommand::Ring(args) => blocking::run(move |stop| ring::run(&args, stop)).await,
            ReproduceCommand::Pages(args) => blocking::run(move |stop| pages::run(&args, stop)).await,
            ReproduceCommand::CycloJoin(args) => blocking::run(move |stop| cyclo::run(&args, stop)).await,
        }
    })
}
