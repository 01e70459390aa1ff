//! The output of a few thousand pairs as a batch of its own, which shares memory with both sides
//! where that saves copies.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayData, ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array, make_array},
    buffer::{BooleanBuffer, Buffer},
    compute::take,
    datatypes::ArrowNativeType,
};

use super::{plan::Output, side::SideRows, writer::mark};
use crate::{
    error::JoinError,
    fetch::{CACHE_BYTES, gathered, values_of},
    sides::Side,
};

/// Row numbers of the build side and of the probe side.
type Pairs = (Vec<u32>, Vec<u32>);

/// The row numbers that are compared at a time.
const BLOCK: usize = 256;

impl Output {
    /// Returns the output of pairs: row `build[i]` of the build side and row `probe[i]` of a batch
    /// of the probe side satisfy the join's own part of the condition. Evaluates the filter and sets
    /// match bits, as a [`PairWriter`](crate::PairWriter) does, but makes one batch of at most as
    /// many rows as pairs, at once. Values of views, and all values of rows that follow each other,
    /// stay where they are. Returns nothing if no pair is output.
    ///
    /// # Errors
    /// If a row does not exist, a kernel or the filter fails, and [`JoinError::Cancelled`].
    pub fn joined(
        &self,
        sides: (&SideRows, &SideRows),
        build: &[u32],
        probe: &[u32],
    ) -> Result<Option<RecordBatch>, JoinError> {
        self.cancel.check()?;
        let kept = self.filter(sides, build, probe)?;
        let (build, probe) = kept.as_ref().map_or((build, probe), |(build, probe)| (build, probe));
        mark(sides.0.matched(), build);
        mark(sides.1.matched(), probe);
        if !self.emits.pairs || build.is_empty() {
            return Ok(None);
        }
        let (build_columns, probe_columns) = (rows(&sides.0.shown, build)?, rows(&sides.1.shown, probe)?);
        let (mut left, right) =
            if self.build_side == Side::Left { (build_columns, probe_columns) } else { (probe_columns, build_columns) };
        left.extend(right);
        let options = RecordBatchOptions::new().with_row_count(Some(build.len()));
        Ok(Some(RecordBatch::try_new_with_options(Arc::clone(&self.schema), left, &options)?))
    }

    /// Returns the pairs that satisfy the filter, or nothing if all do.
    fn filter(&self, sides: (&SideRows, &SideRows), build: &[u32], probe: &[u32]) -> Result<Option<Pairs>, JoinError> {
        let Some(plan) = &self.filter else { return Ok(None) };
        if build.is_empty() {
            return Ok(None);
        }
        let batch = |side: &SideRows, numbers: &[u32]| -> Result<RecordBatch, JoinError> {
            let options = RecordBatchOptions::new().with_row_count(Some(numbers.len()));
            let columns = rows(&side.filtered, numbers)?;
            Ok(RecordBatch::try_new_with_options(side.filtered.schema(), columns, &options)?)
        };
        let kept = plan.keep(&batch(sides.0, build)?, &batch(sides.1, probe)?)?;
        if kept.count_set_bits() == build.len() {
            return Ok(None);
        }
        let of = |numbers: &[u32], kept: &BooleanBuffer| kept.set_indices().map(|pair| numbers[pair]).collect();
        Ok(Some((of(build, &kept), of(probe, &kept))))
    }
}

/// Returns these rows of all columns. Rows that follow each other are not copied.
fn rows(batch: &RecordBatch, numbers: &[u32]) -> Result<Vec<ArrayRef>, JoinError> {
    let first = numbers[0];
    let has_room = (first as usize).saturating_add(numbers.len()) <= batch.num_rows();
    if has_room && are_consecutive(numbers) {
        return Ok(batch.slice(first as usize, numbers.len()).columns().to_vec());
    }
    if numbers.iter().fold(0, |most, &number| most.max(number)) as usize >= batch.num_rows() {
        return Err(JoinError::Fragment { what: "its pairs name rows that do not exist" });
    }
    let numbers = UInt32Array::from(numbers.to_vec());
    batch.columns().iter().map(|column| taken(column, &numbers)).collect()
}

/// Returns these rows of a column.
fn taken(column: &ArrayRef, numbers: &UInt32Array) -> Result<ArrayRef, JoinError> {
    let is_far = |&width: &usize| column.null_count() == 0 && column.len() * width > CACHE_BYTES;
    match column.data_type().primitive_width().filter(is_far) {
        Some(4) => fetched::<u32>(&column.to_data(), numbers),
        Some(8) => fetched::<u64>(&column.to_data(), numbers),
        Some(16) => fetched::<i128>(&column.to_data(), numbers),
        _ => Ok(take(column, numbers, None)?),
    }
}

/// Returns these rows of a column of values as wide as `T`, without nulls.
fn fetched<T: ArrowNativeType>(data: &ArrayData, numbers: &UInt32Array) -> Result<ArrayRef, JoinError> {
    let Some(values) = values_of::<T>(data) else { return Ok(take(&make_array(data.clone()), numbers, None)?) };
    let taken = Buffer::from_vec(gathered(&values, numbers.values()));
    let taken = ArrayData::builder(data.data_type().clone()).len(numbers.len()).add_buffer(taken);
    Ok(make_array(taken.build()?))
}

/// Returns whether each number is one more than the one before.
fn are_consecutive(numbers: &[u32]) -> bool {
    let (first, last) = (numbers[0], numbers[numbers.len() - 1]);
    let follows = |(block, numbers): (usize, &[u32])| {
        let first = first.wrapping_add((block * BLOCK) as u32);
        // No early end, so that the compiler compares several at once.
        numbers.iter().zip(0..).fold(true, |follows, (&number, index)| follows & (number == first.wrapping_add(index)))
    };
    // The last number alone tells for most of them.
    last.wrapping_sub(first) as usize == numbers.len() - 1 && numbers.chunks(BLOCK).enumerate().all(follows)
}
