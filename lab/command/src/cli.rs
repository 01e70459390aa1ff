//! The command line of `annulus-lab`.

use annulus_cli::commands::{
    completions::{self, CompletionsArgs},
    worker::{self, WorkerArgs},
};
use anyhow::Result;
use clap::{CommandFactory, Parser, Subcommand};

use crate::{
    commands::{
        bench::{self, BenchCommand},
        clickbench::{self, ClickbenchArgs},
        reproduce::{self, ReproduceCommand},
        simulate::{self, SimulateCommand},
        tpcds::{self, TpcdsArgs},
        tpch::{self, TpchArgs},
    },
    outcome::Outcome,
    program::Program,
};

const EXAMPLES: &str = "\
Examples:
  annulus-lab tpch                        compare stock DataFusion with Annulus
  annulus-lab clickbench --queries-from queries.sql --strategies auto,ring
  annulus-lab bench repartition           compare the two operators alone
  annulus-lab reproduce cyclo-join        draw the figures of a paper
  annulus-lab simulate exchange           predict machines of up to 512 cores

Exit codes: 0 for success, 1 for a failure or for answers that differ, 130 if
interrupted (143 by SIGTERM, 129 by SIGHUP).";

/// Benchmarks of Annulus against its rivals, the figures of its papers, and simulations
#[derive(Parser)]
#[command(name = "annulus-lab", version, subcommand_required = true, arg_required_else_help = true)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    /// Compare stock DataFusion with Annulus on the TPC-H benchmark
    Tpch(TpchArgs),
    /// Compare stock DataFusion with Annulus on the TPC-DS benchmark
    Tpcds(TpcdsArgs),
    /// Compare stock DataFusion with Annulus on ClickBench
    Clickbench(ClickbenchArgs),
    /// Compare parts of Annulus with alternatives
    #[command(subcommand)]
    Bench(BenchCommand),
    /// Reproduce the figures of a paper on this machine
    #[command(subcommand)]
    Reproduce(ReproduceCommand),
    /// Predict the performance of exchanges on other machines
    #[command(subcommand)]
    Simulate(SimulateCommand),
    /// Print shell completions
    Completions(CompletionsArgs),
    /// Be a worker of `--cluster`
    #[command(hide = true)]
    Worker(WorkerArgs),
}

impl Program for Args {
    fn run(self) -> Result<Outcome> {
        match self.command {
            Command::Tpch(args) => tpch::run(args),
            Command::Tpcds(args) => tpcds::run(args),
            Command::Clickbench(args) => clickbench::run(args),
            Command::Bench(command) => bench::run(command),
            Command::Reproduce(command) => reproduce::run(command),
            Command::Simulate(command) => simulate::run(command),
            Command::Completions(args) => completions::run(args, Self::command()),
            Command::Worker(args) => worker::run(args),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program;

    #[test]
    fn help_fits_the_terminal() {
        program::check_help::<Args>();
    }
}
