//! Rows of a side in their new order, as one batch or as fragments.

use std::sync::Arc;

use annulus_rows::rows_bytes;
use arrow::{
    array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, UInt32Array},
    compute::{concat, interleave, take},
    datatypes::{DataType, SchemaRef},
    error::ArrowError,
};
use arrow_select::dictionary::garbage_collect_any_dictionary;

use super::keys::num_rows;
use crate::{parallel, views::compact_views};

/// The size up to which batches are put together: random access then goes to few batches, and
/// 32-bit offsets suffice.
const GROUP_BYTES: usize = 1 << 30;

/// A side's rows, in few batches.
#[derive(Debug)]
pub(super) struct Source {
    schema: SchemaRef,
    groups: Vec<RecordBatch>,
    /// The number of each group's first row.
    starts: Vec<usize>,
}

impl Source {
    /// Puts small batches together; each is dropped when it has been copied.
    ///
    /// # Errors
    /// If a batch does not have the columns of the schema.
    pub(super) fn new(schema: &SchemaRef, batches: Vec<RecordBatch>, threads: usize) -> Result<Self, ArrowError> {
        let (mut groups, mut open, mut open_bytes) = (Vec::new(), Vec::new(), 0);
        for batch in batches.into_iter().filter(|batch| batch.num_rows() > 0) {
            let batch = with_schema(schema, &batch)?;
            let bytes = rows_bytes(&batch);
            if open_bytes + bytes > GROUP_BYTES && !open.is_empty() {
                groups.push(together(schema, std::mem::take(&mut open), threads)?);
                open_bytes = 0;
            }
            open_bytes += bytes;
            open.push(batch);
        }
        if !open.is_empty() {
            groups.push(together(schema, open, threads)?);
        }
        let rows = |start: &mut usize, group: &RecordBatch| Some(std::mem::replace(start, *start + group.num_rows()));
        let starts = groups.iter().scan(0, rows).collect();
        Ok(Self { schema: Arc::clone(schema), groups, starts })
    }

    pub(super) fn groups(&self) -> &[RecordBatch] {
        &self.groups
    }

    /// Returns all rows in this order.
    ///
    /// # Errors
    /// If they are too large for one batch: more than 2 GiB of strings with 32-bit offsets.
    pub(super) fn batch(&self, order: Vec<u32>, threads: usize) -> Result<RecordBatch, ArrowError> {
        let rows = order.len();
        let places = self.places(order);
        let columns = (0..self.schema.fields().len()).collect();
        let columns = parallel::map(threads, columns, |column| self.column(column, &places));
        record_batch(&self.schema, columns.into_iter().collect::<Result<_, _>>()?, rows)
    }

    /// Returns all rows in this order, in batches that share no memory. Each has at most
    /// `max_bytes` bytes of memory, or one row.
    ///
    /// # Errors
    /// If an Arrow kernel fails.
    pub(super) fn fragments(
        &self,
        order: &[u32],
        max_bytes: usize,
        threads: usize,
    ) -> Result<Vec<RecordBatch>, ArrowError> {
        let row_bytes = self.groups.iter().map(rows_bytes).sum::<usize>().div_ceil(order.len().max(1)).max(1);
        let chunks: Vec<&[u32]> = order.chunks((max_bytes / row_bytes).max(1)).collect();
        let fragments = parallel::map(threads, chunks, |chunk| {
            let mut fragments = Vec::new();
            self.cut(chunk, max_bytes, &mut fragments)?;
            Ok::<_, ArrowError>(fragments)
        });
        Ok(fragments.into_iter().collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
    }

    /// Cuts columns that are too large into halves.
    fn cut(&self, order: &[u32], max_bytes: usize, fragments: &mut Vec<RecordBatch>) -> Result<(), ArrowError> {
        let places = self.places(order.to_vec());
        let columns = 0..self.schema.fields().len();
        let columns: Result<_, _> = columns.map(|column| compact(self.column(column, &places)?)).collect();
        let batch = record_batch(&self.schema, columns?, order.len())?;
        if order.len() > 1 && rows_bytes(&batch) > max_bytes {
            drop(batch);
            let (left, right) = order.split_at(order.len() / 2);
            self.cut(left, max_bytes, fragments)?;
            return self.cut(right, max_bytes, fragments);
        }
        fragments.push(batch);
        Ok(())
    }

    fn places(&self, order: Vec<u32>) -> Places {
        if self.groups.len() <= 1 {
            return Places::Single(UInt32Array::from(order));
        }
        let place = |row| {
            let group = self.starts.partition_point(|&start| start <= row as usize) - 1;
            (group, row as usize - self.starts[group])
        };
        Places::Several(order.into_iter().map(place).collect())
    }

    fn column(&self, column: usize, places: &Places) -> Result<ArrayRef, ArrowError> {
        let groups = || self.groups.iter().map(|group| group.column(column));
        match places {
            Places::Single(rows) => match groups().next() {
                Some(group) => take(group, rows, None),
                None => Ok(arrow::array::new_empty_array(self.schema.field(column).data_type())),
            },
            Places::Several(places) => interleave(&groups().map(AsRef::as_ref).collect::<Vec<&dyn Array>>(), places),
        }
    }
}

/// The places of rows.
enum Places {
    Single(UInt32Array),
    /// The group and the row in it.
    Several(Vec<(usize, usize)>),
}

/// Returns the batch's columns under this schema.
///
/// # Errors
/// If their types differ from those of the schema.
pub(super) fn with_schema(schema: &SchemaRef, batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    record_batch(schema, batch.columns().to_vec(), batch.num_rows())
}

fn record_batch(schema: &SchemaRef, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch, ArrowError> {
    RecordBatch::try_new_with_options(
        Arc::clone(schema),
        columns,
        &RecordBatchOptions::new().with_row_count(Some(rows)),
    )
}

/// Returns all rows of the batches as one batch.
fn together(schema: &SchemaRef, batches: Vec<RecordBatch>, threads: usize) -> Result<RecordBatch, ArrowError> {
    let columns = parallel::map(threads, (0..schema.fields().len()).collect(), |column| {
        concat(&batches.iter().map(|batch| batch.column(column).as_ref()).collect::<Vec<_>>())
    });
    record_batch(schema, columns.into_iter().collect::<Result<_, _>>()?, num_rows(&batches))
}

/// Returns the column without values in its buffers that none of its rows uses.
fn compact(column: ArrayRef) -> Result<ArrayRef, ArrowError> {
    Ok(match column.data_type() {
        DataType::Dictionary(..) => garbage_collect_any_dictionary(column.as_any_dictionary())?,
        _ => compact_views(column),
    })
}
