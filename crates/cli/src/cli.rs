//! The command line: which command it names, and who runs it.

use std::ffi::OsString;

use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::{
    commands::{
        bench::{self, BenchCommand},
        join::{self, JoinArgs},
        node::{self, NodeArgs},
        partition::{self, PartitionArgs},
        reproduce::{self, ReproduceCommand},
        sql::{self, SqlArgs},
        tpch::{self, TpchArgs},
        verify::{self, VerifyArgs},
    },
    outcome::Outcome,
};

/// SQL, datasets and benchmarks on a lock-free ring-buffer exchange, plugged into Apache
/// DataFusion.
#[derive(Parser)]
#[command(name = "annulus", version, subcommand_required = true, arg_required_else_help = true)]
#[command(after_help = "Examples:
  annulus tpch                                      compare stock DataFusion with Annulus on TPC-H
  annulus sql \"SELECT count(*) FROM 'orders.parquet'\"
  annulus partition events/ --by user --into 64 --output parts
                                                    split a dataset into files by key
  annulus join lineitem/ orders/ --on l_orderkey=o_orderkey --output joined
                                                    join two datasets on hosts that each need memory for their share
  annulus bench repartition                         compare the repartition operators alone
  annulus bench pages                               compare ways to shuffle tuples onto pages
  annulus bench roundabout                          measure how fast buffers go from host to host
  annulus bench join                                join two tables around rings of different sizes
  annulus reproduce cyclo-join                      draw the figures of the cyclo-join paper
  annulus sql -t o=orders/                          a shell, with the files of a folder as table o

Exit codes: 0 done, 1 failed (or an answer differs), 130 interrupted (143 by SIGTERM, 129 by SIGHUP).")]
pub struct Args {
    #[command(subcommand)]
    pub command: Command,
}

/// Puts a space before an argument that is SQL and begins with a comment, which no option does: `--
/// like this`.
pub fn protect_comment(argument: OsString) -> OsString {
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
    /// Run the TPC-H queries on stock DataFusion and on Annulus, compare the answers and the times
    Tpch(TpchArgs),
    /// Run SQL on Annulus: one query, a file of statements, or a shell
    Sql(Box<SqlArgs>),
    /// Split a dataset into files by key, in one pass and bounded memory
    Partition(PartitionArgs),
    /// Check the files of a dataset against its manifest
    Verify(VerifyArgs),
    /// Join two datasets around a ring of hosts, on equal keys, bands or any condition
    Join(Box<JoinArgs>),
    /// Be a host of a join, which is told what to do on the standard input
    #[command(hide = true)]
    Host {
        /// The process that gives the orders
        coordinator: u32,
    },
    /// Say which hosts belong to a ring, or be one of them
    Node(NodeArgs),
    /// Measure parts of Annulus against their rivals
    #[command(subcommand)]
    Bench(BenchCommand),
    /// Measure again what a paper's figures show
    #[command(subcommand)]
    Reproduce(ReproduceCommand),
}

impl Command {
    /// Runs it to its end.
    pub fn run(self) -> Result<Outcome> {
        match self {
            Self::Tpch(args) => tpch::run(args),
            Self::Sql(args) => sql::run(*args),
            Self::Partition(args) => partition::run(args),
            Self::Verify(args) => verify::run(args),
            Self::Join(args) => join::run(*args),
            Self::Host { coordinator } => join::serve_host(coordinator),
            Self::Node(args) => node::run(args),
            Self::Bench(command) => bench::run(command),
            Self::Reproduce(command) => reproduce::run(command),
        }
    }
}
