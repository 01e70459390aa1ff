//! Pairs, and rows of the probe side without a partner, in the order of the probe side.

use arrow::{
    array::{RecordBatch, cast::AsArray},
    compute::interleave_record_batch,
    datatypes::UInt64Type,
};
use datafusion::error::Result;

/// Returns the rows of all batches by the numbers in their last column. Those of each batch are in
/// this order already. O(rows), for a few batches.
pub(super) fn merged(batches: &[RecordBatch]) -> Result<Option<RecordBatch>> {
    if let [] | [_] = batches {
        return Ok(batches.first().cloned());
    }
    let mut places = Vec::with_capacity(batches.iter().map(RecordBatch::num_rows).sum());
    for (at, batch) in batches.iter().enumerate() {
        let numbers = batch.column(batch.num_columns() - 1).as_primitive::<UInt64Type>().values();
        places.extend(numbers.iter().enumerate().map(|(row, &number)| (number, (at, row))));
    }
    // It merges runs. Partners of one row stay in their order.
    places.sort_by_key(|&(number, _)| number);
    let places: Vec<_> = places.into_iter().map(|(_, place)| place).collect();
    Ok(Some(interleave_record_batch(&batches.iter().collect::<Vec<_>>(), &places)?))
}

/// Returns the rows without the numbers in the last column.
pub(super) fn without_numbers(batch: &RecordBatch) -> Result<RecordBatch> {
    Ok(batch.project(&(0..batch.num_columns() - 1).collect::<Vec<_>>())?)
}
