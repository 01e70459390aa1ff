//! Runs queries in every way: once to compare the answers, then in turn to time them.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use annulus_datafusion::exchange_report;
use anyhow::{Context, Result};
use arrow::array::RecordBatch;
use datafusion::{
    physical_plan::{ExecutionPlan, collect},
    prelude::SessionContext,
};
use rand::{SeedableRng, rngs::StdRng, seq::SliceRandom};

use super::{
    answer::Answer,
    report::{QueryReport, WayReport},
    run::Query,
    variants::{Variant, Variants},
};
use crate::{errors, session};

/// The seed of the orders in which ways run.
const ORDER_SEED: u64 = 1;

/// A session for each way.
pub struct Engines {
    engines: Vec<Engine>,
    iterations: usize,
}

/// A way and its session.
pub(super) struct Engine {
    /// The name of the way in the report, and in sentences.
    name: String,
    words: String,
    ctx: SessionContext,
}

/// A completed query.
pub(super) struct Execution {
    pub plan: Arc<dyn ExecutionPlan>,
    pub batches: Vec<RecordBatch>,
    /// The time from the SQL text to the last row.
    pub time: Duration,
}

impl Engines {
    /// Opens a session for each way. Messages use the ways' names if they are `named`, as the user
    /// wrote them.
    pub async fn open(
        ways: &Variants,
        iterations: usize,
        named: bool,
        open: impl AsyncFn(&Variant) -> Result<SessionContext>,
    ) -> Result<Self> {
        let mut engines = Vec::new();
        for way in ways.list() {
            engines.push(Engine::open(way, named, &open).await?);
        }
        Ok(Self { engines, iterations })
    }

    /// Compares and times one query. Returns its report, and the problems that there were.
    pub async fn measure(&self, query: &Query) -> (QueryReport, Vec<String>) {
        let names = self.engines.iter().map(|engine| WayReport::new(&engine.name)).collect();
        let mut report = QueryReport { query: query.number, rows: 0, ways: names };
        let mut problems = Vec::new();
        self.check(query, &mut report, &mut problems).await;
        // A way alone has nothing to be compared with.
        if report.ways.iter().filter(|way| way.equal).count() > 1 {
            self.time(query, &mut report, &mut problems).await;
        }
        (report, problems)
    }

    /// Runs the query once in every way, and marks those whose answers are equal to stock's.
    async fn check(&self, query: &Query, report: &mut QueryReport, problems: &mut Vec<String>) {
        let mut expected: Option<Answers> = None;
        for (engine, way) in self.engines.iter().zip(&mut report.ways) {
            let outcome = async {
                let answers = engine.answers(query, way).await?;
                match &expected {
                    None => {
                        report.rows = answers.own.rows();
                        expected = Some(answers);
                        Ok(None)
                    }
                    Some(expected) => expected.difference(&answers, query),
                }
            };
            match outcome.await {
                Ok(None) => way.equal = true,
                Ok(Some(difference)) => {
                    problems.push(format!("the answers of stock DataFusion and {} differ: {difference}", engine.words))
                }
                Err(error) => problems.push(errors::text(&error)),
            }
            if expected.is_none() {
                // Without stock's answer there is nothing to compare.
                return;
            }
        }
    }

    /// Times the ways in turn, in another order each round, and keeps the medians. A way that always
    /// followed the same one would find the memory and the caches as that leaves them.
    async fn time(&self, query: &Query, report: &mut QueryReport, problems: &mut Vec<String>) {
        let mut order: Vec<_> = (0..self.engines.len()).collect();
        let mut times = vec![Vec::new(); order.len()];
        let mut random = StdRng::seed_from_u64(ORDER_SEED);
        for _ in 0..self.iterations {
            order.shuffle(&mut random);
            for &index in &order {
                let way = &mut report.ways[index];
                if !way.equal {
                    continue;
                }
                match self.engines[index].execute(&query.sql).await {
                    Ok(execution) => {
                        times[index].push(execution.time);
                        way.add_exchanges(exchange_report(&execution.plan));
                    }
                    Err(error) => {
                        way.equal = false;
                        problems.push(errors::text(&error));
                    }
                }
            }
        }
        report.set_times(&times);
    }
}

/// The answers to a query and to its witness.
struct Answers {
    own: Answer,
    witness: Option<Answer>,
}

impl Answers {
    fn difference(&self, other: &Self, query: &Query) -> Result<Option<String>> {
        let own = self.own.difference(&other.own, &query.order)?;
        match (&query.witness, &self.witness, &other.witness) {
            (Some((sql, order)), Some(left), Some(right)) if own.is_none() => {
                let difference = left.difference(right, order)?;
                Ok(difference.map(|difference| format!("{difference}, of {}", sql.trim_end())))
            }
            _ => Ok(own),
        }
    }
}

impl Engine {
    /// Opens a session for `way`. Messages use its name if it is `named`.
    pub async fn open(
        way: &Variant,
        named: bool,
        open: impl AsyncFn(&Variant) -> Result<SessionContext>,
    ) -> Result<Self> {
        let words = match (way.engine, named) {
            (session::Engine::Stock, _) => "stock DataFusion".to_owned(),
            (session::Engine::Annulus, false) => "Annulus".to_owned(),
            (session::Engine::Annulus, true) => format!("Annulus ({})", way.name),
        };
        Ok(Self { name: way.name.clone(), words, ctx: open(way).await? })
    }

    /// Runs the query and its witness, and adds the figures of the query's exchanges to `way`.
    async fn answers(&self, query: &Query, way: &mut WayReport) -> Result<Answers> {
        let execution = self.execute(&query.sql).await?;
        way.add_exchanges(exchange_report(&execution.plan));
        let witness = match &query.witness {
            Some((sql, _)) => Some(self.execute(sql).await?.answer()?),
            None => None,
        };
        Ok(Answers { own: execution.answer()?, witness })
    }

    /// Runs `sql`, and returns its rows and how long it took.
    pub async fn execute(&self, sql: &str) -> Result<Execution> {
        let run = async {
            let start = Instant::now();
            let plan = self.ctx.sql(sql).await?.create_physical_plan().await?;
            let batches = collect(Arc::clone(&plan), self.ctx.task_ctx()).await?;
            anyhow::Ok(Execution { time: start.elapsed(), plan, batches })
        };
        run.await.with_context(|| format!("on {}", self.words))
    }
}

impl Execution {
    fn answer(&self) -> Result<Answer> {
        Answer::new(&self.plan.schema(), &self.batches)
    }
}

#[cfg(test)]
mod tests;
