//! Sorts the rows of batches by partition, with all their columns.
//!
//! ```text
//! batches -> count rows of each partition and thread -> scatter columns of fixed width; with nulls, row numbers, too
//!         -> chunks, each clustered by itself        -> gather other columns, partition by partition
//! ```
//! Views have a fixed width, and the values that they point to are not moved.
//!
//! Rows keep their order within a partition, so scattered and gathered columns agree.
//!
//! The rows with null keys ([`KeyedBatch::nulls`]) follow as one more partition. Fan-outs beyond what
//! the first caches and TLBs can hold are clustered in two passes.

mod gather;
mod input;
mod scatter;
mod scattered;
mod views;

use arrow::{array::ArrayRef, buffer::Buffer};

use super::{build::HashConfig, radix::Radix};
use crate::{
    error::JoinError,
    key::{KeyedBatch, Keys},
    parallel,
};
use input::{Input, Layout, Span, shares};
use scatter::Target;
pub(super) use scattered::validity;

/// Rows in the order of their partitions.
#[derive(Debug)]
pub(super) struct ClusteredRows {
    /// The user's columns, then the hidden ones.
    pub(super) columns: Vec<ArrayRef>,
    /// The start of each partition, then the start of the rows with null keys, then the number of
    /// rows.
    pub(super) starts: Vec<u32>,
}

/// Columns of fixed width, in the layout's order, with the starts of their partitions.
type Pass = (Vec<Buffer>, Vec<u32>);

/// The largest number of bits that one pass clusters by. The scatter takes a cache line for each
/// column and partition.
const PASS_BITS: u32 = 11;

/// Clusters fewer than 2^32 rows. Takes the memory of the rows once more, twice in two passes.
/// Strings that views point to are not copied.
pub(super) fn cluster(keys: &Keys, pieces: &[KeyedBatch], config: &HashConfig) -> Result<ClusteredRows, JoinError> {
    let threads = config.threads;
    let layout = Layout::new(keys, pieces, threads);
    let inputs = Input::of_pieces(&layout, pieces);
    let bits = config.partitions.bits();
    let first_bits = if bits <= PASS_BITS { bits } else { bits / 2 };
    let mut pass = first_pass(&layout, &inputs, Radix::new(0, first_bits), config)?;
    if first_bits < bits {
        pass = second_pass(&layout, pass, Radix::new(first_bits, bits - first_bits), config)?;
    }
    let (buffers, starts) = pass;
    let mut columns = scattered::columns(keys.full(), pieces, &layout, buffers, threads)?;
    let others = gather::columns(keys.full(), pieces, &inputs, &layout, Radix::new(0, bits), &starts, threads)?;
    // The other columns' places are known in ascending order.
    layout.others.iter().zip(others).for_each(|(&at, column)| columns.insert(at, column));
    Ok(ClusteredRows { columns, starts })
}

/// Scatters to all partitions from all threads, each to a part of its own.
fn first_pass(layout: &Layout, inputs: &[Input], radix: Radix, config: &HashConfig) -> Result<Pass, JoinError> {
    let shares = shares(inputs, config.threads);
    let mut begins = parallel::map(config.threads, shares.iter().collect(), |share| scatter::count(share, radix));
    let mut starts = Vec::with_capacity(radix.count() + 2);
    let mut position = 0;
    for group in 0..=radix.count() {
        starts.push(position);
        for begin in &mut begins {
            position += std::mem::replace(&mut begin[group], position);
        }
    }
    starts.push(position);
    let targets = layout.targets(position as usize, config.keeps_memory)?;
    parallel::map(config.threads, shares.iter().zip(&begins).collect(), |(share, begin)| {
        // SAFETY: each share writes after the shares before it, and has as many places as it counted.
        unsafe { scatter::scatter(share, radix, begin, &targets) }
    });
    Ok((targets.into_iter().map(Target::into_buffer).collect(), starts))
}

/// Scatters each of the first pass's partitions on one thread.
fn second_pass(
    layout: &Layout,
    (first, first_starts): Pass,
    radix: Radix,
    config: &HashConfig,
) -> Result<Pass, JoinError> {
    let rows = first_starts.last().map_or(0, |&rows| rows as usize);
    let input = Input::of_buffers(layout, &first, rows);
    let targets = layout.targets(rows, config.keeps_memory)?;
    let nulls = first_starts.len() - 2;
    let starts = parallel::map(config.threads, first_starts.windows(2).enumerate().collect(), |(group, bounds)| {
        let radix = if group == nulls { Radix::new(0, 0) } else { radix };
        let share = [Span { input: &input, start: bounds[0] as usize, len: (bounds[1] - bounds[0]) as usize }];
        let mut begins = scatter::count(&share, radix);
        let mut position = bounds[0];
        for begin in &mut begins {
            position += std::mem::replace(begin, position);
        }
        // SAFETY: each partition goes to its own places, of which there are as many as it has rows.
        unsafe { scatter::scatter(&share, radix, &begins, &targets) }
        begins.truncate(radix.count());
        begins
    });
    let starts = starts.into_iter().flatten().chain([rows as u32]).collect();
    Ok((targets.into_iter().map(Target::into_buffer).collect(), starts))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::{
        array::{Array, AsArray, Int64Array, RecordBatch, StringArray, StringViewArray, UInt32Array},
        compute::take_record_batch,
        datatypes::Int64Type,
    };

    use super::*;
    use crate::Partitions;
    use crate::key::Key;

    fn batch(rows: i64) -> RecordBatch {
        let key: ArrayRef = Arc::new((0..rows).map(|row| (row % 7 != 3).then_some(row / 2)).collect::<Int64Array>());
        let text: ArrayRef =
            Arc::new((0..rows).map(|row| (row % 5 > 0).then(|| row.to_string())).collect::<StringArray>());
        let view = |row: i64| (row % 4 > 0).then(|| row.to_string().repeat(1 + row as usize % 5));
        let view: ArrayRef = Arc::new((0..rows).map(view).collect::<StringViewArray>());
        RecordBatch::try_from_iter_with_nullable([("key", key, true), ("text", text, true), ("view", view, true)])
            .unwrap()
    }

    /// Clustering is a stable sort by partition. There are several chunks, and several parts of
    /// partitions.
    #[test]
    fn rows_stand_in_the_order_of_their_partitions_in_one_pass_and_in_two() {
        let whole = batch(200_000);
        let keys = Keys::new(&whole.schema(), &[0], false).unwrap();
        let pieces: Vec<KeyedBatch> = [(0, 10), (10, 0), (10, 30_001), (30_011, 169_989)]
            .map(|(at, len)| keys.extend(&whole.slice(at, len)).unwrap())
            .into();
        for bits in [0, 1, 5, PASS_BITS, PASS_BITS + 1, PASS_BITS + 3] {
            let radix = Radix::new(0, bits);
            let group = |row: &u32| {
                let key = whole.column(0).as_primitive::<Int64Type>();
                if key.is_null(*row as usize) {
                    radix.count()
                } else {
                    radix.number((key.value(*row as usize) as u64).hash())
                }
            };
            let mut order: Vec<u32> = (0..200_000).collect();
            order.sort_by_key(group);
            let starts: Vec<u32> =
                (0..=radix.count() + 1).map(|g| order.partition_point(|row| group(row) < g) as u32).collect();
            let expected = take_record_batch(&whole, &UInt32Array::from(order)).unwrap();
            for threads in [1, 3] {
                let clustered =
                    cluster(&keys, &pieces, &HashConfig::new(Partitions::at_least(1 << bits)).with_threads(threads))
                        .unwrap();
                assert_eq!(clustered.starts, starts, "{bits} bits, {threads} threads");
                let found = RecordBatch::try_new(whole.schema(), clustered.columns).unwrap();
                assert_eq!(found, expected, "{bits} bits, {threads} threads");
            }
        }
    }
    /// Long values stay in their blocks, unless a few of them would keep all blocks alive.
    #[test]
    fn blocks_of_views_are_shared_or_left() {
        let whole = batch(100_000);
        let keys = Keys::new(&whole.schema(), &[0], false).unwrap();
        let blocks = |batch: &RecordBatch| batch.column(2).as_string_view().data_buffers().to_vec();
        for step in [1, 53] {
            let rows: UInt32Array = (0..100_000).step_by(step).collect();
            let taken = take_record_batch(&whole, &rows).unwrap();
            assert_eq!(blocks(&taken).len(), blocks(&whole).len());
            let half = taken.num_rows() / 2;
            let pieces = [taken.slice(0, half), taken.slice(half, taken.num_rows() - half)];
            let pieces = pieces.map(|piece| keys.extend(&piece).unwrap());
            let clustered = cluster(&keys, &pieces, &HashConfig::new(Partitions::at_least(8)).with_threads(2)).unwrap();
            let found = RecordBatch::try_new(whole.schema(), clustered.columns).unwrap();
            let starts = |batch: &RecordBatch| blocks(batch).iter().map(|block| block.as_ptr()).collect::<Vec<_>>();
            let is_shared = starts(&found).iter().all(|start| starts(&whole).contains(start));
            assert_eq!(is_shared, step == 1);
            let long = found.column(2).as_string_view().iter().flatten().map(str::len).filter(|&len| len > 12);
            let bytes: usize = blocks(&found).iter().map(Buffer::len).sum();
            assert!(bytes <= 2 * long.sum::<usize>(), "{bytes} bytes for every {step}th row");
        }
    }
}
