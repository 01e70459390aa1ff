//! Batches of rows, column by column.

use std::{ops::Range, sync::Arc};

use arrow::{
    array::{ArrayRef, Int16Array, Int32Array, Int64Array, RecordBatchReader, StringBuilder, UInt16Array},
    datatypes::SchemaRef,
    error::ArrowError,
    record_batch::RecordBatch,
};

use crate::{
    BATCH_ROWS_MAX, Hits,
    columns::{COLUMNS, Fill},
    hit::Hit,
    schema,
};

/// Batches of a range of rows, in order.
#[derive(Clone, Debug)]
pub struct Batches {
    hits: Hits,
    rows: Range<u64>,
    batch_rows: u64,
    schema: SchemaRef,
}

impl Batches {
    pub(crate) fn new(hits: Hits, rows: Range<u64>, batch_rows: u64) -> Self {
        let rows = clamp_rows(&hits, rows);
        Self { hits, rows, batch_rows: batch_rows.max(1), schema: schema() }
    }
}

impl Iterator for Batches {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rows.is_empty() {
            return None;
        }
        let end = self.rows.end.min(self.rows.start.saturating_add(self.batch_rows));
        let next = self.rows.start..end;
        self.rows.start = end;
        Some(batch(&self.hits, next))
    }
}

impl RecordBatchReader for Batches {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

pub fn batch(hits: &Hits, rows: Range<u64>) -> Result<RecordBatch, ArrowError> {
    let rows = clamp_rows(hits, rows);
    if rows.end - rows.start > BATCH_ROWS_MAX {
        return Err(ArrowError::InvalidArgumentError(format!(
            "{} rows are too many for a batch: expected at most {BATCH_ROWS_MAX}",
            rows.end - rows.start
        )));
    }
    let rows: Vec<Hit> = rows.map(|row| Hit::new(hits, row)).collect();
    RecordBatch::try_new(schema(), COLUMNS.iter().map(|column| values(&column.fill, &rows)).collect())
}

/// Returns the part of `rows` that the table has; it starts at or before its end.
fn clamp_rows(hits: &Hits, rows: Range<u64>) -> Range<u64> {
    let end = rows.end.min(hits.rows());
    rows.start.min(end)..end
}

fn values(fill: &Fill, rows: &[Hit]) -> ArrayRef {
    match fill {
        // What a column computes fits into its type.
        Fill::I16(value) => Arc::new(Int16Array::from_iter_values(rows.iter().map(|hit| value(hit) as i16))),
        Fill::I32(value) => Arc::new(Int32Array::from_iter_values(rows.iter().map(|hit| value(hit) as i32))),
        Fill::I64(value) => Arc::new(Int64Array::from_iter_values(rows.iter().map(value))),
        Fill::U16(value) => Arc::new(UInt16Array::from_iter_values(rows.iter().map(|hit| value(hit) as u16))),
        Fill::Text(append) => {
            let mut array = StringBuilder::with_capacity(rows.len(), 0);
            let mut text = String::new();
            for hit in rows {
                text.clear();
                append(hit, &mut text);
                array.append_value(&text);
            }
            Arc::new(array.finish())
        }
    }
}
