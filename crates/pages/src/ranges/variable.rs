//! The writer of one thread for tuples of any size. Tuples collect in buffers, as those of one size
//! do. But a part of a page is claimed only for tuples that are already there, for their slots and
//! bytes at once. So nothing is left unwritten.

use std::sync::Arc;

use super::{
    buffers::{Lines, Table},
    shared::{PageSink, Shared},
    state::{Claimed, Part},
};
use crate::{
    error::PagesError,
    page::{HEADER_BYTES, SLOT_BYTES},
    tuples::Tuples,
};

/// The bytes that all payload buffers of a writer should take.
const BYTES: usize = 512 << 10;
/// The smallest and the largest size of a partition's payload buffer, in bytes.
const BUFFER_BYTES: [usize; 2] = [1 << 10, 8 << 10];
/// The number of payload bytes for which a buffer has room for one tuple. So with small tuples it
/// fills up with tuples as often as with bytes.
const BYTES_PER_TUPLE: usize = 16;

pub(super) struct VariableWriter<S: PageSink> {
    shared: Arc<Shared<S>>,
    /// The number of payload bytes that a partition's buffer takes.
    buffer_bytes: usize,
    /// The number of tuples that a partition's buffer takes.
    buffer_tuples: usize,
    /// The payloads, stored downwards from the end of each partition's buffer, as on a page.
    data: Lines,
    keys: Table<u32>,
    sizes: Table<u32>,
    fills: Table<Fill>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Fill {
    tuples: u32,
    bytes: u32,
}

/// Returns the number of payload bytes and of tuples that a partition's buffer takes.
fn buffer_room(partitions: usize) -> (usize, usize) {
    let bytes = (BYTES / partitions.max(1)).clamp(BUFFER_BYTES[0], BUFFER_BYTES[1]).next_multiple_of(64);
    (bytes, bytes / BYTES_PER_TUPLE)
}

/// Returns the bytes that a writer of tuples of any size keeps for `partitions` partitions, besides
/// pages.
pub fn variable_writer_bytes(partitions: usize) -> usize {
    let (bytes, tuples) = buffer_room(partitions);
    partitions * (bytes + 2 * tuples * size_of::<u32>() + size_of::<Fill>())
}

impl<S: PageSink> VariableWriter<S> {
    pub(super) fn new(shared: Arc<Shared<S>>) -> Self {
        let partitions = shared.partition_count();
        let (buffer_bytes, buffer_tuples) = buffer_room(partitions);
        Self {
            shared,
            buffer_bytes,
            buffer_tuples,
            data: Lines::new(partitions * buffer_bytes),
            keys: Table::new(partitions * buffer_tuples, |_| 0),
            sizes: Table::new(partitions * buffer_tuples, |_| 0),
            fills: Table::new(partitions, |_| Fill::default()),
        }
    }

    /// Places tuple `i` in partition `partition_of(i)`.
    pub(super) fn write(
        &mut self,
        tuples: &Tuples<'_>,
        partition_of: impl Fn(usize) -> usize,
    ) -> Result<(), PagesError> {
        let most = self.shared.shape.most_payload();
        for (index, &key) in tuples.keys().iter().enumerate() {
            let (partition, payload) = (partition_of(index), tuples.payload(index));
            if payload.len() > most {
                return Err(PagesError::TupleTooLarge { payload_bytes: payload.len(), most });
            }
            let fill = self.fills[partition];
            if fill.bytes as usize + payload.len() > self.buffer_bytes || fill.tuples as usize == self.buffer_tuples {
                self.flush(partition)?;
            }
            if payload.len() > self.buffer_bytes {
                self.place(partition, &[key], &[payload.len() as u32], payload)?;
                continue;
            }
            let fill = &mut self.fills[partition];
            let at = partition * self.buffer_tuples + fill.tuples as usize;
            self.keys[at] = key;
            self.sizes[at] = payload.len() as u32;
            fill.tuples += 1;
            fill.bytes += payload.len() as u32;
            let end = (partition + 1) * self.buffer_bytes - fill.bytes as usize;
            // SAFETY: the partition's buffer has room for the payload below the earlier ones.
            unsafe { self.data.start().add(end).copy_from_nonoverlapping(payload.as_ptr(), payload.len()) };
        }
        Ok(())
    }

    pub(super) fn flush_all(&mut self) -> Result<(), PagesError> {
        (0..self.fills.len()).try_for_each(|partition| self.flush(partition))
    }

    fn flush(&mut self, partition: usize) -> Result<(), PagesError> {
        let fill = std::mem::take(&mut self.fills[partition]);
        let first = partition * self.buffer_tuples;
        let tuples = first..first + fill.tuples as usize;
        let bytes = fill.bytes as usize;
        // SAFETY: the partition's payloads are at the end of its buffer, and were written.
        let data = unsafe {
            std::slice::from_raw_parts(
                self.data.start().add((partition + 1) * self.buffer_bytes - bytes).cast_const(),
                bytes,
            )
        };
        self.place(partition, &self.keys[tuples.clone()], &self.sizes[tuples], data)
    }

    /// Places tuples whose payloads are stored downwards in `data`, the first one last.
    fn place(&self, partition: usize, mut keys: &[u32], mut sizes: &[u32], mut data: &[u8]) -> Result<(), PagesError> {
        let shape = &self.shared.shape;
        while !keys.is_empty() {
            let plan = |before| prefix(before, sizes, data.len(), |t, b| shape.fits(t, b));
            // Every claim is written at once, so nothing is held back.
            let claim = self.shared.claim(partition, plan, || ())?;
            let (now, later) = sizes.split_at(claim.tuples as usize);
            let bytes: usize = now.iter().map(|&size| size as usize).sum();
            let page = self.shared.address(claim.page).as_ptr();
            let mut offset = shape.page_bytes() - claim.before.bytes() as usize;
            let mut slot = HEADER_BYTES + claim.before.tuples() as usize * SLOT_BYTES;
            // SAFETY: the claimed part of the page belongs to this writer alone, and has room for these tuples.
            unsafe {
                let from = data.as_ptr().add(data.len() - bytes);
                self.shared.store.copy(from, page.add(offset - bytes), bytes);
                for (&key, &size) in keys.iter().zip(now) {
                    offset -= size as usize;
                    let words = [key.to_le(), (offset as u32).to_le(), size.to_le()];
                    page.add(slot).cast::<[u32; 3]>().write_unaligned(words);
                    slot += SLOT_BYTES;
                }
            }
            self.shared.complete(partition, claim.page, claim.tuples);
            keys = &keys[claim.tuples as usize..];
            sizes = later;
            data = &data[..data.len() - bytes];
        }
        Ok(())
    }
}

/// Returns a part with the first tuples that fit after the claimed ones. It closes the page if not
/// all tuples fit.
fn prefix(before: Claimed, sizes: &[u32], bytes: usize, fits: impl Fn(usize, usize) -> bool) -> Part {
    let (tuples_before, bytes_before) = (before.tuples() as usize, before.bytes() as usize);
    if fits(tuples_before + sizes.len(), bytes_before + bytes) {
        return Part { tuples: sizes.len() as u32, bytes: bytes as u32, closes: false };
    }
    let (mut tuples, mut bytes) = (0, 0);
    for &size in sizes {
        if !fits(tuples_before + tuples + 1, bytes_before + bytes + size as usize) {
            break;
        }
        tuples += 1;
        bytes += size as usize;
    }
    Part { tuples: tuples as u32, bytes: bytes as u32, closes: true }
}
