//! The buffers for tuples of one size.

use std::ops::Range;

use annulus_pages::{
    PagesError,
    page::write::{Run, Sizes},
    target::PartitionOf,
};

use crate::manager::Writer;

/// The bytes of a tuple's data. Each type stands for a size that the loop is compiled for.
pub(super) trait Width: Copy {
    fn bytes(self) -> usize;
}

/// A width of `N` bytes, known at compile time.
#[derive(Clone, Copy)]
pub(super) struct Const<const N: usize>;

impl<const N: usize> Width for Const<N> {
    #[inline(always)]
    fn bytes(self) -> usize {
        N
    }
}

/// A width that is known at run time.
#[derive(Clone, Copy)]
pub(super) struct RuntimeWidth(pub(super) usize);

impl Width for RuntimeWidth {
    #[inline(always)]
    fn bytes(self) -> usize {
        self.0
    }
}

pub(in crate::partitioner) struct FixedBuffers {
    /// The first partition.
    first: usize,
    /// The number of tuples in a buffer.
    capacity: usize,
    /// The bytes of a tuple's data.
    size: usize,
    fills: Vec<Fill>,
    /// The keys, by partition.
    keys: Vec<u32>,
    /// The data, in the opposite order: that of `keys[i]` is the `i`th piece from the end.
    data: Vec<u8>,
}

#[derive(Clone, Copy)]
struct Fill {
    /// The position of the next key.
    next: u32,
    /// The position after the partition's last place.
    end: u32,
}

impl FixedBuffers {
    /// Creates buffers of `bytes` for each partition.
    pub(super) fn new(range: Range<usize>, bytes: usize, size: usize) -> Self {
        let partitions = range.len();
        let capacity = (bytes / (4 + size)).clamp(1, u32::MAX as usize / partitions.max(1));
        let fill = |partition| Fill { next: (partition * capacity) as u32, end: ((partition + 1) * capacity) as u32 };
        let slots = partitions * capacity;
        let fills = (0..partitions).map(fill).collect();
        Self { first: range.start, capacity, size, fills, keys: vec![0; slots], data: vec![0; slots * size] }
    }

    #[inline]
    pub(super) fn append(
        &mut self,
        keys: &[u32],
        payloads: &[u8],
        width: impl Width,
        rows: impl Iterator<Item = usize>,
        target: impl PartitionOf,
        writer: &mut impl Writer,
    ) -> Result<(), PagesError> {
        let size = width.bytes();
        // Borrowed separately, so that the loop keeps them in registers.
        let Self { first, capacity, fills, keys: buffer, data, .. } = self;
        let (fills, buffer, data) = (&mut fills[..], &mut buffer[..], &mut data[..]);
        let slots = buffer.len();
        for row in rows {
            let key = keys[row];
            let partition = target.partition(key);
            let fill = &mut fills[partition];
            let slot = fill.next as usize;
            fill.next += 1;
            buffer[slot] = key;
            let piece = (slots - 1 - slot) * size;
            data[piece..piece + size].copy_from_slice(&payloads[row * size..row * size + size]);
            if fill.next == fill.end {
                fill.next -= *capacity as u32;
                let (begin, end) = (fill.next as usize, fill.end as usize);
                let data = &data[(slots - end) * size..(slots - begin) * size];
                put_out(writer, *first + partition, &buffer[begin..end], size, data)?;
            }
        }
        Ok(())
    }

    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    pub(super) fn flush(&mut self, writer: &mut impl Writer) -> Result<(), PagesError> {
        let slots = self.keys.len();
        for (partition, fill) in self.fills.iter_mut().enumerate() {
            let (begin, end) = (partition * self.capacity, fill.next as usize);
            fill.next = begin as u32;
            let data = &self.data[(slots - end) * self.size..(slots - begin) * self.size];
            put_out(writer, self.first + partition, &self.keys[begin..end], self.size, data)?;
        }
        Ok(())
    }
}

/// Writes out a buffer. Not inlined, which keeps it out of the loop.
#[inline(never)]
fn put_out(
    writer: &mut impl Writer,
    partition: usize,
    keys: &[u32],
    size: usize,
    data: &[u8],
) -> Result<(), PagesError> {
    writer.insert(partition, Run::new(keys, Sizes::fixed(size), data))
}
