//! The strategy that copies rows: its batches are Arrow's.

use std::sync::Arc;

use anyhow::Result;
use arrow::{
    array::{Array, ArrayRef, AsArray, BinaryViewBuilder, RecordBatch, UInt64Array},
    buffer::{Buffer, ScalarBuffer},
    datatypes::{DataType, Field, Schema, SchemaRef, UInt64Type},
};

use super::rows::{Tally, Template, mix};

/// A template as Arrow columns: a column for each 8 bytes of a row, or one of views if rows have
/// other sizes.
pub struct Columns {
    pub schema: SchemaRef,
    arrays: Vec<ArrayRef>,
    pub hashes: Vec<u64>,
}

impl Columns {
    pub fn new(template: &Template) -> Result<Self> {
        let arrays: Vec<ArrayRef> = match &template.ends {
            None if template.row_bytes.is_multiple_of(8) => {
                let words = template.row_bytes / 8;
                let all: Vec<u64> =
                    template.bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
                let column = |at| UInt64Array::from_iter_values(all.iter().skip(at).step_by(words).copied());
                (0..words).map(|at| Arc::new(column(at)) as ArrayRef).collect()
            }
            ends => {
                let mut builder = BinaryViewBuilder::new();
                let mut start = 0;
                for row in 0..template.hashes.len() {
                    let end = ends.as_ref().map_or(start + template.row_bytes, |ends| ends[row] as usize);
                    builder.append_value(&template.bytes[start..end]);
                    start = end;
                }
                vec![Arc::new(builder.finish())]
            }
        };
        let field = |(at, array): (usize, &ArrayRef)| Field::new(format!("c{at}"), array.data_type().clone(), false);
        let schema = Arc::new(Schema::new(arrays.iter().enumerate().map(field).collect::<Vec<_>>()));
        Ok(Self { schema, arrays, hashes: template.hashes.clone() })
    }

    /// Returns a copy in new memory.
    pub fn batch(&self) -> Result<RecordBatch> {
        let copy = |array: &ArrayRef| -> Result<ArrayRef> {
            if let Some(words) = array.as_primitive_opt::<UInt64Type>() {
                return Ok(Arc::new(UInt64Array::new(ScalarBuffer::from(words.values().to_vec()), None)));
            }
            let views = array.as_binary_view();
            let buffers: Vec<_> = views.data_buffers().iter().map(Buffer::from_slice_ref).collect();
            let copied = ScalarBuffer::from(views.views().to_vec());
            Ok(Arc::new(arrow::array::BinaryViewArray::try_new(copied, buffers, None)?))
        };
        let columns = self.arrays.iter().map(copy).collect::<Result<_>>()?;
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), columns)?)
    }
}

/// Reads every byte of a batch. `sums` is memory to work in.
pub fn tally(batch: &RecordBatch, sums: &mut Vec<u64>) -> Tally {
    let mut tally = Tally::default();
    if batch.column(0).data_type() == &DataType::BinaryView {
        batch.column(0).as_binary_view().iter().flatten().for_each(|row| tally.add(row));
        return tally;
    }
    sums.clear();
    sums.resize(batch.num_rows(), 0);
    for column in batch.columns() {
        let words = column.as_primitive::<UInt64Type>().values();
        sums.iter_mut().zip(words).for_each(|(sum, word)| *sum = mix(*sum, *word));
    }
    sums.iter().for_each(|sum| tally.add_checksum(*sum));
    tally
}
