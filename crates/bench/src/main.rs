//! The benchmarks of the `annulus` command without the rest of it. Those that need no engine are
//! built in seconds; the feature `datafusion` adds the others.

use std::process::ExitCode;

use annulus_bench::{exchange, join, pages, reproduce, roundabout};
use annulus_terminal::{Stop, heap::CountingAllocator};
use anyhow::Result;
use clap::{Parser, Subcommand};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Compare parts of Annulus with alternatives
#[derive(Parser)]
#[command(name = "annulus-bench", version)]
enum Args {
    /// Compare parts of Annulus with alternatives
    #[command(subcommand)]
    Bench(Bench),
    /// Reproduce the figures of a paper on this machine
    #[command(subcommand)]
    Reproduce(Reproduce),
}

#[derive(Subcommand)]
enum Bench {
    /// Repartition rows in memory, with DataFusion's operator and with ours
    #[cfg(feature = "datafusion")]
    Repartition(annulus_bench::repartition::RepartitionArgs),
    /// Exchange rows between threads, with every strategy
    Exchange(exchange::ExchangeArgs),
    /// Shuffle tuples onto pages, in the paper's ways and in ours
    Pages(pages::PagesArgs),
    /// Send buffers from one host of a ring to the next
    Roundabout(roundabout::RoundaboutArgs),
    /// Join two tables around rings of different sizes
    Join(join::JoinArgs),
}

#[derive(Subcommand)]
enum Reproduce {
    /// Exchanging rows between threads: throughput, memory and synchronisation
    Ring(reproduce::ring::RingArgs),
    /// Shuffling tuples onto pages: throughput, memory and Flink
    Pages(reproduce::pages::ReproduceArgs),
    /// Joins around a ring of hosts
    CycloJoin(reproduce::cyclo::CycloJoinArgs),
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<()> {
    let stop = Stop::default();
    match args {
        #[cfg(feature = "datafusion")]
        Args::Bench(Bench::Repartition(args)) => repartition(args),
        Args::Bench(Bench::Exchange(args)) => exchange::run(args, &stop),
        Args::Bench(Bench::Pages(args)) => pages::run(args, &stop),
        Args::Bench(Bench::Roundabout(args)) => roundabout::run(args, &stop),
        Args::Bench(Bench::Join(args)) => join::run(args, &stop),
        Args::Reproduce(Reproduce::Ring(args)) => reproduce::ring::run(args, None, &stop),
        Args::Reproduce(Reproduce::Pages(args)) => reproduce::pages::run(args, &stop),
        Args::Reproduce(Reproduce::CycloJoin(args)) => reproduce::cyclo::run(args, &stop),
    }
}

/// Runs the comparison on its own threads, with a temporary folder for spill files.
#[cfg(feature = "datafusion")]
fn repartition(args: &annulus_bench::repartition::RepartitionArgs) -> Result<()> {
    let spill = tempfile::tempdir()?;
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    if let Some(threads) = args.threads {
        runtime.worker_threads(threads);
    }
    runtime.enable_all().build()?.block_on(annulus_bench::repartition::run(args, spill.path()))
}
