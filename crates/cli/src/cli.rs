//! The command line of `annulus`.

use anyhow::Result;
use clap::{CommandFactory, Parser, Subcommand};

use crate::{
    commands::{
        calibrate::{self, CalibrateArgs},
        completions::{self, CompletionsArgs},
        demo::{self, DemoArgs},
        help::{self, HelpArgs, ManArgs},
        join::{self, JoinArgs},
        partition::{self, PartitionArgs},
        sql::{self, SqlArgs},
        topology::{self, TopologyArgs},
        verify::{self, VerifyArgs},
        worker::{self, WorkerArgs},
    },
    outcome::Outcome,
    program::Program,
};

const EXAMPLES: &str = "\
Examples:
  annulus demo                            try the commands on a small dataset
  annulus sql \"SELECT count(*) FROM 'orders.parquet'\"
  annulus sql -t o=orders/                open a shell with orders/ as table o
  annulus partition events/ --by user --into 64 --output parts
  annulus join lineitem/ orders/ --on l_orderkey=o_orderkey --output joined
  annulus verify joined
  annulus worker --allow-read /data       serve annulus sql --workers
  annulus topology                        show CPUs, caches and limits
  annulus calibrate                       measure this machine's strategies
  annulus help inputs                     read about a topic

Topics of annulus help: csv, inputs, joins, json, outputs, partitioning,
queries (SQL), topology and workers.

Exit codes: 0 for success, 1 for a failure or for answers that differ, 130 if
interrupted (143 by SIGTERM, 129 by SIGHUP).";

/// Split, join and query data in files, fast and in bounded memory
#[derive(Parser)]
#[command(name = "annulus", version, subcommand_required = true, arg_required_else_help = true)]
#[command(disable_help_subcommand = true, after_long_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    /// Generate a small dataset, then split, join and query it
    Demo(DemoArgs),
    /// Run SQL: a query, a file of statements, or a shell
    Sql(Box<SqlArgs>),
    /// Split a dataset into files by key, in bounded memory
    Partition(PartitionArgs),
    /// Check the files of a dataset against its manifest
    Verify(VerifyArgs),
    /// Join two datasets, in this process or on workers
    Join(Box<JoinArgs>),
    /// Serve parts of queries that other machines send
    Worker(WorkerArgs),
    /// Show the CPUs, caches and limits of this machine
    Topology(TopologyArgs),
    /// Measure which strategies are fastest on this machine
    Calibrate(CalibrateArgs),
    /// Print shell completions
    Completions(CompletionsArgs),
    /// Print a manual page, or write all of them to a folder
    Man(ManArgs),
    /// Print the help of a command, or a page on a topic
    Help(HelpArgs),
}

impl Program for Args {
    fn run(self) -> Result<Outcome> {
        match self.command {
            Command::Demo(args) => demo::run(&args, run_words),
            Command::Sql(args) => sql::run(*args),
            Command::Partition(args) => partition::run(args),
            Command::Verify(args) => verify::run(args),
            Command::Join(args) => join::run(*args),
            Command::Worker(args) => worker::run(args),
            Command::Topology(args) => topology::run(args),
            Command::Calibrate(args) => calibrate::run(args),
            Command::Completions(args) => completions::run(args, Self::command()),
            Command::Man(args) => help::run_man(args, Self::command()),
            Command::Help(args) => help::run(args, Self::command()),
        }
    }
}

/// Runs the command that `words` name.
fn run_words(words: &[String]) -> Result<Outcome> {
    let line = std::iter::once("annulus").chain(words.iter().map(String::as_str));
    Args::try_parse_from(line)?.run()
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
