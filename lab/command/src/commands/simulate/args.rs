//! The command line of `annulus-lab simulate`.

use std::path::PathBuf;

use annulus_simulate::{MAX_CORES, Question, StrategyKind};
use annulus_terminal::units;
use anyhow::{Result, bail};
use clap::{Args, Subcommand};

const EXAMPLES: &str = "\
Examples:
  annulus-lab simulate exchange
  annulus-lab simulate exchange --cores 96,192,384 --domains 12 --row-bytes 64
  annulus-lab simulate exchange --strategies ring,reserve,mutex-channel --json
  annulus-lab simulate exchange --out simulation

Predicts how fast threads exchange rows on machines that are not at hand. Each
core runs a producer and a consumer. Contended cache lines, locks, wake-ups,
caches and memory bandwidth are simulated event by event.

The model is checked before it predicts: its free parameters are fitted to half
of the cells of tables 2 and 3 of the ring buffer's paper (arXiv 2605.29099),
and the error on the other half is printed, with every row whose winner it does
not name. Distances between cores are published measurements of the three
machines of the paper. A machine with one domain is like its Grace, with two
like its Graviton4 (two sockets), and with more like its EPYC (chiplets on two
sockets, and cores as fast as the EPYC's hardware threads).

Strategies: ring and reserve are Annulus's; paper-ring, mutex-channel and batch
are the paper's; channel has a queue without locks for each consumer, and spsc
one for each producer and consumer; ring-per-domain has a ring for each
last-level cache.";

#[derive(Subcommand)]
pub enum SimulateCommand {
    /// Exchange rows between threads, by strategy, cores and cache domains
    Exchange(ExchangeArgs),
}

#[derive(Args, Clone, Debug)]
#[command(after_long_help = EXAMPLES)]
pub struct ExchangeArgs {
    /// Numbers of cores to predict
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "2,4,8,16,32,64,128,192,256,512")]
    #[arg(value_parser = units::parse_count)]
    pub cores: Vec<usize>,
    /// Numbers of last-level caches to predict
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1,2,12,24")]
    #[arg(value_parser = units::parse_count)]
    pub domains: Vec<usize>,
    /// Bytes of a row
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "8,64", value_parser = units::parse_count)]
    pub row_bytes: Vec<usize>,
    /// Strategies to predict [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub strategies: Vec<StrategyKind>,
    /// Rows of a batch
    #[arg(long, value_name = "N", default_value = "8192", value_parser = units::parse_count)]
    pub rows_a_batch: usize,
    /// Seed of the random numbers
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Fit the parameters again instead of using the stored ones; takes minutes
    #[arg(long)]
    pub refit: bool,
    /// Print one JSON object instead of tables
    #[arg(long)]
    pub json: bool,
    /// Also write exchange.json, exchange.csv and exchange.html to this folder
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

impl ExchangeArgs {
    /// Returns what is to be predicted.
    pub fn question(&self) -> Result<Question> {
        if let Some(cores) = self.cores.iter().find(|cores| **cores > MAX_CORES) {
            bail!("invalid --cores {cores}: expected at most {MAX_CORES}");
        }
        let least = self.domains.iter().min();
        if let Some(domains) = least.filter(|domains| self.cores.iter().all(|cores| cores < *domains)) {
            bail!("--domains {domains} leaves no machine: give --cores of at least {domains}");
        }
        let strategies = if self.strategies.is_empty() { StrategyKind::ALL.to_vec() } else { self.strategies.clone() };
        Ok(Question {
            cores: self.cores.clone(),
            domains: self.domains.clone(),
            row_bytes: self.row_bytes.clone(),
            rows: self.rows_a_batch,
            strategies,
        })
    }
}
