//! Columns that are not scattered. Chunks of rows that fit in the cache are clustered one by one.
//! Then the runs of each partition are joined. Rows are copied twice, but without random access to
//! all of the memory.

use std::{mem::replace, ops::Range, sync::Arc};

use annulus_rows::{
    error::RowsError,
    gather::{BatchBuilder, SourceBatch},
    partition::Rows,
    pool::BufferPool,
};
use arrow::{
    array::{Array, ArrayRef, RecordBatch},
    compute::concat,
    datatypes::{Schema, SchemaRef},
    error::ArrowError,
};

use super::input::{Input, Layout, Span, shares};
use crate::{error::JoinError, hash::radix::Radix, key::KeyedBatch, parallel};

/// The smallest number of rows of a chunk.
const CHUNK_ROWS: usize = 1 << 16;
/// The smallest average number of rows that a partition has in a chunk: shorter runs cost more to
/// look up than to copy.
const RUN_ROWS: usize = 32;
/// The smallest number of rows that a thread puts together at a time.
const PART_ROWS: usize = 1 << 16;

/// A chunk of rows, clustered by itself.
struct Chunk {
    source: SourceBatch,
    /// The start of each partition's rows, then the number of rows.
    starts: Vec<u32>,
}

/// Returns the columns that the layout does not scatter. `starts` are the starts of the partitions,
/// and `pieces` what the inputs were made from.
pub(super) fn columns(
    schema: &Schema,
    pieces: &[KeyedBatch],
    inputs: &[Input],
    layout: &Layout,
    radix: Radix,
    starts: &[u32],
    threads: usize,
) -> Result<Vec<ArrayRef>, JoinError> {
    // The builders must not check nullability, so all fields are nullable.
    let fields: Vec<_> = layout.others.iter().map(|&column| schema.field(column).clone().with_nullable(true)).collect();
    let schema = Arc::new(Schema::new(fields));
    let rows = starts.last().map_or(0, |&rows| rows as usize);
    if layout.others.is_empty() || rows == 0 {
        return Ok(RecordBatch::new_empty(schema).columns().to_vec());
    }
    let chunk_rows = CHUNK_ROWS.max(RUN_ROWS * radix.count());
    let spans = shares(inputs, rows.div_ceil(chunk_rows));
    let chunks = parallel::map(threads, spans, |spans| Chunk::new(&schema, pieces, layout, radix, &spans));
    let chunks: Vec<Chunk> = chunks.into_iter().collect::<Result<_, _>>()?;
    let parts = parallel::map(threads, parts(starts), |groups| {
        let rows = starts[groups.end] - starts[groups.start];
        put_together(&schema, &chunks, groups, rows as usize)
    });
    drop(chunks);
    let parts: Vec<Vec<RecordBatch>> = parts.into_iter().collect::<Result<_, _>>()?;
    let whole = parallel::map(threads, (0..layout.others.len()).collect(), |column| {
        let arrays: Vec<&dyn Array> = parts.iter().flatten().map(|part| part.column(column).as_ref()).collect();
        concat(&arrays)
    });
    Ok(whole.into_iter().collect::<Result<_, ArrowError>>()?)
}

impl Chunk {
    fn new(
        schema: &SchemaRef,
        pieces: &[KeyedBatch],
        layout: &Layout,
        radix: Radix,
        spans: &[Span<'_>],
    ) -> Result<Self, JoinError> {
        let slices = |&column: &usize| {
            let slice = |span: &Span<'_>| pieces[span.input.piece].columns[column].slice(span.start, span.len);
            let slices: Vec<ArrayRef> = spans.iter().map(slice).collect();
            concat(&slices.iter().map(|slice| slice.as_ref()).collect::<Vec<_>>())
        };
        let columns = layout.others.iter().map(slices).collect::<Result<_, ArrowError>>()?;
        let batch = RecordBatch::try_new(Arc::clone(schema), columns)?;
        let (order, starts) = order(spans, radix);
        let source = SourceBatch::try_new(&batch, schema).map_err(outside)?;
        let mut builder = BatchBuilder::new(Arc::clone(schema), order.len(), BufferPool::new([], 0));
        let appended = builder.append(&source, Rows::new(&order)).map_err(outside)?;
        let clustered = builder.finish().map_err(outside)?.filter(|_| appended.rows == order.len());
        // As the chunk's offsets were 32 bits wide before, only dictionaries can have grown too
        // large.
        let clustered = clustered.ok_or(ArrowError::DictionaryKeyOverflowError)?;
        Ok(Self { source: SourceBatch::try_new(&clustered, schema).map_err(outside)?, starts })
    }
}

/// Returns the chunk's rows in the order of their partitions, and the starts of the partitions. A
/// counting sort.
fn order(spans: &[Span<'_>], radix: Radix) -> (Vec<u32>, Vec<u32>) {
    let mut groups = vec![0; spans.iter().map(|span| span.len).sum()];
    let mut rest = &mut groups[..];
    for span in spans {
        let (groups, behind) = rest.split_at_mut(span.len);
        span.groups(radix, groups);
        rest = behind;
    }
    let mut starts = vec![0; radix.count() + 2];
    groups.iter().for_each(|&group| starts[group as usize] += 1);
    let mut position = 0;
    for start in &mut starts {
        position += replace(start, position);
    }
    let mut cursors = starts.clone();
    let mut order = vec![0; groups.len()];
    for (row, &group) in groups.iter().enumerate() {
        order[cursors[group as usize] as usize] = row as u32;
        cursors[group as usize] += 1;
    }
    (order, starts)
}

/// Groups consecutive partitions into parts that have enough rows.
fn parts(starts: &[u32]) -> Vec<Range<usize>> {
    let mut parts = Vec::new();
    let mut first = 0;
    for group in 0..starts.len() - 1 {
        if (starts[group + 1] - starts[first]) as usize >= PART_ROWS || group + 2 == starts.len() {
            parts.push(first..group + 1);
            first = group + 1;
        }
    }
    parts
}

/// Returns the rows of partitions, as one batch if their offsets allow it.
fn put_together(
    schema: &SchemaRef,
    chunks: &[Chunk],
    groups: Range<usize>,
    rows: usize,
) -> Result<Vec<RecordBatch>, JoinError> {
    let mut builder = BatchBuilder::new(Arc::clone(schema), rows, BufferPool::new([], 0));
    let mut batches = Vec::new();
    for group in groups {
        for chunk in chunks {
            let mut run = chunk.starts[group] as usize..chunk.starts[group + 1] as usize;
            while !run.is_empty() {
                run.start += builder.append_range(&chunk.source, run.clone()).map_err(outside)?.rows;
                if !run.is_empty() {
                    batches.extend(builder.finish().map_err(outside)?);
                }
            }
        }
    }
    batches.extend(builder.finish().map_err(outside)?);
    Ok(batches)
}

fn outside(error: RowsError) -> JoinError {
    JoinError::Outside(Box::new(error))
}
