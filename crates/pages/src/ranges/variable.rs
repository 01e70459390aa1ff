//! One thread's way onto the pages, for tuples of any size. They collect like those of one size,
//! but a part of a page is claimed only when the tuples are there, for their slots and bytes at
//! once, so that nothing is left unwritten.

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

/// Bytes that all payload buffers of a writer should take.
const BYTES: usize = 512 << 10;
/// Bytes of a lane's payload buffer, at least and at most.
const LANE_BYTES: [usize; 2] = [1 << 10, 16 << 10];
/// A buffer has room for a tuple for each so many payload bytes, and so is as often full of tuples
/// as of bytes if they are small.
const BYTES_PER_TUPLE: usize = 8;

pub(super) struct VariableWriter<S: PageSink> {
    shared: Arc<Shared<S>>,
    /// Payload bytes and tuples that a lane's buffer takes.
    lane_bytes: usize,
    lane_tuples: usize,
    /// Payloads, downwards from the end of each lane's buffer, as on a page.
    data: Lines,
    keys: Table<u32>,
    sizes: Table<u32>,
    lanes: Table<Fill>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Fill {
    tuples: u32,
    bytes: u32,
}

/// Payload bytes and tuples that a lane's buffer takes.
fn lane_room(lanes: usize) -> (usize, usize) {
    let bytes = (BYTES / lanes.max(1)).clamp(LANE_BYTES[0], LANE_BYTES[1]).next_multiple_of(64);
    (bytes, bytes / BYTES_PER_TUPLE)
}

/// Bytes that a writer of tuples of any size keeps for `partitions` partitions, besides pages.
pub fn variable_writer_bytes(partitions: usize) -> usize {
    let (bytes, tuples) = lane_room(partitions);
    partitions * (bytes + 2 * tuples * size_of::<u32>() + size_of::<Fill>())
}

impl<S: PageSink> VariableWriter<S> {
    pub(super) fn new(shared: Arc<Shared<S>>) -> Self {
        let lanes = shared.lanes();
        let (lane_bytes, lane_tuples) = lane_room(lanes);
        Self {
            shared,
            lane_bytes,
            lane_tuples,
            data: Lines::new(lanes * lane_bytes),
            keys: Table::new(lanes * lane_tuples, |_| 0),
            sizes: Table::new(lanes * lane_tuples, |_| 0),
            lanes: Table::new(lanes, |_| Fill::default()),
        }
    }

    /// Places tuple `i` in partition `lane(i)`.
    pub(super) fn write(&mut self, tuples: &Tuples<'_>, lane: impl Fn(usize) -> usize) -> Result<(), PagesError> {
        let most = self.shared.shape.most_payload();
        for (index, &key) in tuples.keys().iter().enumerate() {
            let (lane, payload) = (lane(index), tuples.payload(index));
            if payload.len() > most {
                return Err(PagesError::TupleTooLarge { payload_bytes: payload.len(), most });
            }
            let fill = self.lanes[lane];
            if fill.bytes as usize + payload.len() > self.lane_bytes || fill.tuples as usize == self.lane_tuples {
                self.flush(lane)?;
            }
            if payload.len() > self.lane_bytes {
                self.place(lane, &[key], &[payload.len() as u32], payload)?;
                continue;
            }
            let fill = &mut self.lanes[lane];
            let at = lane * self.lane_tuples + fill.tuples as usize;
            self.keys[at] = key;
            self.sizes[at] = payload.len() as u32;
            fill.tuples += 1;
            fill.bytes += payload.len() as u32;
            let end = (lane + 1) * self.lane_bytes - fill.bytes as usize;
            // SAFETY: the lane's buffer has room for the payload below those before.
            unsafe { self.data.start().add(end).copy_from_nonoverlapping(payload.as_ptr(), payload.len()) };
        }
        Ok(())
    }

    pub(super) fn flush_all(&mut self) -> Result<(), PagesError> {
        (0..self.lanes.len()).try_for_each(|lane| self.flush(lane))
    }

    fn flush(&mut self, lane: usize) -> Result<(), PagesError> {
        let fill = std::mem::take(&mut self.lanes[lane]);
        let first = lane * self.lane_tuples;
        let tuples = first..first + fill.tuples as usize;
        let bytes = fill.bytes as usize;
        // SAFETY: the lane's payloads are the last of its buffer, and were written.
        let data = unsafe {
            std::slice::from_raw_parts(self.data.start().add((lane + 1) * self.lane_bytes - bytes).cast_const(), bytes)
        };
        self.place(lane, &self.keys[tuples.clone()], &self.sizes[tuples], data)
    }

    /// Places tuples whose payloads lie downwards in `data`, the first one last.
    fn place(&self, lane: usize, mut keys: &[u32], mut sizes: &[u32], mut data: &[u8]) -> Result<(), PagesError> {
        let shape = &self.shared.shape;
        while !keys.is_empty() {
            let plan = |before| prefix(before, sizes, data.len(), |t, b| shape.fits(t, b));
            // Nothing is claimed and unwritten, so nothing is kept back.
            let claim = self.shared.claim(lane, plan, || ())?;
            let (now, later) = sizes.split_at(claim.tuples as usize);
            let bytes: usize = now.iter().map(|&size| size as usize).sum();
            let page = self.shared.address(claim.page).as_ptr();
            let mut offset = shape.page_bytes() - claim.before.bytes() as usize;
            let mut slot = HEADER_BYTES + claim.before.tuples() as usize * SLOT_BYTES;
            // SAFETY: the claimed part of the page is this writer's alone, and as long as these tuples need.
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
            self.shared.complete(lane, claim.page, claim.tuples);
            keys = &keys[claim.tuples as usize..];
            sizes = later;
            data = &data[..data.len() - bytes];
        }
        Ok(())
    }
}

/// As many of the tuples, from the first on, as fit behind what is claimed; the page is closed if
/// that is not all.
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
