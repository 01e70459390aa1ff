//! One line of the result: a check, a run that counts memory, and the timed rounds.

use std::{sync::Arc, time::Duration};

use annulus_datafusion::config::Path;
use anyhow::{Context, Result, ensure};
use datafusion::{
    execution::{
        TaskContext,
        memory_pool::{GreedyMemoryPool, MemoryPool, PeakRecordingPool, UnboundedMemoryPool},
        runtime_env::RuntimeEnvBuilder,
    },
    physical_plan::metrics::MetricsSet,
    prelude::SessionConfig,
};

use super::{
    args::{Consumers, Payload, Shape},
    drain::{Tally, drain},
    heap::PeakCounter,
    input::{BATCH_ROWS, Input},
    memcpy::Memcpy,
    operator::Operator,
};

/// What is compared.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub payload: Payload,
    pub shape: Shape,
    pub path: Path,
    pub consumers: Consumers,
    /// Of the memory pool, in bytes; `None` is unlimited.
    pub memory_limit: Option<usize>,
}

/// Times of the rounds in milliseconds: those at the same index ran one after the other.
#[derive(Debug, Default)]
pub struct Times {
    pub stock: Vec<f64>,
    pub ours: Vec<f64>,
    pub memcpy: Vec<f64>,
}

/// What a run took besides time.
pub struct Profile {
    /// Most heap memory above the input.
    pub heap_bytes: u64,
    /// Most memory reserved from the pool.
    pub reserved_bytes: u64,
    pub metrics: MetricsSet,
}

/// Everything measured of a case.
pub struct Measured {
    pub case: Case,
    /// Rows and batches of the input.
    pub rows: usize,
    pub batches: usize,
    pub times: Times,
    pub stock: Profile,
    pub ours: Profile,
}

/// One run to the end.
struct Run {
    time: Duration,
    tallies: Vec<Tally>,
    metrics: MetricsSet,
    reserved_bytes: u64,
}

impl Case {
    /// Checks and measures this case on `input`, which `memcpy` copies.
    ///
    /// # Errors
    /// If the rows of an output partition differ between the operators in any run, or one fails.
    pub async fn measure(&self, input: &Input, memcpy: &mut Memcpy, rounds: usize) -> Result<Measured> {
        let case = || self.to_string();
        let expected = self.check(input).await.with_context(case)?;
        let stock = self.profile(Operator::Stock, input, &expected).await.with_context(case)?;
        let ours = self.profile(Operator::Ours(self.path), input, &expected).await.with_context(case)?;
        let times = self.time(input, memcpy, rounds, &expected).await.with_context(case)?;
        Ok(Measured { case: *self, rows: input.rows(), batches: input.batches.len(), times, stock, ours })
    }

    /// Compares the rows of each output partition, and returns what stock's hold.
    async fn check(&self, input: &Input) -> Result<Vec<Tally>> {
        let stock = self.run(Operator::Stock, input, true).await?.tallies;
        let ours = self.run(Operator::Ours(self.path), input, true).await?.tallies;
        compare(&stock, &ours)?;
        let total: usize = stock.iter().map(|tally| tally.rows).sum();
        ensure!(total == input.rows(), "{total} rows came out of stock's operator, {} went in", input.rows());
        Ok(stock)
    }

    /// Warms up, and counts memory, which costs time.
    async fn profile(&self, operator: Operator, input: &Input, expected: &[Tally]) -> Result<Profile> {
        let counter = PeakCounter::start();
        let run = self.run(operator, input, false).await?;
        let heap_bytes = counter.peak_bytes();
        run.expect_rows(expected)?;
        Ok(Profile { heap_bytes, reserved_bytes: run.reserved_bytes, metrics: run.metrics })
    }

    /// The rounds: stock, ours, ours, stock, so that neither always follows the other.
    async fn time(&self, input: &Input, memcpy: &mut Memcpy, rounds: usize, expected: &[Tally]) -> Result<Times> {
        let mut times = Times::default();
        for round in 0..rounds {
            let mut order = [Operator::Stock, Operator::Ours(self.path)];
            if round % 2 == 1 {
                order.reverse();
            }
            for operator in order {
                let run = self.run(operator, input, false).await?;
                run.expect_rows(expected)?;
                match operator {
                    Operator::Stock => times.stock.push(milliseconds(run.time)),
                    Operator::Ours(_) => times.ours.push(milliseconds(run.time)),
                }
            }
            times.memcpy.push(milliseconds(memcpy.run()));
        }
        Ok(times)
    }

    async fn run(&self, operator: Operator, input: &Input, checked: bool) -> Result<Run> {
        let plan = operator.plan(input, self.shape)?;
        let pool: Arc<dyn MemoryPool> = match self.memory_limit {
            Some(bytes) => Arc::new(GreedyMemoryPool::new(bytes)),
            None => Arc::new(UnboundedMemoryPool::default()),
        };
        let pool = Arc::new(PeakRecordingPool::new(pool));
        let runtime = RuntimeEnvBuilder::new().with_memory_pool(Arc::clone(&pool) as _).build_arc()?;
        let config = SessionConfig::new().with_batch_size(BATCH_ROWS);
        let context = Arc::new(TaskContext::default().with_session_config(config).with_runtime(runtime));
        let (time, tallies) =
            drain(&plan, &context, self.consumers, checked).await.with_context(|| format!("{operator:?}"))?;
        let metrics = plan.metrics().unwrap_or_default();
        Ok(Run { time, tallies, metrics, reserved_bytes: pool.peak_reserved() as u64 })
    }
}

impl std::fmt::Display for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { payload, shape, path, consumers, .. } = self;
        write!(f, "payload {payload}, shape {shape}, path {path}, consumers {consumers}")
    }
}

/// That both put the same rows in each output partition.
fn compare(stock: &[Tally], ours: &[Tally]) -> Result<()> {
    for (partition, (stock, ours)) in stock.iter().zip(ours).enumerate() {
        let (stock_rows, our_rows) = (stock.rows, ours.rows);
        ensure!(
            stock == ours,
            "rows differ in output partition {partition}: {stock_rows} of stock, {our_rows} of Annulus"
        );
    }
    Ok(())
}

impl Run {
    /// That no row was lost or misplaced while the time ran.
    fn expect_rows(&self, expected: &[Tally]) -> Result<()> {
        let same = self.tallies.iter().map(|tally| tally.rows).eq(expected.iter().map(|tally| tally.rows));
        ensure!(same, "a timed run gave other rows than the checked one");
        Ok(())
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_names_the_partition() {
        let tally = |rows| Tally { rows, ..Tally::default() };
        assert!(compare(&[tally(1), tally(2)], &[tally(1), tally(2)]).is_ok());
        let error = compare(&[tally(1), tally(2)], &[tally(1), tally(3)]).unwrap_err().to_string();
        assert_eq!(error, "rows differ in output partition 1: 2 of stock, 3 of Annulus");
    }
}
