//! Runs a plan, with a task for each output partition.

use std::{
    hint::black_box,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use datafusion::{
    common::{
        hash_utils::{RandomState, with_hashes},
        runtime::SpawnedTask,
    },
    execution::{SendableRecordBatchStream, TaskContext},
    physical_plan::ExecutionPlan,
};
use futures::{TryStreamExt, future::try_join_all};

/// The rows of an output partition: their number, and sums of their hashes, which differ for
/// different multisets of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// The number of rows.
    pub rows: usize,
    /// The sums of several independent hashes, which do not depend on the order of the rows.
    /// Complete only in a checked run.
    pub sums: [u64; CHECK_HASHES],
}

/// The number of independent hashes of each row in a checked run.
pub const CHECK_HASHES: usize = 2;

/// Executes all partitions of `plan` and reads them to their end. The consumer of output partition
/// `p` hashes each batch `hashes(p)` times, which is its work. With `leaves_last`, the last partition
/// is not polled before the others have ended. Returns the time and the tally of each partition,
/// which is complete with [`CHECK_HASHES`]. Dropping the future stops all tasks.
///
/// # Errors
/// If the plan fails.
pub async fn drain(
    plan: &Arc<dyn ExecutionPlan>,
    context: &Arc<TaskContext>,
    hashes: &(dyn Fn(usize) -> usize + Sync),
    leaves_last: bool,
) -> Result<(Duration, Vec<Tally>)> {
    let count = plan.properties().partitioning.partition_count();
    let read = |(index, stream)| SpawnedTask::spawn(tally(stream, hashes(index))).join();

    let start = Instant::now();
    let streams = (0..count).map(|partition| plan.execute(partition, Arc::clone(context)));
    let mut first: Vec<_> = streams.collect::<Result<Vec<_>, _>>()?.into_iter().enumerate().collect();
    let polled_last = if leaves_last { first.split_off(count - 1) } else { Vec::new() };
    let mut tallies = try_join_all(first.into_iter().map(read)).await?;
    tallies.extend(try_join_all(polled_last.into_iter().map(read)).await?);
    let time = start.elapsed();

    let tallies = tallies.into_iter().collect::<Result<_>>().context("the repartition failed")?;
    Ok((time, tallies))
}

/// Checks that two operators give the same rows in each output partition.
///
/// # Errors
/// If they do not; the error names the partition.
pub fn compare(stock: &[Tally], ours: &[Tally]) -> Result<()> {
    for (partition, (stock, ours)) in stock.iter().zip(ours).enumerate() {
        let (stock_rows, our_rows) = (stock.rows, ours.rows);
        ensure!(
            stock == ours,
            "rows differ in output partition {partition}: {stock_rows} of stock, {our_rows} of Annulus"
        );
    }
    Ok(())
}

/// Reads `stream` to its end and hashes each row `hashes` times.
async fn tally(mut stream: SendableRecordBatchStream, hashes: usize) -> Result<Tally> {
    let mut tally = Tally::default();
    while let Some(batch) = stream.try_next().await? {
        tally.rows += batch.num_rows();
        for seed in 0..hashes {
            // DataFusion places rows by seed 0, so hashes with that seed are similar within a
            // partition.
            let state = RandomState::with_seed(seed as u64 + 1);
            let sum = with_hashes(batch.columns(), &state, |hashes| {
                Ok(hashes.iter().fold(0u64, |sum, hash| sum.wrapping_add(*hash)))
            })?;
            match tally.sums.get_mut(seed) {
                Some(total) => *total = total.wrapping_add(sum),
                None => drop(black_box(sum)),
            }
        }
    }
    Ok(tally)
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int64Array, RecordBatch, StringViewArray};
    use datafusion::datasource::memory::MemorySourceConfig;

    use super::*;

    fn batch(keys: &[i64], words: &[&str]) -> RecordBatch {
        let keys = Arc::new(Int64Array::from(keys.to_vec())) as _;
        let words = Arc::new(StringViewArray::from(words.to_vec())) as _;
        RecordBatch::try_from_iter([("key", keys), ("word", words)]).unwrap()
    }

    async fn tallies(partitions: &[Vec<RecordBatch>], leaves_last: bool) -> Vec<Tally> {
        let schema = partitions[0][0].schema();
        let plan = MemorySourceConfig::try_new_exec(partitions, schema, None).unwrap() as _;
        drain(&plan, &Arc::default(), &|_| CHECK_HASHES, leaves_last).await.unwrap().1
    }

    #[tokio::test]
    async fn tallies_ignore_order_and_see_every_value() {
        let rows = vec![batch(&[1, 2, 3], &["a", "b", "c"])];
        let shuffled = vec![batch(&[3], &["c"]), batch(&[2, 1], &["b", "a"])];
        let crossed = vec![batch(&[1, 2, 3], &["b", "a", "c"])];
        let doubled = vec![batch(&[1, 1, 3], &["a", "a", "c"])];
        let tallies = tallies(&[rows, shuffled, crossed, doubled], false).await;
        assert_eq!(tallies[0], tallies[1]);
        assert_ne!(tallies[0], tallies[2]);
        assert_ne!(tallies[0], tallies[3]);
        assert!(tallies.iter().all(|tally| tally.rows == 3));
    }

    #[tokio::test]
    async fn tallies_stand_in_the_order_of_the_partitions() {
        let partitions = [vec![batch(&[1], &["a"])], vec![batch(&[2, 3], &["b", "c"])]];
        for leaves_last in [false, true] {
            let rows: Vec<_> = tallies(&partitions, leaves_last).await.iter().map(|tally| tally.rows).collect();
            assert_eq!(rows, [1, 2], "{leaves_last}");
        }
    }
}
