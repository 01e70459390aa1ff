//! The `annulus` command. [`cli`] reads the command line and runs one of [`commands`], which share
//! the other modules.
#![forbid(unsafe_code)]

mod blocking;
mod child;
mod cli;
mod cluster;
mod commands;
mod comparison;
mod distinct_from;
mod errors;
mod formats;
mod inputs;
mod interrupt;
mod logging;
mod objects;
mod outcome;
mod reading;
mod runtime;
mod session;
mod spill;
mod stores;
mod suites;
mod units;

use std::{env, process::ExitCode};

use annulus_terminal::heap::CountingAllocator;
use clap::CommandFactory;

use crate::{cli::Args, outcome::Outcome};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

fn main() -> ExitCode {
    // Resets the signal handlers that libfabric's libraries installed when they were loaded. Must
    // come before this program sets its own.
    #[cfg(feature = "ofi")]
    annulus_roundabout::fabric::leave_signals();
    let args = match cli::parse(env::args_os()) {
        Ok(args) => args,
        Err(usage) => {
            // Help and the version are printed here, too, and succeed. A closed pipe cannot be reported.
            usage.print().ok();
            return if usage.use_stderr() { ExitCode::FAILURE } else { ExitCode::SUCCESS };
        }
    };
    errors::name_flags_of(Args::command);
    match args.command.run() {
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
