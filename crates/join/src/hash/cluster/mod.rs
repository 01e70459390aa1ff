//! Rows of batches brought into the order of their partitions, all columns of them.
//!
//! ```text
//! batches -> count rows of each partition and thread -> scatter columns of fixed width; with nulls, row numbers, too
//!         -> chunks, each clustered by itself        -> gather other columns, partition by partition
//! ```
//! Within a partition rows keep their order, which is why both ways agree.
//!
//! Behind the partitions come the rows with null keys ([`Keyed::nulls`]), as one more. Fan-outs beyond what the first caches and
//! TLBs bear are clustered in two passes.

mod gather;
mod input;
mod scatter;
mod scattered;

use arrow::{array::ArrayRef, buffer::Buffer};

use super::radix::{Partitions, Radix};
use crate::{
    error::JoinError,
    key::{Keyed, Keys},
    parallel,
};
use input::{Input, Layout, Span, shares};
use scatter::Target;

/// Rows in the order of their partitions.
#[derive(Debug)]
pub(super) struct Clustered {
    /// The user's columns, then the hidden ones.
    pub(super) columns: Vec<ArrayRef>,
    /// Where each partition begins, then where the rows with null keys do, then the number of rows.
    pub(super) starts: Vec<u32>,
}

/// Columns of fixed width, in the layout's order, with the starts of their partitions.
type Pass = (Vec<Buffer>, Vec<u32>);

/// More partitions are made in two passes: each takes a cache line for each column while rows are scattered.
const PASS_BITS: u32 = 11;

/// Clusters fewer than 2^32 rows. Takes the memory of the rows once more than they have, and in two passes twice.
pub(super) fn cluster(
    keys: &Keys,
    pieces: &[Keyed],
    partitions: Partitions,
    threads: usize,
) -> Result<Clustered, JoinError> {
    let layout = Layout::new(keys, pieces);
    let inputs = Input::of_pieces(&layout, pieces);
    let bits = partitions.bits();
    let first_bits = if bits <= PASS_BITS { bits } else { bits / 2 };
    let mut pass = first_pass(&layout, &inputs, Radix::new(0, first_bits), threads)?;
    if first_bits < bits {
        pass = second_pass(&layout, pass, Radix::new(first_bits, bits - first_bits), threads)?;
    }
    let (buffers, starts) = pass;
    let mut columns = scattered::columns(keys.full(), pieces, &layout, buffers, threads)?;
    let others = gather::columns(keys.full(), pieces, &inputs, &layout, Radix::new(0, bits), &starts, threads)?;
    // The others' places are known in ascending order.
    layout.others.iter().zip(others).for_each(|(&at, column)| columns.insert(at, column));
    Ok(Clustered { columns, starts })
}

/// All threads scatter to all partitions, each to a part of its own.
fn first_pass(layout: &Layout, inputs: &[Input], radix: Radix, threads: usize) -> Result<Pass, JoinError> {
    let shares = shares(inputs, threads);
    let mut begins = parallel::map(threads, shares.iter().collect(), |share| scatter::count(share, radix));
    let mut starts = Vec::with_capacity(radix.count() + 2);
    let mut position = 0;
    for group in 0..=radix.count() {
        starts.push(position);
        for begin in &mut begins {
            position += std::mem::replace(&mut begin[group], position);
        }
    }
    starts.push(position);
    let targets = layout.targets(position as usize)?;
    parallel::map(threads, shares.iter().zip(&begins).collect(), |(share, begin)| {
        // SAFETY: each share has the places behind those of the ones before it, as many as it counted.
        unsafe { scatter::scatter(share, radix, begin, &targets) }
    });
    Ok((targets.into_iter().map(Target::into_buffer).collect(), starts))
}

/// Each of the first pass's partitions is scattered by one thread.
fn second_pass(layout: &Layout, (first, first_starts): Pass, radix: Radix, threads: usize) -> Result<Pass, JoinError> {
    let rows = first_starts.last().map_or(0, |&rows| rows as usize);
    let input = Input::of_buffers(layout, &first, rows);
    let targets = layout.targets(rows)?;
    let nulls = first_starts.len() - 2;
    let starts = parallel::map(threads, first_starts.windows(2).enumerate().collect(), |(group, bounds)| {
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
        array::{Array, AsArray, Int64Array, RecordBatch, StringArray, UInt32Array},
        compute::take_record_batch,
        datatypes::Int64Type,
    };

    use super::*;
    use crate::key::Key;

    fn batch(rows: i64) -> RecordBatch {
        let key: ArrayRef = Arc::new((0..rows).map(|row| (row % 7 != 3).then_some(row / 2)).collect::<Int64Array>());
        let text: ArrayRef =
            Arc::new((0..rows).map(|row| (row % 5 > 0).then(|| row.to_string())).collect::<StringArray>());
        RecordBatch::try_from_iter_with_nullable([("key", key, true), ("text", text, true)]).unwrap()
    }

    /// It is a stable sort by partition. There are several chunks, and several parts of partitions.
    #[test]
    fn rows_stand_in_the_order_of_their_partitions_in_one_pass_and_in_two() {
        let whole = batch(200_000);
        let keys = Keys::new(&whole.schema(), &[0], false).unwrap();
        let pieces: Vec<Keyed> = [(0, 10), (10, 0), (10, 30_001), (30_011, 169_989)]
            .map(|(at, len)| keys.extend(&whole.slice(at, len)).unwrap())
            .into();
        for bits in [0, 1, 5, PASS_BITS, PASS_BITS + 1, PASS_BITS + 3] {
            let radix = Radix::new(0, bits);
            let group = |row: &u32| {
                let key = whole.column(0).as_primitive::<Int64Type>();
                if key.is_null(*row as usize) {
                    radix.count()
                } else {
                    radix.of((key.value(*row as usize) as u64).hash())
                }
            };
            let mut order: Vec<u32> = (0..200_000).collect();
            order.sort_by_key(group);
            let starts: Vec<u32> =
                (0..=radix.count() + 1).map(|g| order.partition_point(|row| group(row) < g) as u32).collect();
            let expected = take_record_batch(&whole, &UInt32Array::from(order)).unwrap();
            for threads in [1, 3] {
                let clustered = cluster(&keys, &pieces, Partitions::at_least(1 << bits), threads).unwrap();
                assert_eq!(clustered.starts, starts, "{bits} bits, {threads} threads");
                let found = RecordBatch::try_new(whole.schema(), clustered.columns).unwrap();
                assert_eq!(found, expected, "{bits} bits, {threads} threads");
            }
        }
    }
}
