//! The `annulus` command. Arguments become a checked [`job::Job`], and [`run`] carries it out.
#![forbid(unsafe_code)]

mod args;
mod bench;
mod errors;
mod interrupt;
mod job;
mod join;
mod node;
mod report;
mod run;
mod session;
mod shell;
mod sql;
mod tpch;
mod units;

use std::{env, process::ExitCode};

use annulus_terminal::heap::CountingAllocator;
use clap::Parser;

use crate::{args::Args, job::Job, run::Outcome};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

fn main() -> ExitCode {
    // First of all: signals are handled by whoever came before, too.
    #[cfg(feature = "ofi")]
    annulus_roundabout::fabric::leave_signals();
    let args = match Args::try_parse_from(env::args_os().map(args::protect_comment)) {
        Ok(args) => args,
        Err(usage) => {
            // Help and the version arrive here too, and are no failures. A closed pipe cannot be reported.
            usage.print().ok();
            return if usage.use_stderr() { ExitCode::FAILURE } else { ExitCode::SUCCESS };
        }
    };
    match Job::check(args).and_then(run::run) {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::Differs) => ExitCode::FAILURE,
        Ok(Outcome::Interrupted(signal)) => ExitCode::from(128 + signal),
        Err(error) if errors::is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", errors::text(&error));
            ExitCode::FAILURE
        }
    }
}
