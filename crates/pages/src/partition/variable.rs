//! The writer of one thread for tuples of any size. Tuples collect in buffers, as those of one size
//! do. But a part of a page is claimed only for tuples that are already there, for their slots and
//! bytes at once. So nothing is left unwritten.

mod copy;

use std::sync::Arc;

use self::copy::{PIECE, Slot, copy_before, to_offsets};
use super::{
    buffers::{Lines, Table},
    shared::{PageSink, Shared},
    state::{ClaimWord, PageId, Part},
};
use crate::{
    error::PagesError,
    page::{HEADER_BYTES, SLOT_BYTES},
    simd::has_avx512,
    tuples::{Payloads, Tuples},
};

/// The bytes that all payload buffers of a writer should take: as for tuples of one size.
const BYTES: usize = 2 << 20;
/// The smallest and the largest size of a partition's payload buffer, in bytes.
const BUFFER_BYTES: [usize; 2] = [1 << 10, 16 << 10];
/// The number of payload bytes for which a buffer has room for one tuple. So with small tuples it
/// fills up with tuples as often as with bytes.
const BYTES_PER_TUPLE: usize = 16;
pub(super) struct VariableWriter<S: PageSink> {
    shared: Arc<Shared<S>>,
    /// The number of payload bytes that a partition's buffer takes.
    buffer_bytes: usize,
    /// The number of tuples that a partition's buffer takes.
    buffer_tuples: usize,
    /// The payloads, stored downwards from the end of each partition's buffer, as on a page. There
    /// is a piece before each buffer.
    data: Lines,
    slots: Table<Slot>,
    fills: Table<Fill>,
    /// The tuples of the last flush.
    written: UncountedTuples,
    /// Whether the machine has AVX-512.
    wide: bool,
}

/// Tuples that are on a page, which does not count them yet. Counting waits for the stores past the
/// cache before it. So they are counted by the next flush, or at the end of a call: meanwhile the
/// stores go on.
#[derive(Debug, Default)]
struct UncountedTuples(Option<(usize, PageId, u32)>);

impl UncountedTuples {
    fn complete<S: PageSink>(&mut self, shared: &Shared<S>) {
        if let Some((partition, page, tuples)) = self.0.take() {
            shared.complete(partition, page, tuples);
        }
    }
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
    partitions * (PIECE + bytes + tuples * SLOT_BYTES + size_of::<Fill>())
}

impl<S: PageSink> VariableWriter<S> {
    pub(super) fn new(shared: Arc<Shared<S>>) -> Self {
        let partitions = shared.partition_count();
        let (buffer_bytes, buffer_tuples) = buffer_room(partitions);
        Self {
            shared,
            buffer_bytes,
            buffer_tuples,
            data: Lines::new(partitions * (PIECE + buffer_bytes)),
            slots: Table::new(partitions * buffer_tuples, |_| Slot::default()),
            fills: Table::new(partitions, |_| Fill::default()),
            written: UncountedTuples::default(),
            wide: has_avx512(),
        }
    }

    /// Places tuple `i` in partition `partition_of(i)`.
    #[inline(always)]
    pub(super) fn write(
        &mut self,
        tuples: &Tuples<'_>,
        partition_of: impl Fn(usize) -> usize,
    ) -> Result<(), PagesError> {
        let collected = match tuples.payloads() {
            Payloads::Fixed { bytes, size } => {
                self.collect(tuples.keys(), bytes, |index| (index * size, (index + 1) * size), partition_of)
            }
            Payloads::Variable { bytes, offsets } => {
                let range = |index: usize| (offsets[index] as usize, offsets[index + 1] as usize);
                self.collect(tuples.keys(), bytes, range, partition_of)
            }
        };
        self.written.complete(&self.shared);
        collected
    }

    /// Collects tuples in the partitions' buffers, with the vector instructions of the machine.
    #[inline(always)]
    fn collect(
        &mut self,
        keys: &[u32],
        bytes: &[u8],
        range: impl Fn(usize) -> (usize, usize),
        partition_of: impl Fn(usize) -> usize,
    ) -> Result<(), PagesError> {
        #[cfg(target_arch = "x86_64")]
        if self.wide {
            // SAFETY: the machine has the features.
            return unsafe { wide::collect(self, keys, bytes, range, partition_of) };
        }
        self.collect_body(keys, bytes, range, partition_of)
    }

    /// Collects tuples in the partitions' buffers. Payload `i` is at `range(i)` of `bytes`, which
    /// [`Tuples`] has checked.
    #[inline(always)]
    fn collect_body(
        &mut self,
        keys: &[u32],
        bytes: &[u8],
        range: impl Fn(usize) -> (usize, usize),
        partition_of: impl Fn(usize) -> usize,
    ) -> Result<(), PagesError> {
        let (room, most) = (self.buffer_bytes, self.buffer_tuples);
        let longest = self.shared.shape.most_payload().min(room);
        let (fills, slots, data) = (self.fills.start(), self.slots.start(), self.data.start());
        for (index, &key) in keys.iter().enumerate() {
            let (partition, (start, end)) = (partition_of(index), range(index));
            let size = end - start;
            if size > longest {
                self.place_long(partition, key, &bytes[start..end])?;
                continue;
            }
            debug_assert!(partition < self.fills.len() && end <= bytes.len());
            // SAFETY: the caller's partitions exist, so these are their buffers. A buffer is flushed before
            // it would overflow. A payload is read from its batch, and copies that begin before it
            // stay within the batch and the piece before the buffer.
            unsafe {
                let fill = fills.add(partition);
                if (*fill).bytes as usize + size > room || (*fill).tuples as usize == most {
                    self.flush(partition)?;
                }
                let Fill { tuples, bytes: used } = *fill;
                let used = used + size as u32;
                *fill = Fill { tuples: tuples + 1, bytes: used };
                slots.add(partition * most + tuples as usize).write([key, used, size as u32]);
                let to = data.add((partition + 1) * (PIECE + room) - used as usize);
                copy_before(bytes.as_ptr(), start, to, size);
            }
        }
        Ok(())
    }

    /// Places a tuple whose payload no buffer takes.
    #[cold]
    fn place_long(&mut self, partition: usize, key: u32, payload: &[u8]) -> Result<(), PagesError> {
        let most = self.shared.shape.most_payload();
        if payload.len() > most {
            return Err(PagesError::TupleTooLarge { payload_bytes: payload.len(), most });
        }
        self.flush(partition)?;
        let size = payload.len() as u32;
        place(&self.shared, &mut self.written, partition, &mut [[key, size, size]], payload)
    }

    pub(super) fn flush_all(&mut self) -> Result<(), PagesError> {
        let flushed = (0..self.fills.len()).try_for_each(|partition| self.flush(partition));
        self.written.complete(&self.shared);
        flushed
    }

    #[inline(never)]
    fn flush(&mut self, partition: usize) -> Result<(), PagesError> {
        let fill = std::mem::take(&mut self.fills[partition]);
        let first = partition * self.buffer_tuples;
        let bytes = fill.bytes as usize;
        // SAFETY: the partition's payloads are at the end of its buffer, and were written.
        let data = unsafe {
            let end = self.data.start().add((partition + 1) * (PIECE + self.buffer_bytes));
            std::slice::from_raw_parts(end.sub(bytes).cast_const(), bytes)
        };
        let slots = &mut self.slots[first..first + fill.tuples as usize];
        place(&self.shared, &mut self.written, partition, slots, data)
    }
}

/// The hot loop compiled for AVX-512.
#[cfg(target_arch = "x86_64")]
mod wide {
    use super::{PageSink, PagesError, VariableWriter};

    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,popcnt")]
    pub(super) fn collect<S: PageSink>(
        writer: &mut VariableWriter<S>,
        keys: &[u32],
        bytes: &[u8],
        range: impl Fn(usize) -> (usize, usize),
        partition_of: impl Fn(usize) -> usize,
    ) -> Result<(), PagesError> {
        writer.collect_body(keys, bytes, range, partition_of)
    }
}

/// Places tuples whose payloads are stored downwards in `data`, the first one last. Changes the
/// slots.
fn place<S: PageSink>(
    shared: &Shared<S>,
    written: &mut UncountedTuples,
    partition: usize,
    mut slots: &mut [Slot],
    data: &[u8],
) -> Result<(), PagesError> {
    let shape = &shared.shape;
    let mut done = 0;
    while !slots.is_empty() {
        let plan = |before| prefix(before, slots, data.len() - done, |t, b| shape.fits(t, b));
        // Every claim is written at once, so nothing is held back.
        written.complete(shared);
        let claim = shared.claim(partition, plan, || ())?;
        let (now, later) = slots.split_at_mut(claim.tuples as usize);
        let end = now.last().map_or(done, |slot| slot[1] as usize);
        let page = shared.address(claim.page).as_ptr();
        let offset = shape.page_bytes() - claim.before.bytes() as usize;
        let slot = HEADER_BYTES + claim.before.tuples() as usize * SLOT_BYTES;
        to_offsets(now, (offset + done) as u32);
        // SAFETY: the claimed part of the page belongs to this writer alone, and has room for these tuples.
        unsafe {
            shared.store.copy_around(now.as_ptr().cast(), page.add(slot), now.len() * SLOT_BYTES);
            let from = data.as_ptr().add(data.len() - end);
            shared.store.copy_around(from, page.add(offset - (end - done)), end - done);
        }
        *written = UncountedTuples(Some((partition, claim.page, claim.tuples)));
        (slots, done) = (later, end);
    }
    Ok(())
}

/// Returns a part with the first tuples that fit after the claimed ones. It closes the page if not
/// all tuples fit.
fn prefix(before: ClaimWord, slots: &[Slot], bytes: usize, fits: impl Fn(usize, usize) -> bool) -> Part {
    let (tuples_before, bytes_before) = (before.tuples() as usize, before.bytes() as usize);
    if fits(tuples_before + slots.len(), bytes_before + bytes) {
        return Part { tuples: slots.len() as u32, bytes: bytes as u32, closes: false };
    }
    let (mut tuples, mut bytes) = (0, 0);
    for &[.., size] in slots {
        if !fits(tuples_before + tuples + 1, bytes_before + bytes + size as usize) {
            break;
        }
        tuples += 1;
        bytes += size as usize;
    }
    Part { tuples: tuples as u32, bytes: bytes as u32, closes: true }
}
