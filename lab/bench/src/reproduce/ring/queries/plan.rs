//! What is measured for figure 8 and table 4.

use std::{collections::BTreeSet, path::PathBuf};

use annulus_terminal::units;
use anyhow::Result;
use clap::Args;
use indicatif::ProgressBar;
use serde::Serialize;

use super::{Hits, QueryCell, QueryFailed, QueryLine, QueryRunner, QueryTables, Suite, WAYS};
use crate::Stop;
use crate::reproduce::{
    ring::{args::RingArgs, paper},
    store::Store,
};

/// What whole queries read, and with how many threads.
#[derive(Args, Clone, Debug)]
pub struct QueryArgs {
    /// Threads of figure 8 and table 4 [default: number of cores, 2 to 192]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = units::parse_count)]
    pub query_threads: Vec<usize>,
    /// Scale factor of TPC-H's tables
    #[arg(long, default_value = "1", value_name = "SF", value_parser = units::parse_scale)]
    pub scale: f64,
    /// Rows of ClickBench's table, which is generated
    #[arg(long, default_value = "1M", value_name = "N", value_parser = units::parse_tuples)]
    pub hits_rows: u64,
    /// File of ClickBench's queries, one a line [default: without them]
    #[arg(long, value_name = "FILE")]
    pub clickbench: Option<PathBuf>,
    /// ClickBench's own table instead: a Parquet file, or a folder of them
    #[arg(long, value_name = "PATH", conflicts_with_all = ["hits_rows", "quick"])]
    pub hits_data: Option<String>,
}

/// The tables of a quick run.
const QUICK_SCALE: f64 = 0.01;
const QUICK_ROWS: u64 = 20_000;
/// The queries of a quick run: those that the paper names.
const QUICK_TPCH: [u8; 4] = [2, 5, 13, 22];
const QUICK_CLICKBENCH: [u8; 4] = [2, 14, 15, 30];

/// The cells of figure 8 and table 4.
#[derive(Clone, Debug, Serialize)]
pub(in crate::reproduce::ring) struct QueryPlan {
    #[serde(flatten)]
    pub tables: QueryTables,
    threads: Vec<usize>,
    #[serde(skip)]
    cells: Vec<QueryCell>,
    /// The queries that are left out, and the reason.
    #[serde(skip)]
    pub absent: Option<String>,
}

impl QueryPlan {
    pub fn new(args: &QueryArgs, ring: &RingArgs) -> Self {
        let threads = match &args.query_threads[..] {
            [] => vec![ring.full().min(paper::QUERY_THREADS)],
            threads => threads.iter().copied().collect::<BTreeSet<_>>().into_iter().collect(),
        };
        // Their licence grants no commercial use, so that they are not part of Annulus.
        let is_there = |suite| suite != Suite::Clickbench || args.clickbench.is_some();
        let cells = threads.iter().flat_map(|&threads| {
            let suites = Suite::ALL.into_iter().filter(|suite| is_there(*suite));
            let queries = suites.flat_map(|suite| suite.queries(ring.quick).into_iter().map(move |q| (suite, q)));
            queries.map(move |(suite, query)| QueryCell { suite, query, threads, rounds: ring.rounds() })
        });
        let (scale, hits_rows) = match ring.quick {
            true => (args.scale.min(QUICK_SCALE), args.hits_rows.min(QUICK_ROWS)),
            false => (args.scale, args.hits_rows),
        };
        let hits = args.hits_data.clone().map_or(Hits::Generated(hits_rows), Hits::Data);
        let tables = QueryTables { scale, hits, seed: ring.seed };
        let absent = (!is_there(Suite::Clickbench))
            .then(|| "figure-8, the queries of ClickBench: name their file with --clickbench".to_owned());
        Self { tables, cells: cells.collect(), threads, absent }
    }

    /// Returns how often [`measure`](Self::measure) advances its bar.
    pub fn runs(&self) -> u64 {
        self.cells.iter().map(QueryCell::runs).sum()
    }

    /// Measures the cells that `store` does not have. Returns them, and the queries that failed, which
    /// are not kept in `store`.
    ///
    /// # Errors
    /// Those of the runner, or if `stop` is set.
    pub fn measure(
        &self,
        runner: &mut dyn QueryRunner,
        store: &mut Store,
        bar: &ProgressBar,
        stop: &Stop,
    ) -> Result<(Vec<QueryLine>, Vec<String>)> {
        let (mut lines, mut failed) = (Vec::new(), Vec::new());
        for cell in &self.cells {
            bar.set_message(format!("{} query {}", cell.suite.name(), cell.query));
            let key = format!("figure-8 {} {} threads={}", cell.suite.word(), cell.query, cell.threads);
            let line = store.get_or(&key, || {
                stop.check()?;
                runner.measure(cell)
            });
            match line {
                Ok(line) => lines.push(line),
                Err(error) if error.is::<QueryFailed>() => failed.push(format!("{error:#}")),
                Err(error) => return Err(error),
            }
            bar.inc(cell.runs());
        }
        Ok((lines, failed))
    }
}

impl QueryCell {
    /// Returns the number of runs, with those that are not timed.
    fn runs(&self) -> u64 {
        (WAYS.len() * (self.rounds + 1)) as u64
    }
}

impl Suite {
    fn queries(self, quick: bool) -> Vec<u8> {
        match (self, quick) {
            (Self::Tpch, true) => QUICK_TPCH.to_vec(),
            (Self::Tpch, false) => (1..=22).filter(|query| *query != 21).collect(),
            (Self::Clickbench, true) => QUICK_CLICKBENCH.to_vec(),
            (Self::Clickbench, false) => (1..=43).collect(),
        }
    }
}
