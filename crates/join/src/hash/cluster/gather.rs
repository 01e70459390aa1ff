//! Columns that are not scattered, and the validity of those that are, by the numbers that the rows had.

use std::sync::Arc;

use annulus_exchange::{
    error::ExchangeError,
    gather::{BatchBuilder, SourceBatch},
    partition::Rows,
    pool::BufferPool,
};
use arrow::{
    array::{Array, ArrayData, ArrayRef, RecordBatch, make_array},
    buffer::{BooleanBuffer, Buffer, NullBuffer, ScalarBuffer},
    compute::{concat, concat_batches},
    datatypes::{Schema, SchemaRef},
    error::ArrowError,
};

use super::input::Layout;
use crate::{error::JoinError, hash::parallel, key::Keyed};

/// Rows that a thread gathers at a time; a multiple of 64.
const PART_ROWS: usize = 1 << 16;

/// All columns, of which `buffers` has those that were scattered, and behind them the row numbers if there are any.
pub(super) fn finish(
    schema: &Schema,
    pieces: &[Keyed],
    layout: &Layout,
    mut buffers: Vec<Buffer>,
    threads: usize,
) -> Result<Vec<ArrayRef>, JoinError> {
    let order: ScalarBuffer<u32> =
        buffers.drain(layout.fixed.len()..).next().map(ScalarBuffer::from).unwrap_or_default();
    let parts: Vec<&[u32]> = order.chunks(PART_ROWS).collect();
    let rows = pieces.iter().map(Keyed::rows).sum();
    let mut columns: Vec<Option<ArrayRef>> = vec![None; schema.fields().len()];
    for (&(column, _), values) in layout.fixed.iter().zip(buffers) {
        let data_type = schema.field(column).data_type();
        let nulls = validity(pieces, column, &parts, threads);
        let data = ArrayData::builder(data_type.clone()).len(rows).add_buffer(values).nulls(nulls).build()?;
        columns[column] = Some(make_array(data));
    }
    for (&column, values) in layout.others.iter().zip(others(schema, pieces, layout, &parts, threads)?) {
        columns[column] = Some(values);
    }
    Ok(columns.into_iter().flatten().collect())
}

/// The validity of a column in the new order, if it has nulls.
fn validity(pieces: &[Keyed], column: usize, parts: &[&[u32]], threads: usize) -> Option<NullBuffer> {
    if pieces.iter().all(|piece| piece.columns[column].null_count() == 0) {
        return None;
    }
    let all = pieces.iter().map(|piece| match piece.columns[column].nulls() {
        Some(nulls) => nulls.inner().clone(),
        None => BooleanBuffer::new_set(piece.rows()),
    });
    let all: BooleanBuffer = all
        .fold(arrow::array::BooleanBufferBuilder::new(0), |mut bits, piece| {
            bits.append_buffer(&piece);
            bits
        })
        .finish();
    let words = parallel::map(threads, parts.to_vec(), |part| {
        let word =
            |rows: &[u32]| rows.iter().rev().fold(0u64, |word, &row| word << 1 | u64::from(all.value(row as usize)));
        part.chunks(u64::BITS as usize).map(word).collect::<Vec<u64>>()
    });
    let rows = parts.iter().map(|part| part.len()).sum();
    Some(NullBuffer::new(BooleanBuffer::new(Buffer::from_vec(words.concat()), 0, rows)))
}

/// The columns that were not scattered.
fn others(
    schema: &Schema,
    pieces: &[Keyed],
    layout: &Layout,
    parts: &[&[u32]],
    threads: usize,
) -> Result<Vec<ArrayRef>, JoinError> {
    if layout.others.is_empty() {
        return Ok(Vec::new());
    }
    // What nulls there are is not for the builders to judge.
    let fields: Vec<_> = layout.others.iter().map(|&column| schema.field(column).clone().with_nullable(true)).collect();
    let schema = Arc::new(Schema::new(fields));
    if parts.is_empty() {
        return Ok(RecordBatch::new_empty(schema).columns().to_vec());
    }
    let whole = |&column: &usize| {
        let arrays: Vec<&dyn Array> = pieces.iter().map(|piece| piece.columns[column].as_ref()).collect();
        concat(&arrays)
    };
    let columns = layout.others.iter().map(whole).collect::<Result<_, ArrowError>>()?;
    let source =
        SourceBatch::try_new(&RecordBatch::try_new(Arc::clone(&schema), columns)?, &schema).map_err(outside)?;
    let gathered = parallel::map(threads, parts.to_vec(), |part| gather(&source, &schema, part));
    let gathered: Vec<RecordBatch> = gathered
        .into_iter()
        .flat_map(|part| match part {
            Ok(batches) => batches.into_iter().map(Ok).collect(),
            Err(error) => vec![Err(error)],
        })
        .collect::<Result<_, _>>()?;
    Ok(concat_batches(&schema, &gathered)?.columns().to_vec())
}

fn gather(source: &SourceBatch, schema: &SchemaRef, rows: &[u32]) -> Result<Vec<RecordBatch>, JoinError> {
    let mut builder = BatchBuilder::new(Arc::clone(schema), rows.len(), BufferPool::new([], 0));
    let mut batches = Vec::new();
    let mut keep = |batch| {
        batches.push(batch);
        Ok::<(), ExchangeError>(())
    };
    builder.push(&[(source, Rows::new(rows))], &mut keep).map_err(outside)?;
    batches.extend(builder.finish().map_err(outside)?);
    Ok(batches)
}

fn outside(error: ExchangeError) -> JoinError {
    JoinError::Outside(Box::new(error))
}
