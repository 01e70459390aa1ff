//! The `annulus-lab` command: benchmarks of Annulus against its rivals, the figures of its papers,
//! and simulations. [`cli`] is its command line, whose commands are in [`commands`].
#![forbid(unsafe_code)]

mod blocking;
mod cli;
mod commands;
mod comparison;
mod queries;
mod suites;

use std::process::ExitCode;

// The modules that commands share with those of `annulus`.
use annulus_alloc::CountingAllocator;
use annulus_cli::{cluster, errors, interrupt, outcome, program, runtime, session, units};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

fn main() -> ExitCode {
    // Rivals are strategies of the laboratory's sessions, and of its workers.
    annulus_transports::register();
    program::main::<cli::Args>()
}
