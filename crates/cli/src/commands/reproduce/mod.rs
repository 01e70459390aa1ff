//! `annulus reproduce`: the figures of papers, on this machine.

use annulus_bench::reproduce::{
    cyclo::{self, CycloJoinArgs},
    pages::{self, ReproduceArgs},
};
use anyhow::Result;
use clap::Subcommand;

use crate::{blocking, outcome::Outcome, runtime};

#[derive(Subcommand)]
pub enum ReproduceCommand {
    /// The shuffle of tuples onto pages: the paper's ways and that of Annulus
    Pages(ReproduceArgs),
    /// Joins around a ring of hosts: the paper's figures on this machine
    CycloJoin(CycloJoinArgs),
}

/// Measures what `command` names.
pub fn run(command: ReproduceCommand) -> Result<Outcome> {
    runtime::run(async {
        match command {
            ReproduceCommand::Pages(args) => blocking::run(move |stop| pages::run(&args, stop)).await,
            ReproduceCommand::CycloJoin(args) => blocking::run(move |stop| cyclo::run(&args, stop)).await,
        }
    })
}
