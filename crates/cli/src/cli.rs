//! The command line: parses it and runs the command that it names.

use std::ffi::OsString;

use anyhow::Result;
use clap::{CommandFactory, Parser, Subcommand};

use crate::{
    commands::{
        bench::{self, BenchCommand},
        calibrate::{self, CalibrateArgs},
        clickbench::{self, ClickbenchArgs},
        completions::{self, CompletionsArgs},
        help::{self, HelpArgs, ManArgs},
        join::{self, JoinArgs},
        partition::{self, PartitionArgs},
        reproduce::{self, ReproduceCommand},
        simulate::{self, SimulateCommand},
        sql::{self, SqlArgs},
        topology::{self, TopologyArgs},
        tpcds::{self, TpcdsArgs},
        tpch::{self, TpchArgs},
        verify::{self, VerifyArgs},
        worker::{self, WorkerArgs},
    },
    outcome::Outcome,
};

const EXAMPLES: &str = "\
Examples:
  annulus sql \"SELECT count(*) FROM 'orders.parquet'\"
  annulus sql -t o=orders/                open a shell with orders/ as table o
  annulus partition events/ --by user --into 64 --output parts
  annulus join lineitem/ orders/ --on l_orderkey=o_orderkey --output joined
  annulus verify joined
  annulus worker --allow-read /data       serve annulus sql --workers
  annulus tpch                            compare stock DataFusion with Annulus
  annulus clickbench --strategies auto,ring
  annulus bench repartition               compare the two operators alone
  annulus reproduce cyclo-join            draw the figures of a paper
  annulus simulate exchange               predict machines of up to 512 cores
  annulus topology                        show CPUs, caches and limits
  annulus calibrate                       measure what suits this machine
  annulus help inputs                     read about a topic

Topics of annulus help: inputs, joins, json, partitioning, queries (SQL),
topology and workers.

Exit codes: 0 for success, 1 for a failure or for answers that differ, 130 if
interrupted (143 by SIGTERM, 129 by SIGHUP).";

/// SQL, datasets and benchmarks on a lock-free exchange, plugged into Apache DataFusion
#[derive(Parser)]
#[command(name = "annulus", version, subcommand_required = true, arg_required_else_help = true)]
#[command(disable_help_subcommand = true, after_long_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    pub command: Command,
}

/// Parses the command line. Help and usage errors come back as an error.
pub fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Args, clap::Error> {
    let arguments: Vec<_> = arguments.map(protect_comment).collect();
    if arguments.iter().any(|argument| argument == "-h") {
        short(Args::command()).try_get_matches_from(&arguments)?;
    }
    Args::try_parse_from(arguments)
}

/// Returns `command` for `-h`, which has one line an option and leaves their values to `--help`.
fn short(command: clap::Command) -> clap::Command {
    let hide = |argument: clap::Arg| match argument.get_action().takes_values() {
        true => argument.hide_possible_values(true),
        false => argument,
    };
    command.mut_args(hide).mut_subcommands(short)
}

/// Returns `argument`, with a space in front if it is SQL that begins with a comment (`-- like
/// this`): clap would take it for an option.
fn protect_comment(argument: OsString) -> OsString {
    let is_comment = argument
        .to_str()
        .and_then(|text| text.strip_prefix("--"))
        .is_some_and(|rest| rest.starts_with(char::is_whitespace));
    if !is_comment {
        return argument;
    }
    let mut protected = OsString::from(" ");
    protected.push(argument);
    protected
}

#[derive(Subcommand)]
pub enum Command {
    /// Compare stock DataFusion with Annulus on the TPC-H benchmark
    Tpch(TpchArgs),
    /// Compare stock DataFusion with Annulus on the TPC-DS benchmark
    Tpcds(TpcdsArgs),
    /// Compare stock DataFusion with Annulus on ClickBench
    Clickbench(ClickbenchArgs),
    /// Run SQL: a query, a file of statements, or a shell
    Sql(Box<SqlArgs>),
    /// Split a dataset into files by key, in bounded memory
    Partition(PartitionArgs),
    /// Check the files of a dataset against its manifest
    Verify(VerifyArgs),
    /// Join two datasets, in this process or on workers
    Join(Box<JoinArgs>),
    /// Run parts of the queries of other processes, or make certificates for that
    Worker(WorkerArgs),
    /// Compare parts of Annulus with alternatives
    #[command(subcommand)]
    Bench(BenchCommand),
    /// Reproduce the figures of a paper on this machine
    #[command(subcommand)]
    Reproduce(ReproduceCommand),
    /// Predict what machines that are not at hand would do
    #[command(subcommand)]
    Simulate(SimulateCommand),
    /// Show the CPUs, caches and limits of this machine, and what they suggest
    Topology(TopologyArgs),
    /// Measure which strategies suit this machine, for SQL to choose by
    Calibrate(CalibrateArgs),
    /// Print shell completions
    Completions(CompletionsArgs),
    /// Print a manual page, or write all of them to a folder
    Man(ManArgs),
    /// Print the help of a command, or a page on a topic
    Help(HelpArgs),
}

impl Command {
    /// Runs the command to its end.
    pub fn run(self) -> Result<Outcome> {
        match self {
            Self::Tpch(args) => tpch::run(args),
            Self::Tpcds(args) => tpcds::run(args),
            Self::Clickbench(args) => clickbench::run(args),
            Self::Sql(args) => sql::run(*args),
            Self::Partition(args) => partition::run(args),
            Self::Verify(args) => verify::run(args),
            Self::Join(args) => join::run(*args),
            Self::Worker(args) => worker::run(args),
            Self::Bench(command) => bench::run(command),
            Self::Reproduce(command) => reproduce::run(command),
            Self::Simulate(command) => simulate::run(command),
            Self::Topology(args) => topology::run(args),
            Self::Calibrate(args) => calibrate::run(args),
            Self::Completions(args) => completions::run(args, Args::command()),
            Self::Man(args) => help::run_man(args, Args::command()),
            Self::Help(args) => help::run(args, Args::command()),
        }
    }
}

#[cfg(test)]
mod tests {
    use unicode_width::UnicodeWidthStr;

    use super::*;

    /// Checks the help of `command` and of the commands below it.
    fn check_help(command: &mut clap::Command, columns: usize) {
        let name = command.get_name().to_owned();
        let (short, long) = (command.render_help().to_string(), command.render_long_help().to_string());
        for line in short.lines().chain(long.lines()) {
            assert!(line.width() <= columns, "{name}: {} columns: {line}", line.width());
        }
        if let Some(examples) = command.get_after_long_help() {
            // A line that is wrapped again would end in the middle, and examples could not be pasted.
            assert!(long.contains(&examples.to_string()), "{name}: wrapped at {columns} columns: {long}");
            assert!(!short.contains("Example"), "{name}: {short}");
        }
        command.get_subcommands_mut().for_each(|command| check_help(command, columns));
    }

    #[test]
    fn help_fits_the_terminal() {
        for columns in [80, 100] {
            let mut command = Args::command().term_width(columns);
            command.build();
            check_help(&mut command, columns);
        }
    }

    /// Returns the lines of `-h` that go on with an option, of `command` and of the commands below
    /// it.
    fn further_lines(command: &mut clap::Command) -> Vec<String> {
        let help = command.render_help().to_string();
        let options = help.lines().skip_while(|line| !line.starts_with("Options:"));
        let further = options.filter(|line| line.starts_with(' ') && !line.trim_start().starts_with('-'));
        let mut lines: Vec<_> = further.map(|line| format!("{}: {}", command.get_name(), line.trim())).collect();
        lines.extend(command.get_subcommands_mut().flat_map(further_lines));
        lines
    }

    #[test]
    fn short_help_has_one_line_an_option() {
        let mut command = short(Args::command()).term_width(100);
        command.build();
        assert_eq!(further_lines(&mut command), [""; 0]);
    }

    #[test]
    fn options_fit_each_other() {
        Args::command().debug_assert();
    }
}
