//! The writer of one thread for payloads that fill whole cache lines, alone or in pairs, and many
//! partitions. Pair payloads that follow each other in a partition go from the batch to the page at
//! once. Which those are is found for some rows at a time, without a branch for each, so that the
//! processor finishes the next rows while stores past the cache still drain.

use std::{ops::RangeInclusive, ptr::null_mut, sync::Arc};

use super::{
    buffers::{Lines, Table},
    open::{Claims, OpenClaim},
    shared::{PageSink, Shared},
    store::{HALF_LINE, Store},
};
use crate::{error::PagesError, page::GROUP, simd::has_avx512};

/// The numbers of partitions for which pairs are faster. With fewer, lists of rows are long enough.
/// With more, most payloads of a batch would have to be kept for the next one.
const MANY: RangeInclusive<usize> = 129..=1024;
/// The number of rows whose pairs are found before their payloads are copied.
const STEP: usize = 96;
/// The number of a partition's keys for which there is room. Groups of them are whole lines.
const ROOM: u32 = 2 * GROUP as u32;
/// The largest number of rows that are placed before payloads are kept: a row is less than [`KEPT`].
const MOST_ROWS: usize = 1 << 30;
/// The largest payload that is copied without need, since the copy is faster than a branch.
const SHORT: usize = 128;

/// The place of a payload that was copied from an earlier batch.
const KEPT: u32 = u32::MAX - 1;
/// The place of a payload that is on the page, or is not this writer's.
const NONE: u32 = u32::MAX;

/// Returns whether payloads of this size are written in pairs for this number of partitions. A page
/// must hold `capacity` tuples, at least [`GROUP`].
pub(super) fn are_in_pairs(size: u32, partitions: usize, capacity: usize) -> bool {
    let lines = size > 0 && (size as usize).is_multiple_of(HALF_LINE);
    lines && capacity >= GROUP && MANY.contains(&partitions)
}

/// The next tuple's place on the page, and where the payload before it is: a row of the batch,
/// [`KEPT`] or [`NONE`]. That matters only if the place is odd. One number, so that one store
/// changes both.
#[derive(Clone, Copy, Debug)]
struct TupleCursor(u64);

impl TupleCursor {
    fn new(next: u32, before: u32) -> Self {
        Self(u64::from(next) | u64::from(before) << u32::BITS)
    }

    fn next(self) -> u32 {
        self.0 as u32
    }

    fn before(self) -> u32 {
        (self.0 >> u32::BITS) as u32
    }

    /// Returns whether the payload before the next one waits for it: pairs begin at even places.
    fn waits(self) -> bool {
        !self.next().is_multiple_of(2) && self.before() != NONE
    }
}

/// A tuple whose payload goes to a page with the one before it.
#[derive(Clone, Copy, Debug)]
struct Pair {
    last: TupleCursor,
    /// The partition and the row, as one number like [`TupleCursor`].
    from: u64,
}

impl Pair {
    fn new(last: TupleCursor, partition: usize, row: usize) -> Self {
        Self { last, from: partition as u64 | (row as u64) << u32::BITS }
    }

    fn partition(self) -> usize {
        self.from as u32 as usize
    }

    fn row(self) -> usize {
        (self.from >> u32::BITS) as usize
    }
}

pub(super) struct PairsWriter<S: PageSink> {
    claims: Claims<S>,
    pending: PendingTuples,
    /// Whether the machine has AVX-512.
    wide: bool,
    pairs: Table<Pair>,
    /// The partitions that have a whole group of keys, once for each group.
    groups: Table<u32>,
}

/// The tuples that are not on pages, or only with their payloads.
struct PendingTuples {
    /// For each partition, where its next tuple goes. At the end of a batch the payload before it is
    /// kept, so a row is always one of the current batch.
    last: Table<TupleCursor>,
    /// For each partition, the first place that its next tuples cannot take. The claim ends before
    /// it, or the key would have no room.
    until: Table<u32>,
    /// The end of the page. The payload in place `i` ends `i` payloads before it.
    end: Table<*mut u8>,
    /// For each partition, the key of the tuple in place `i` at `i % ROOM`.
    keys: Lines,
    /// A payload of each partition.
    kept: Lines,
    /// The payloads of the batch. Only valid during a call.
    batch: *const u8,
}

// SAFETY: the pointers lead to parts of pages that belong to this writer alone, whose memory the
// shared state keeps, and to batches only during a call.
unsafe impl<S: PageSink> Send for PairsWriter<S> {}

impl PendingTuples {
    fn keys_of(&self, partition: usize) -> *mut u32 {
        // SAFETY: the caller's partition exists.
        unsafe { self.keys.start().cast::<u32>().add(partition * ROOM as usize) }
    }

    /// Returns the address of a payload: that of a row, or the one that was kept for a partition.
    #[inline(always)]
    fn payload(&self, partition: usize, place: u32, size: usize) -> *const u8 {
        let kept = self.kept.start().wrapping_add(partition * size).cast_const();
        let row = self.batch.wrapping_add(place as usize * size);
        if place >= KEPT { kept } else { row }
    }

    /// Places the tuples of a partition that wait, and counts them as written.
    #[cold]
    fn finish<S: PageSink>(&mut self, shared: &Shared<S>, open: &mut OpenClaim, partition: usize, size: usize) {
        let last = self.last[partition];
        // SAFETY: places from that of the next slot on are in the claim, and belong to this writer.
        // Their keys are there, and so is the payload.
        unsafe {
            if last.waits() {
                let from = self.payload(partition, last.before(), size);
                shared.store.one(from, size, self.end[partition].sub(last.next() as usize * size));
                self.last[partition] = TupleCursor::new(last.next(), NONE);
            }
            while open.left > 0 && open.next() < last.next() {
                self.write_slots(shared, open, partition, size);
            }
        }
    }

    /// Places the waiting tuples of all partitions.
    fn finish_all<S: PageSink>(&mut self, shared: &Shared<S>, open: &mut [OpenClaim], size: usize) {
        for (partition, open) in open.iter_mut().enumerate() {
            self.finish(shared, open, partition, size);
        }
    }

    /// Writes the next slots of a partition, up to the end of a group or to the last tuple, and
    /// counts the tuples as written.
    ///
    /// # Safety
    /// The claim has as many left, and their keys and payloads are there.
    #[inline(always)]
    unsafe fn write_slots<S: PageSink>(
        &mut self,
        shared: &Shared<S>,
        open: &mut OpenClaim,
        partition: usize,
        size: usize,
    ) {
        let first = open.next();
        let count = (GROUP as u32 - first % GROUP as u32).min(self.last[partition].next() - first);
        // SAFETY: the caller's promises.
        unsafe {
            let keys = self.keys_of(partition).add((first % ROOM) as usize);
            open.write_slots(shared, keys, count as usize, size);
        }
        open.advance(shared, partition, count, size);
        self.set_until(open, partition);
    }

    fn set_until(&mut self, open: &OpenClaim, partition: usize) {
        self.until[partition] = open.end.min(open.next() + ROOM);
    }

    /// Lets each partition's next tuple claim a part.
    fn close_all(&mut self) {
        self.until.iter_mut().zip(&*self.last).for_each(|(until, last)| *until = last.next());
    }

    /// Keeps the payload that waits in a partition, whose batch ends.
    #[inline(always)]
    fn keep(&mut self, partition: usize, size: usize) {
        let last = self.last[partition];
        // A short copy is faster than a branch that cannot be predicted.
        if size <= SHORT || last.waits() {
            let from = self.payload(partition, last.before(), size);
            let to = self.kept.start().wrapping_add(partition * size);
            for at in (0..size).step_by(HALF_LINE) {
                // SAFETY: both are payloads, which have whole half lines. They may be the same.
                unsafe { to.add(at).cast::<[u8; HALF_LINE]>().write(from.add(at).cast::<[u8; HALF_LINE]>().read()) };
            }
        }
        let before = if last.before() == NONE { NONE } else { KEPT };
        self.last[partition] = TupleCursor::new(last.next(), before);
    }
}

impl<S: PageSink> PairsWriter<S> {
    /// Creates a writer for payloads of `size` bytes, the size of the shape.
    pub(super) fn new(shared: Arc<Shared<S>>, size: u32) -> Self {
        let partitions = shared.partition_count();
        let pending = PendingTuples {
            last: Table::new(partitions, |_| TupleCursor::new(0, NONE)),
            until: Table::new(partitions, |_| 0),
            end: Table::new(partitions, |_| null_mut()),
            keys: Lines::new(partitions * ROOM as usize * size_of::<u32>()),
            kept: Lines::new(partitions * size as usize),
            batch: std::ptr::null(),
        };
        Self {
            claims: Claims::new(shared, size),
            pending,
            wide: has_avx512(),
            pairs: Table::new(STEP, |_| Pair::new(TupleCursor::new(0, NONE), 0, 0)),
            groups: Table::new(STEP, |_| 0),
        }
    }

    /// Places tuple `i` in partition `partition_of(i, key)`. `bytes` has a payload for each key.
    #[inline(always)]
    pub(super) fn write(
        &mut self,
        keys: &[u32],
        bytes: &[u8],
        partition_of: impl Fn(usize, u32) -> usize + Copy,
    ) -> Result<(), PagesError> {
        debug_assert_eq!(keys.len() * self.claims.size, bytes.len());
        let size = self.claims.size;
        for (index, keys) in keys.chunks(MOST_ROWS).enumerate() {
            let first = index * MOST_ROWS;
            let target = move |row: usize, key: u32| partition_of(first + row, key);
            self.pending.batch = bytes[first * size..].as_ptr();
            self.write_batch(keys, target)?;
        }
        Ok(())
    }

    /// Places the tuples of a batch.
    #[inline(always)]
    fn write_batch(
        &mut self,
        keys: &[u32],
        partition_of: impl Fn(usize, u32) -> usize + Copy,
    ) -> Result<(), PagesError> {
        for (keys, first) in keys.chunks(STEP).zip((0..).step_by(STEP)) {
            let pairs = self.find(keys, first, partition_of)?;
            self.place(pairs);
        }
        let (partitions, size) = (self.claims.open.len(), self.claims.size);
        if partitions <= keys.len() {
            (0..partitions).for_each(|partition| self.pending.keep(partition, size));
        } else {
            for (row, &key) in keys.iter().enumerate() {
                let partition = partition_of(row, key);
                if self.pending.last[partition].before() == row as u32 {
                    self.pending.keep(partition, size);
                }
            }
        }
        Ok(())
    }

    /// Finds the pairs among a few rows, of which the batch has `first` before, and gives the keys
    /// of all of them a place. Returns their number.
    // Within a larger function, the loop would have to keep its numbers on the stack.
    #[inline(never)]
    fn find(
        &mut self,
        keys: &[u32],
        first: usize,
        partition_of: impl Fn(usize, u32) -> usize + Copy,
    ) -> Result<usize, PagesError> {
        let (lasts, untils) = (self.pending.last.start(), self.pending.until.start());
        let to_keys = self.pending.keys.start().cast::<u32>();
        let to_pairs = self.pairs.start();
        let mut pairs = 0;
        for (row, &key) in (first..).zip(keys) {
            let partition = partition_of(row, key);
            debug_assert!(partition < self.claims.open.len());
            // SAFETY: the caller's partitions exist. There are at most `STEP` pairs.
            unsafe {
                let of = lasts.add(partition);
                if (*of).next() == *untils.add(partition) {
                    self.make_room(partition, std::mem::take(&mut pairs))?;
                }
                let last = *of;
                let next = last.next();
                *of = TupleCursor::new(next + 1, row as u32);
                to_keys.add(partition * ROOM as usize + (next % ROOM) as usize).write(key);
                to_pairs.add(pairs).write(Pair::new(last, partition, row));
                pairs += next as usize % 2;
            }
        }
        Ok(pairs)
    }

    /// Makes room for the next tuple of a partition. Places the pairs that were found before it.
    #[cold]
    #[inline(never)]
    fn make_room(&mut self, partition: usize, pairs: usize) -> Result<(), PagesError> {
        self.place(pairs);
        let Self { claims, pending, .. } = self;
        if pending.last[partition].next() < pending.until[partition] {
            return Ok(());
        }
        let size = claims.size;
        pending.finish(&claims.shared, &mut claims.open[partition], partition, size);
        claims.claim(partition, |shared, open| {
            pending.finish_all(shared, open, size);
            pending.close_all();
        })?;
        let open = &claims.open[partition];
        pending.last[partition] = TupleCursor::new(open.next(), NONE);
        pending.set_until(open, partition);
        pending.end[partition] = open.data.wrapping_add(open.next() as usize * size);
        Ok(())
    }

    /// Copies pairs to their pages, and writes the slots of whole groups.
    fn place(&mut self, pairs: usize) {
        match self.claims.size {
            32 => self.place_sized::<32>(pairs),
            64 => self.place_sized::<64>(pairs),
            96 => self.place_sized::<96>(pairs),
            _ => self.place_sized::<{ usize::MAX }>(pairs),
        }
    }

    fn place_sized<const SIZE: usize>(&mut self, pairs: usize) {
        let store = self.claims.shared.store;
        #[cfg(target_arch = "x86_64")]
        if self.wide && store == Store::StreamWide {
            // SAFETY: the machine has the features.
            return unsafe { wide::place::<SIZE, S>(self, pairs) };
        }
        self.place_body::<SIZE>(store, pairs);
    }

    #[inline(always)]
    fn place_body<const SIZE: usize>(&mut self, store: Store, pairs: usize) {
        let Self { claims: Claims { shared, open, size, .. }, pending, .. } = self;
        let size = if SIZE == usize::MAX { *size } else { SIZE };
        let (ends, to_groups) = (pending.end.start(), self.groups.start());
        let mut groups = 0;
        for pair in &self.pairs[..pairs] {
            let (partition, next, before) = (pair.partition(), pair.last.next(), pair.last.before());
            let upper = pending.payload(partition, before, size);
            // SAFETY: both places are in the claim. If it begins with the second one, `before` is `NONE`.
            // Payloads are rows of this batch, or kept. Pages end at a line, so two payloads from an even
            // place on are whole lines. There are at most as many groups as pairs.
            unsafe {
                let lower = pending.batch.add(pair.row() * size);
                let to = (*ends.add(partition)).sub((next as usize + 1) * size);
                if before == NONE {
                    store.one(lower, size, to);
                } else {
                    store.two(lower, upper, size, to);
                }
                to_groups.add(groups).write(partition as u32);
            }
            groups += usize::from(next as usize % GROUP == GROUP - 1);
        }
        for &partition in &self.groups[..groups] {
            let partition = partition as usize;
            // SAFETY: the last tuple of the group was placed, so the claim has these, and they are there.
            unsafe { pending.write_slots(shared, &mut open[partition], partition, size) };
        }
    }

    /// Places the tuples that wait.
    pub(super) fn flush_all(&mut self) {
        let Self { claims: Claims { shared, open, size, .. }, pending, .. } = self;
        pending.finish_all(shared, open, *size);
    }

    /// Gives back the unwritten parts of claims, as [`Claims::release_all`].
    pub(super) fn release_all(&mut self, settled: bool) {
        self.claims.release_all(settled);
        self.pending.close_all();
    }
}

/// The copies compiled for AVX-512.
#[cfg(target_arch = "x86_64")]
mod wide {
    use super::{PageSink, PairsWriter, Store};

    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,popcnt,bmi1,bmi2")]
    #[inline(never)]
    pub(super) fn place<const SIZE: usize, S: PageSink>(writer: &mut PairsWriter<S>, pairs: usize) {
        writer.place_body::<SIZE>(Store::StreamWide, pairs);
    }
}
