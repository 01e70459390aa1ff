//! The `annulus` command.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use annulus_alloc::CountingAllocator;
use annulus_cli::{cli::Args, program};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

fn main() -> ExitCode {
    program::main::<Args>()
}
