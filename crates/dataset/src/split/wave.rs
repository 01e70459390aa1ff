//! Rows held back until it pays to gather them: a slot's rows from many batches become one batch.

use std::collections::HashSet;

use annulus_rows::{
    error::RowsError,
    gather::{BatchBuilder, SourceBatch, pool_sizes},
    partition::{RowIndex, Rows, Target},
    pool::BufferPool,
};
use arrow::{
    array::{ArrayData, RecordBatch},
    datatypes::SchemaRef,
};

use crate::error::DatasetError;

/// The most rows in a gathered batch.
const GATHER_ROWS: usize = 8192;

/// The batches that one worker holds.
pub(crate) struct Wave {
    schema: SchemaRef,
    slots: usize,
    held: Vec<(SourceBatch, RowIndex)>,
    /// Indexes of earlier waves, kept so that their memory is reused.
    idle: Vec<RowIndex>,
    /// The addresses of the allocations in `held`. Batches of one row group share theirs, which are
    /// counted once.
    buffers: HashSet<usize>,
    bytes: usize,
    builder: BatchBuilder,
}

impl Wave {
    pub(crate) fn new(schema: &SchemaRef, slots: usize) -> Self {
        let pool = BufferPool::new(pool_sizes(schema, GATHER_ROWS), 1);
        Self {
            schema: schema.clone(),
            slots,
            held: Vec::new(),
            idle: Vec::new(),
            buffers: HashSet::new(),
            bytes: 0,
            builder: BatchBuilder::new(schema.clone(), GATHER_ROWS, pool),
        }
    }

    /// Returns the memory in use, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Holds a batch whose rows go to `targets`, and adds each slot's number of rows to `counts`.
    pub(crate) fn hold(
        &mut self,
        batch: &RecordBatch,
        targets: &mut Vec<Target>,
        counts: &mut [u64],
    ) -> Result<(), DatasetError> {
        let mut index = self.idle.pop().unwrap_or_default();
        index.fill_from_targets(self.slots, |all| {
            std::mem::swap(all, targets);
            Ok::<(), RowsError>(())
        })?;
        for (count, ends) in counts.iter_mut().zip(index.offsets().windows(2)) {
            *count += u64::from(ends[1] - ends[0]);
        }
        for column in batch.columns() {
            self.bytes += retained_bytes(&column.to_data(), &mut self.buffers);
        }
        self.bytes += index.allocated_bytes();
        self.held.push((SourceBatch::try_new(batch, &self.schema)?, index));
        Ok(())
    }

    /// Hands each slot's rows to `sink` in a few batches, beginning with slot `first`. Rows of
    /// slots that `skip` accepts are dropped. The wave is empty afterwards.
    pub(crate) fn write(
        &mut self,
        first: usize,
        skip: impl Fn(usize) -> bool,
        mut sink: impl FnMut(usize, RecordBatch) -> Result<(), DatasetError>,
    ) -> Result<(), DatasetError> {
        let (held, builder) = (&self.held, &mut self.builder);
        for slot in (first..self.slots).chain(0..first).filter(|&slot| !skip(slot)) {
            let runs = held.iter().map(|(source, index)| (source, index.rows_of(slot)));
            let runs: Vec<(&SourceBatch, Rows<'_>)> = runs.filter(|(_, rows)| !rows.is_empty()).collect();
            builder.push(&runs, |batch| sink(slot, batch))?;
            if let Some(batch) = builder.finish()? {
                sink(slot, batch)?;
            }
        }
        self.idle.extend(self.held.drain(..).map(|(_, index)| index));
        self.buffers.clear();
        self.bytes = 0;
        Ok(())
    }
}

/// Returns the bytes of the allocations of `data` that are not in `seen`, and adds them there.
fn retained_bytes(data: &ArrayData, seen: &mut HashSet<usize>) -> usize {
    let nulls = data.nulls().map(|nulls| nulls.buffer());
    let own = data.buffers().iter().chain(nulls);
    let own: usize =
        own.filter(|buffer| seen.insert(buffer.data_ptr().as_ptr() as usize)).map(|buffer| buffer.capacity()).sum();
    own + data.child_data().iter().map(|child| retained_bytes(child, seen)).sum::<usize>()
}
