//! Buffers of tuples of one size.

use std::ops::Range;

use crate::{
    error::PagesError,
    manager::Writer,
    page::write::{Run, Sizes},
    partitioner::target::Target,
};

/// The bytes of a tuple's data, as a type where the loop is to be compiled for it.
pub(super) trait Width: Copy {
    fn bytes(self) -> usize;
}

/// `N` bytes.
#[derive(Clone, Copy)]
pub(super) struct Const<const N: usize>;

impl<const N: usize> Width for Const<N> {
    #[inline(always)]
    fn bytes(self) -> usize {
        N
    }
}

/// So many bytes.
#[derive(Clone, Copy)]
pub(super) struct Any(pub(super) usize);

impl Width for Any {
    #[inline(always)]
    fn bytes(self) -> usize {
        self.0
    }
}

pub(in crate::partitioner) struct FixedBuffers {
    /// The first partition.
    first: usize,
    /// Tuples in a buffer.
    capacity: usize,
    /// Bytes of a tuple's data.
    size: usize,
    fills: Vec<Fill>,
    /// By partition.
    keys: Vec<u32>,
    /// In the opposite order: the data of `keys[i]` is the `i`th piece from the end.
    data: Vec<u8>,
}

#[derive(Clone, Copy)]
struct Fill {
    /// Where the next key goes.
    next: u32,
    /// Behind the partition's last place.
    end: u32,
}

impl FixedBuffers {
    /// Buffers of `bytes` for each partition.
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
        target: impl Target,
        writer: &mut impl Writer,
    ) -> Result<(), PagesError> {
        let size = width.bytes();
        debug_assert_eq!(size, self.size);
        let slots = self.keys.len();
        for row in rows {
            let key = keys[row];
            let partition = target.of(key);
            let fill = &mut self.fills[partition];
            let slot = fill.next as usize;
            fill.next += 1;
            let full = fill.next == fill.end;
            self.keys[slot] = key;
            let piece = (slots - 1 - slot) * size;
            self.data[piece..piece + size].copy_from_slice(&payloads[row * size..row * size + size]);
            if full {
                self.flush(partition, writer)?;
            }
        }
        Ok(())
    }

    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    pub(super) fn flush_all(&mut self, writer: &mut impl Writer) -> Result<(), PagesError> {
        (0..self.fills.len()).try_for_each(|partition| self.flush(partition, writer))
    }

    #[inline(never)]
    fn flush(&mut self, partition: usize, writer: &mut impl Writer) -> Result<(), PagesError> {
        let slots = self.keys.len();
        let first = partition * self.capacity;
        let next = self.fills[partition].next as usize;
        let data = &self.data[(slots - next) * self.size..(slots - first) * self.size];
        self.fills[partition].next = first as u32;
        writer.insert(self.first + partition, Run::new(&self.keys[first..next], Sizes::Fixed(self.size), data))
    }
}
