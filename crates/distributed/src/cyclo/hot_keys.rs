//! The hottest key of a join: a sample of both sides tells the share of their rows that have it.
//!
//! ```text
//! each side   scan -> up to 8 parts of the same size -> their first rows -> filters and projections of the side
//!             -> a hash of each key, counted by parts
//! both        the key that gives one worker the most rows and pairs
//! ```
//! A part of rows that are sorted by the key has few keys. So the part that has a key most often does not count
//! for this key.

use std::{collections::HashMap, sync::Arc, thread};

use annulus_join::{Side, Sides};
use datafusion::{
    arrow::{array::ArrayRef, buffer::NullBuffer},
    catalog::memory::DataSourceExec,
    common::hash_utils::{RandomState, create_hashes},
    config::ConfigOptions,
    datasource::physical_plan::FileScanConfig,
    error::Result,
    execution::{TaskContext, object_store::ObjectStoreUrl},
    physical_expr::PhysicalExpr,
    physical_plan::{
        ExecutionPlan, ExecutionPlanProperties, filter::FilterExec, joins::HashJoinExec, limit::LocalLimitExec,
        projection::ProjectionExec, replace_children_if_necessary,
    },
};
use futures::{StreamExt, future::try_join_all};

/// The parts of a side from which rows are taken.
const PARTS: usize = 8;
/// The rows that are taken from each part.
const PART_ROWS: usize = 8192;

/// The shares of the rows of both sides that have one key, from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct HotKey {
    pub(super) shares: Sides<f64>,
}

/// A part of a side.
#[derive(Debug, Default)]
struct Part {
    rows: u32,
    /// The number of rows with each key, by its hash.
    counts: HashMap<u64, u32>,
}

/// Returns the hottest key of a join of sides with this many rows. `None` if the sides cannot be sampled: they are
/// local files that this process reads, with filters and projections alone above them.
///
/// It blocks the calling thread while it reads, which takes some ten milliseconds.
pub(super) fn hottest(join: &HashJoinExec, rows: Sides<f64>, config: &ConfigOptions) -> Option<HotKey> {
    let (left, right) = (first_rows(join.left(), config)?, first_rows(join.right(), config)?);
    let keys = |side: Side| -> Vec<_> {
        let pairs = join.on().iter().map(|(left, right)| if side == Side::Left { left } else { right });
        pairs.cloned().collect()
    };
    let (left_keys, right_keys) = (keys(Side::Left), keys(Side::Right));
    // The planner runs in a task, which must not wait for another one.
    let parts = thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
        let context = Arc::new(TaskContext::default());
        let sample = async { tokio::try_join!(sample(left, left_keys, &context), sample(right, right_keys, &context)) };
        runtime.block_on(sample).ok()
    });
    let (left, right) = parts.join().ok()??;
    hottest_of(&Sides { left, right }, rows)
}

/// Returns a plan of the first rows of some parts of a side.
fn first_rows(side: &Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Option<Arc<dyn ExecutionPlan>> {
    if side.is::<FilterExec>() || side.is::<ProjectionExec>() {
        let input = first_rows(side.children().first()?, config)?;
        return replace_children_if_necessary(Arc::clone(side), vec![input]).ok();
    }
    let scan = side.downcast_ref::<DataSourceExec>()?.data_source().downcast_ref::<FileScanConfig>()?;
    if scan.object_store_url != ObjectStoreUrl::local_filesystem() {
        return None;
    }
    let mut options = config.clone();
    (options.optimizer.repartition_file_scans, options.optimizer.repartition_file_min_size) = (true, 0);
    let in_parts = side.repartitioned(PARTS, &options).ok()?.unwrap_or_else(|| Arc::clone(side));
    let has_parts = in_parts.output_partitioning().partition_count() > 1;
    has_parts.then(|| Arc::new(LocalLimitExec::new(in_parts, PART_ROWS)) as _)
}

/// Returns the keys of all parts of a plan.
async fn sample(
    plan: Arc<dyn ExecutionPlan>,
    keys: Vec<Arc<dyn PhysicalExpr>>,
    context: &Arc<TaskContext>,
) -> Result<Vec<Part>> {
    let count = plan.output_partitioning().partition_count();
    // Of many files, some are enough.
    let step = count.div_ceil(PARTS).max(1);
    try_join_all((0..count).step_by(step).map(|partition| part(&plan, partition, &keys, context))).await
}

async fn part(
    plan: &Arc<dyn ExecutionPlan>,
    partition: usize,
    keys: &[Arc<dyn PhysicalExpr>],
    context: &Arc<TaskContext>,
) -> Result<Part> {
    let (mut part, mut hashes) = (Part::default(), Vec::new());
    let mut rows = plan.execute(partition, Arc::clone(context))?;
    while let Some(batch) = rows.next().await.transpose()? {
        let columns = keys.iter().map(|key| key.evaluate(&batch)?.into_array(batch.num_rows()));
        let columns: Vec<ArrayRef> = columns.collect::<Result<_>>()?;
        hashes.clear();
        hashes.resize(batch.num_rows(), 0);
        create_hashes(&columns, &RandomState::with_seed(0), &mut hashes)?;
        // A null key has no partner.
        let nulls = columns.iter().fold(None, |nulls: Option<NullBuffer>, column| {
            NullBuffer::union(nulls.as_ref(), column.logical_nulls().as_ref())
        });
        let is_valid = |row: usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
        for (_, &hash) in hashes.iter().enumerate().filter(|&(row, _)| is_valid(row)) {
            *part.counts.entry(hash).or_default() += 1;
        }
        part.rows += batch.num_rows() as u32;
    }
    Ok(part)
}

/// The number of rows of a side that have a key.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    rows: u32,
    /// Those of the part that has the key most often, and all rows of this part.
    most: u32,
    rows_of_most: u32,
}

/// Returns the key that gives one worker the most rows and pairs.
fn hottest_of(sides: &Sides<Vec<Part>>, rows: Sides<f64>) -> Option<HotKey> {
    let mut counts: HashMap<u64, Sides<Count>> = HashMap::new();
    for side in Side::BOTH {
        for part in &sides[side] {
            for (&key, &found) in &part.counts {
                let count = &mut counts.entry(key).or_default()[side];
                count.rows += found;
                if found > count.most {
                    (count.most, count.rows_of_most) = (found, part.rows);
                }
            }
        }
    }
    let sampled = sides.as_ref().map(|parts| parts.iter().map(|part| part.rows).sum::<u32>());
    let share = |(count, sampled): (Count, u32)| {
        let others = sampled - count.rows_of_most;
        if others == 0 { 0.0 } else { f64::from(count.rows - count.most) / f64::from(others) }
    };
    let hot = counts.into_values().map(|count| HotKey { shares: count.zip(sampled).map(share) });
    let work = |key: &HotKey| {
        let Sides { left, right } = key.shares.zip(rows).map(|(share, rows)| share * rows);
        left + right + left * right
    };
    hot.max_by(|a, b| work(a).total_cmp(&work(b)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(parts: &[&[u64]]) -> Vec<Part> {
        let part = |keys: &&[u64]| {
            let mut part = Part { rows: keys.len() as u32, ..Part::default() };
            keys.iter().for_each(|&key| *part.counts.entry(key).or_default() += 1);
            part
        };
        parts.iter().map(part).collect()
    }

    #[test]
    fn a_key_is_hot_if_several_parts_have_it() {
        let even = parts(&[&[1, 2, 3, 4], &[5, 6, 7, 8]]);
        let sorted = parts(&[&[1, 1, 1, 1], &[2, 2, 2, 2], &[3, 3, 3, 3]]);
        let hot = parts(&[&[7, 1, 7, 2], &[7, 3, 4, 7], &[5, 6, 7, 8]]);
        let find = |left: &Vec<Part>, right: &Vec<Part>| {
            let copy = |parts: &Vec<Part>| {
                parts.iter().map(|part| Part { rows: part.rows, counts: part.counts.clone() }).collect()
            };
            let sides = Sides { left: copy(left), right: copy(right) };
            hottest_of(&sides, Sides { left: 1000.0, right: 100.0 }).unwrap().shares
        };
        assert_eq!(find(&sorted, &even), Sides { left: 0.0, right: 0.0 });
        assert_eq!(find(&hot, &even), Sides { left: 0.375, right: 0.0 });
        assert_eq!(find(&hot, &hot), Sides { left: 0.375, right: 0.375 });
        assert!(hottest_of(&Sides { left: Vec::new(), right: Vec::new() }, Sides { left: 1.0, right: 1.0 }).is_none());
    }
}
