//! Rows that a join outputs without a row of the other side, depending on whether they have a
//! match.

use std::{ops::Range, sync::Arc};

use annulus_rows::{gather::BatchBuilder, partition};
use arrow::{
    array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, new_null_array},
    datatypes::Schema,
};

use super::{columns::SideColumns, gather::outside, plan::Output, side::SideRows};
use crate::{error::JoinError, sides::Side, types::UnpairedRows};

impl Output {
    /// Outputs the rows of a range of the build side that the join emits alone, in their order.
    /// Call it after all fragments have been joined. An outer join has nulls for the other side, and
    /// a mark join a mark with each row.
    /// Batches have at most [`OutputSpec::batch_rows`](crate::OutputSpec::batch_rows) rows. O(rows).
    ///
    /// # Errors
    /// The first error of `emit`, or [`JoinError::Cancelled`].
    pub fn build_alone(
        &self,
        build: &SideRows,
        rows: Range<usize>,
        emit: impl FnMut(RecordBatch) -> Result<(), JoinError>,
    ) -> Result<(), JoinError> {
        self.unpaired((&self.build, &self.probe, self.build_side), self.emits.build, (build, rows), emit)
    }

    /// Outputs the rows of a range of a fragment that the join emits alone, as
    /// [`build_alone`](Self::build_alone) does. Call it after all parts of the build side have been
    /// joined with the fragment.
    ///
    /// # Errors
    /// The first error of `emit`, or [`JoinError::Cancelled`].
    pub fn probe_alone(
        &self,
        fragment: &SideRows,
        rows: Range<usize>,
        emit: impl FnMut(RecordBatch) -> Result<(), JoinError>,
    ) -> Result<(), JoinError> {
        self.unpaired((&self.probe, &self.build, self.build_side.other()), self.emits.probe, (fragment, rows), emit)
    }

    fn unpaired(
        &self,
        (own, other, side): (&SideColumns, &SideColumns, Side),
        alone: UnpairedRows,
        (source, range): (&SideRows, Range<usize>),
        mut emit: impl FnMut(RecordBatch) -> Result<(), JoinError>,
    ) -> Result<(), JoinError> {
        let (Some(matched), true) = (source.matched(), alone != UnpairedRows::None) else { return Ok(()) };
        let rows = range.start as u32..range.end.min(source.rows) as u32;
        let is_marked = alone == UnpairedRows::Marked;
        let rows: Vec<u32> =
            if is_marked { rows.collect() } else { matched.rows_in(rows, alone == UnpairedRows::Matched) };
        let nulls = nulls(&other.output.schema, rows.len().min(self.batch_rows));
        let mut builder = BatchBuilder::new(Arc::clone(&own.output.schema), self.batch_rows, Arc::clone(&self.pool));
        let mut emit = |own: RecordBatch, numbers: &[u32]| {
            let rows = own.num_rows();
            let nulls = nulls.iter().map(|column| column.slice(0, rows));
            let own = own.columns().iter().cloned();
            let mut columns: Vec<_> =
                if side == Side::Left { own.chain(nulls).collect() } else { nulls.chain(own).collect() };
            if is_marked {
                let marks = numbers.iter().map(|&row| matched.get(row)).collect::<Vec<_>>();
                columns.push(Arc::new(BooleanArray::from(marks)));
            }
            let options = RecordBatchOptions::new().with_row_count(Some(rows));
            emit(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
        };
        let mut rows = partition::Rows::new(&rows);
        while !rows.is_empty() {
            self.cancel.check()?;
            let taken = builder.append(&source.output, rows).map_err(outside)?.rows;
            let (now, rest) = rows.split_at(taken);
            rows = rest;
            builder.finish().map_err(outside)?.map_or(Ok(()), |own| emit(own, now.as_slice()))?;
        }
        Ok(())
    }
}

/// Returns columns of nulls.
fn nulls(schema: &Schema, rows: usize) -> Vec<ArrayRef> {
    schema.fields().iter().map(|field| new_null_array(field.data_type(), rows)).collect()
}
