//! The buffers for tuples of any size.

use std::ops::Range;

use annulus_pages::{
    PagesError,
    page::{
        PageShape,
        write::{Run, Sizes},
    },
    target::PartitionOf,
    tuples::Tuples,
};

use crate::{manager::Writer, partitioner::check_size};

/// The number of a buffer's bytes for which it has a place for a key and a size.
const BYTES_PER_TUPLE: usize = 32;

pub(in crate::partitioner) struct VariableBuffers {
    shape: PageShape,
    /// The first partition.
    first: usize,
    /// The number of tuples in a buffer.
    capacity: usize,
    /// The number of bytes of data in a buffer.
    data_bytes: usize,
    fills: Vec<Fill>,
    /// The keys, by partition.
    keys: Vec<u32>,
    sizes: Vec<u32>,
    /// The data, by partition, each from its end.
    data: Vec<u8>,
}

#[derive(Clone, Copy, Default)]
struct Fill {
    tuples: usize,
    bytes: usize,
}

impl VariableBuffers {
    /// Creates buffers of `bytes` for each partition.
    pub(super) fn new(range: Range<usize>, bytes: usize, shape: &PageShape) -> Self {
        let partitions = range.len();
        let capacity = (bytes / BYTES_PER_TUPLE).max(1);
        let data_bytes = bytes.saturating_sub(8 * capacity);
        let tuples = partitions * capacity;
        Self {
            first: range.start,
            shape: *shape,
            capacity,
            data_bytes,
            fills: vec![Fill::default(); partitions],
            keys: vec![0; tuples],
            sizes: vec![0; tuples],
            data: vec![0; partitions * data_bytes],
        }
    }

    pub(super) fn append(
        &mut self,
        tuples: &Tuples<'_>,
        rows: impl Iterator<Item = usize>,
        target: impl PartitionOf,
        writer: &mut impl Writer,
    ) -> Result<(), PagesError> {
        for row in rows {
            let (key, payload) = (tuples.keys()[row], tuples.payload(row));
            check_size(payload, &self.shape)?;
            let partition = target.partition(key);
            let fill = self.fills[partition];
            if fill.tuples == self.capacity || fill.bytes + payload.len() > self.data_bytes {
                self.flush_one(partition, writer)?;
                if payload.len() > self.data_bytes {
                    let sizes = [payload.len() as u32];
                    writer.insert(self.first + partition, Run::new(&[key], Sizes::each(&sizes), payload))?;
                    continue;
                }
            }
            let fill = &mut self.fills[partition];
            let slot = partition * self.capacity + fill.tuples;
            (self.keys[slot], self.sizes[slot]) = (key, payload.len() as u32);
            let end = (partition + 1) * self.data_bytes - fill.bytes;
            self.data[end - payload.len()..end].copy_from_slice(payload);
            *fill = Fill { tuples: fill.tuples + 1, bytes: fill.bytes + payload.len() };
        }
        Ok(())
    }

    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    pub(super) fn flush(&mut self, writer: &mut impl Writer) -> Result<(), PagesError> {
        (0..self.fills.len()).try_for_each(|partition| self.flush_one(partition, writer))
    }

    #[inline(never)]
    fn flush_one(&mut self, partition: usize, writer: &mut impl Writer) -> Result<(), PagesError> {
        let Fill { tuples, bytes } = std::mem::take(&mut self.fills[partition]);
        let (first, end) = (partition * self.capacity, (partition + 1) * self.data_bytes);
        let (keys, sizes) = (&self.keys[first..first + tuples], &self.sizes[first..first + tuples]);
        writer.insert(self.first + partition, Run::new(keys, Sizes::each(sizes), &self.data[end - bytes..end]))
    }
}
