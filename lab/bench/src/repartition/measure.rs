//! Measures one line of the result: a check, a run that measures memory, and the timed rounds.

use std::{fmt, future::Future, path::Path, sync::Arc, time::Duration};

use annulus_alloc::PeakCounter;
use annulus_calibrate::repartition::{CHECK_HASHES, Input, Operator, Tally, compare, drain};
use annulus_terminal::units::Shape;
use anyhow::{Context, Result, bail, ensure};
use datafusion::{
    execution::{
        TaskContext,
        disk_manager::{DiskManagerBuilder, DiskManagerMode},
        memory_pool::{GreedyMemoryPool, MemoryPool, PeakRecordingPool, UnboundedMemoryPool},
        runtime_env::RuntimeEnvBuilder,
    },
    physical_plan::metrics::MetricsSet,
    prelude::SessionConfig,
};

use super::{
    args::{Consumers, Payload, StrategyArg},
    lineitem::BATCH_ROWS,
    memcpy::Memcpy,
};

/// One comparison.
#[derive(Clone, Copy, Debug)]
pub struct Case<'a> {
    pub payload: Payload,
    pub shape: Shape,
    pub way: StrategyArg,
    pub consumers: Consumers,
    /// The size of the memory pool in bytes; `None` is unlimited.
    pub memory_limit: Option<usize>,
    /// The folder for spill files.
    pub spill: &'a Path,
    /// The time after which a run counts as hung.
    pub timeout: Duration,
}

/// The measurements of one operator.
pub struct Side {
    /// The times of the rounds in milliseconds.
    pub times: Vec<f64>,
    /// The peak heap memory above the input.
    pub heap_bytes: u64,
    /// The most memory reserved from the pool.
    pub reserved_bytes: u64,
    pub metrics: MetricsSet,
}

/// The measurements of a case.
pub struct CaseMeasurement<'a> {
    pub case: Case<'a>,
    /// The rows and batches of the input.
    pub rows: usize,
    pub batches: usize,
    /// The times of plain copies in milliseconds.
    pub memcpy_times: Vec<f64>,
    /// An error if the operator failed or hung, which is accepted if a consumer is slow.
    pub stock: Result<Side>,
    pub ours: Side,
}

/// A completed run.
struct Run {
    time: Duration,
    tallies: Vec<Tally>,
    metrics: MetricsSet,
    reserved_bytes: u64,
}

impl<'a> Case<'a> {
    /// Checks and measures this case on `input`, which `memcpy` copies.
    ///
    /// # Errors
    /// If the rows of an output partition differ between the operators in any run, or an operator
    /// fails.
    pub async fn measure(&self, input: &Input, memcpy: &mut Memcpy, rounds: usize) -> Result<CaseMeasurement<'a>> {
        self.try_measure(input, memcpy, rounds).await.with_context(|| self.to_string())
    }

    async fn try_measure(&self, input: &Input, memcpy: &mut Memcpy, rounds: usize) -> Result<CaseMeasurement<'a>> {
        let expected = self.check(input).await?;
        let mut stock = self.profile(Operator::Stock, input, &expected).await;
        let mut ours = self.profile(Operator::Ours(self.way.0), input, &expected).await?;
        let mut memcpy_times = Vec::new();
        for round in 0..rounds {
            // Stock, ours, ours, stock and so on: neither always follows the other.
            let stock_first = round % 2 == 0;
            if stock_first {
                stock = self.time(Operator::Stock, stock, input, &expected).await;
            }
            ours = self.time(Operator::Ours(self.way.0), Ok(ours), input, &expected).await?;
            if !stock_first {
                stock = self.time(Operator::Stock, stock, input, &expected).await;
            }
            memcpy_times.push(milliseconds(memcpy.run()));
        }
        if self.consumers == Consumers::Even {
            stock = Ok(stock?);
        }
        Ok(CaseMeasurement { case: *self, rows: input.rows(), batches: input.batches.len(), memcpy_times, stock, ours })
    }

    /// Compares the rows of each output partition with those of stock's operator, and returns the
    /// latter. Stock runs with even consumers and unlimited memory, so it cannot fail.
    async fn check(&self, input: &Input) -> Result<Vec<Tally>> {
        let even = Self { consumers: Consumers::Even, memory_limit: None, ..*self };
        let stock = even.run(Operator::Stock, input, true).await?.tallies;
        let ours = self.run(Operator::Ours(self.way.0), input, true).await?.tallies;
        compare(&stock, &ours)?;
        let total: usize = stock.iter().map(|tally| tally.rows).sum();
        ensure!(total == input.rows(), "{total} rows came out of stock's operator, {} went in", input.rows());
        Ok(stock)
    }

    /// Warms up and measures memory, in a run that is not timed.
    async fn profile(&self, operator: Operator, input: &Input, expected: &[Tally]) -> Result<Side> {
        let counter = PeakCounter::start();
        let run = self.run(operator, input, false).await?;
        let heap_bytes = counter.peak_bytes();
        run.expect_rows(expected)?;
        Ok(Side { times: Vec::new(), heap_bytes, reserved_bytes: run.reserved_bytes, metrics: run.metrics })
    }

    /// Adds a timed run to `side`, unless it has failed before.
    async fn time(&self, operator: Operator, side: Result<Side>, input: &Input, expected: &[Tally]) -> Result<Side> {
        let mut side = side?;
        let run = self.run(operator, input, false).await?;
        run.expect_rows(expected)?;
        side.times.push(milliseconds(run.time));
        Ok(side)
    }

    async fn run(&self, operator: Operator, input: &Input, checked: bool) -> Result<Run> {
        let plan = operator.plan(input, self.shape)?;
        let pool: Arc<dyn MemoryPool> = match self.memory_limit {
            Some(bytes) => Arc::new(GreedyMemoryPool::new(bytes)),
            None => Arc::new(UnboundedMemoryPool::default()),
        };
        let pool = Arc::new(PeakRecordingPool::new(pool));
        let disk = DiskManagerBuilder::default().with_mode(DiskManagerMode::Directories(vec![self.spill.to_owned()]));
        let runtime = RuntimeEnvBuilder::new()
            .with_memory_pool(Arc::clone(&pool) as _)
            .with_disk_manager_builder(disk)
            .build_arc()?;
        let config = SessionConfig::new().with_batch_size(BATCH_ROWS);
        let context = Arc::new(TaskContext::default().with_session_config(config).with_runtime(runtime));
        let least = if checked { CHECK_HASHES } else { 0 };
        let count = self.shape.outputs;
        let hashes = |index| self.consumers.hashes(index, count).max(least);
        let leaves_last = self.consumers == Consumers::Unpolled;
        let drained = with_timeout(self.timeout, drain(&plan, &context, &hashes, leaves_last)).await;
        let (time, tallies) = drained.with_context(|| operator.to_string())?;
        let metrics = plan.metrics().unwrap_or_default();
        Ok(Run { time, tallies, metrics, reserved_bytes: pool.peak_reserved() as u64 })
    }
}

impl fmt::Display for Case<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { payload, shape, way, consumers, .. } = self;
        write!(f, "payload {payload}, shape {shape}, way {way}, consumers {consumers}")
    }
}

impl Run {
    /// Checks that each partition has the number of rows of the checked run.
    fn expect_rows(&self, expected: &[Tally]) -> Result<()> {
        let same = self.tallies.iter().map(|tally| tally.rows).eq(expected.iter().map(|tally| tally.rows));
        ensure!(same, "a timed run gave other rows than the checked one");
        Ok(())
    }
}

/// Returns the result of `work`, or an error if it has not ended after `timeout`.
async fn with_timeout<T>(timeout: Duration, work: impl Future<Output = Result<T>>) -> Result<T> {
    match tokio::time::timeout(timeout, work).await {
        Ok(result) => result,
        Err(_) => bail!("it did not end within {} s (--timeout)", timeout.as_secs()),
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    #[test]
    fn a_difference_names_the_partition() {
        let tally = |rows| Tally { rows, ..Tally::default() };
        assert!(compare(&[tally(1), tally(2)], &[tally(1), tally(2)]).is_ok());
        let error = compare(&[tally(1), tally(2)], &[tally(1), tally(3)]).unwrap_err().to_string();
        assert_eq!(error, "rows differ in output partition 1: 2 of stock, 3 of Annulus");
    }

    #[tokio::test]
    async fn work_that_hangs_is_an_error() {
        let hung = with_timeout(Duration::from_millis(1), pending::<Result<()>>()).await;
        let error = hung.unwrap_err().to_string();
        assert!(error.contains("(--timeout)"), "{error}");
        assert_eq!(with_timeout(Duration::MAX, async { Ok(1) }).await.unwrap(), 1);
    }
}
