//! The rows of the output, from rows of both sides.

use std::sync::Arc;

use annulus_join::{FilterColumn, Side};
use arrow::{
    array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array, new_null_array},
    compute::{interleave, take},
    datatypes::{Schema, SchemaRef},
};
use datafusion::{error::Result, execution::memory_pool::MemoryReservation};

use crate::join::convert::side_column;

/// The columns of the output, of the left side's and then the right side's.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub(super) schema: SchemaRef,
    columns: Vec<FilterColumn>,
}

impl Layout {
    /// Returns the layout of the columns `projection` of a joined schema, of which the first `left_columns`
    /// are the left side's.
    ///
    /// # Errors
    /// If there are no such columns.
    pub(super) fn new(joined: &Schema, left_columns: usize, projection: &[usize]) -> Result<Self> {
        let columns = projection.iter().map(|&index| side_column(index, left_columns)).collect();
        Ok(Self { schema: Arc::new(joined.project(projection)?), columns })
    }

    /// Returns the columns of the right side.
    pub(super) fn right_columns(&self) -> Vec<usize> {
        self.columns.iter().filter(|column| column.side == Side::Right).map(|column| column.index).collect()
    }
}

/// The pairs of a chunk of the left side, of which the output is made batch by batch.
pub(super) struct Pairs {
    pub(super) left: RecordBatch,
    /// The left row of each pair.
    pub(super) left_rows: Vec<u32>,
    /// The right row of each pair, as a part and a row in it; [`NO_ROW`] if there is none.
    pub(super) right_rows: Vec<(usize, usize)>,
    /// Rows of the right side, which have the columns of the output alone.
    pub(super) parts: Vec<RecordBatch>,
    /// The next pair.
    pub(super) next: usize,
    /// The memory of all this.
    pub(super) _memory: MemoryReservation,
}

/// The row of a left row without a neighbour.
pub(super) const NO_ROW: (usize, usize) = (usize::MAX, 0);

impl Pairs {
    /// Returns the next rows of the output, at most `most` ones.
    ///
    /// # Errors
    /// If a kernel fails.
    pub(super) fn next(&mut self, layout: &Layout, most: usize) -> Result<Option<RecordBatch>> {
        let end = self.left_rows.len().min(self.next + most.max(1));
        if self.next >= end {
            return Ok(None);
        }
        let pairs = self.next..end;
        let left_rows = UInt32Array::from(self.left_rows[pairs.clone()].to_vec());
        let parts = self.parts.len();
        // A row of nulls is one part more.
        let right_row = |&(part, row): &(usize, usize)| if part == NO_ROW.0 { (parts, 0) } else { (part, row) };
        let right_rows: Vec<_> = self.right_rows[pairs.clone()].iter().map(right_row).collect();
        let mut right_column = 0;
        let columns = layout.columns.iter().zip(layout.schema.fields()).map(|(column, field)| match column.side {
            Side::Left => Ok(take(self.left.column(column.index), &left_rows, None)?),
            Side::Right => {
                let nulls = new_null_array(field.data_type(), 1);
                let values = self.parts.iter().map(|part| part.column(right_column).as_ref());
                let values: Vec<&dyn Array> = values.chain([nulls.as_ref()]).collect();
                right_column += 1;
                Ok(interleave(&values, &right_rows)?)
            }
        });
        let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(pairs.len()));
        self.next = end;
        Ok(Some(RecordBatch::try_new_with_options(Arc::clone(&layout.schema), columns, &options)?))
    }
}
