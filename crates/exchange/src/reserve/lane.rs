//! Claims on a consumer's open chunk: every atomic of the row protocol, free of Arrow.
//! `PROTOCOL.md` beside this file states the rules (R1..R9) that the comments cite.

use std::{marker::PhantomData, ptr::NonNull};

use annulus_sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed},
};

use super::order;

/// Rows of the largest chunk: a claim's position takes the low 16 bits of the lane's word.
pub(crate) const MAX_ROWS: usize = 1 << 16;
const ADDRESS_BITS: u32 = 48;

/// A chunk that is being filled, with the count that tells when it is full.
#[derive(Debug)]
pub(crate) struct Open<C> {
    /// The memory that claims are written to.
    pub(crate) chunk: C,
    /// Rows written, or given up by a seal; the chunk is whole when this reaches its capacity (R3).
    completed: AtomicU32,
    /// Rows that hold data; below the capacity only if the chunk was sealed early.
    rows: AtomicU32,
}

impl<C> Open<C> {
    /// A chunk of `capacity` rows, none of them claimed.
    pub(crate) fn new(chunk: C, capacity: u32) -> Box<Self> {
        let open = Box::new(Self { chunk, completed: AtomicU32::new(0), rows: AtomicU32::new(capacity) });
        // Systems with longer addresses hand them out only to those who ask.
        assert!((&raw const *open).addr() >> ADDRESS_BITS == 0, "user space addresses have {ADDRESS_BITS} bits");
        open
    }

    /// Rows that hold data, once the chunk is whole.
    pub(crate) fn rows(&self) -> usize {
        self.rows.load(Relaxed) as usize
    }
}

/// Rows `start .. start + len` of a chunk, which the holder alone may write, and which it must
/// complete.
#[derive(Debug)]
#[must_use = "a claim that is not completed keeps its chunk from the consumer for ever"]
pub(crate) struct Claim<C> {
    open: NonNull<Open<C>>,
    /// The first row.
    pub(crate) start: u32,
    /// Number of rows, at least 1.
    pub(crate) len: u32,
}

impl<C> Claim<C> {
    /// The chunk that the rows lie in.
    pub(crate) fn chunk(&self) -> &C {
        // SAFETY: by R2 an open chunk lives until its completed count is full, which this claim's rows
        // still lack.
        unsafe { &self.open.as_ref().chunk }
    }

    /// Says that the rows are written. The last claim of a chunk to complete receives the chunk,
    /// whole (R3).
    pub(crate) fn complete(self, capacity: u32) -> Option<Box<Open<C>>> {
        // SAFETY: as in `chunk`.
        let before = unsafe { self.open.as_ref() }.completed.fetch_add(self.len, order::lane_complete());
        // SAFETY: the count has reached the capacity, so no other claim exists and the lane no longer names
        // the chunk (R2): this is the only pointer to what `Box::into_raw` gave.
        (before + self.len == capacity).then(|| unsafe { Box::from_raw(self.open.as_ptr()) })
    }
}

// SAFETY: a claim is the exclusive right to some rows of a chunk; chunks are shared between the
// producers' threads.
unsafe impl<C: Send + Sync> Send for Claim<C> {}

/// The open chunk of one consumer: its address (48 bits) and the rows claimed of it (16 bits) in
/// one word; 0 is none.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Lane<C> {
    word: AtomicU64,
    capacity: u32,
    owns: PhantomData<Open<C>>,
}

impl<C: Send + Sync> Lane<C> {
    /// A lane without an open chunk, whose chunks will have `capacity` rows (1 to [`MAX_ROWS`]).
    pub(crate) fn new(capacity: u32) -> Self {
        assert!(capacity >= 1 && capacity as usize <= MAX_ROWS);
        Self { word: AtomicU64::new(0), capacity, owns: PhantomData }
    }

    /// Claims `rows` rows (at most the capacity) and pushes one claim, or two where they cross into
    /// a new chunk, which `fresh` makes; `spare` takes that chunk back if others made it
    /// unnecessary. Lock-free; returns the number of read-modify-write operations it took.
    pub(crate) fn claim(
        &self,
        rows: u32,
        mut fresh: impl FnMut() -> Box<Open<C>>,
        spare: impl FnOnce(Box<Open<C>>),
        claims: &mut Vec<Claim<C>>,
    ) -> u64 {
        debug_assert!(rows >= 1 && rows <= self.capacity);
        // Not a Box any more: the lane and the claims copy this pointer, and moving a Box would invalidate
        // the copies.
        let mut next: Option<NonNull<Open<C>>> = None;
        let mut word = self.word.load(Relaxed);
        let mut operations = 0;
        loop {
            let (open, used) = unpack::<C>(word);
            let free = if open.is_some() { self.capacity - used } else { 0 };
            let here = rows.min(free);
            let there = rows - here;
            let target = if there > 0 {
                let next = *next.get_or_insert_with(|| NonNull::from(Box::leak(fresh())));
                pack(next.expose_provenance().get(), there, self.capacity)
            } else {
                pack((word >> ROW_BITS) as usize, used + here, self.capacity)
            };
            operations += 1;
            // R1. Acquire pairs with the release of whoever installed the open chunk; Release is for the one we
            // install.
            match self.word.compare_exchange_weak(word, target, order::lane_claim(), Relaxed) {
                Ok(_) if there > 0 => {
                    claims.extend(claim_at(word, here));
                    claims.extend(next.map(|open| Claim { open, start: 0, len: there }));
                    return operations;
                }
                Ok(_) => {
                    claims.extend(claim_at(word, here));
                    if let Some(next) = next {
                        // SAFETY: leaked above, and no word that names it was ever stored.
                        spare(unsafe { Box::from_raw(next.as_ptr()) });
                    }
                    return operations;
                }
                Err(seen) => word = seen,
            }
        }
    }

    /// Takes the open chunk out of the lane with the rows it has; returns it if they are all
    /// written, else whoever completes the last claim gets it (R4).
    pub(crate) fn seal(&self) -> Option<Box<Open<C>>> {
        let mut word = self.word.load(Relaxed);
        while word != 0 {
            match self.word.compare_exchange_weak(word, 0, order::lane_seal(), Relaxed) {
                Ok(_) => {
                    let (_, used) = unpack::<C>(word);
                    let rest = claim_at::<C>(word, self.capacity - used)?;
                    // SAFETY: the rest of the chunk is claimed here, so it is alive (R2).
                    unsafe { rest.open.as_ref() }.rows.store(used, Relaxed);
                    return rest.complete(self.capacity);
                }
                Err(seen) => word = seen,
            }
        }
        None
    }
}

impl<C> Drop for Lane<C> {
    fn drop(&mut self) {
        // Nobody holds a claim any more: claims live inside calls on handles that keep the lane alive.
        if let (Some(open), _) = unpack::<C>(self.word.load(Acquire)) {
            // SAFETY: the chunk was leaked by `claim`, is named by the lane, and so was never completed (R2).
            drop(unsafe { Box::from_raw(open.as_ptr()) });
        }
    }
}

const ROW_BITS: u32 = 64 - ADDRESS_BITS;

/// The word for `used` claimed rows; a fully claimed chunk is no longer named (R2).
fn pack(address: usize, used: u32, capacity: u32) -> u64 {
    if used == capacity { 0 } else { (address as u64) << ROW_BITS | u64::from(used) }
}

fn unpack<C>(word: u64) -> (Option<NonNull<Open<C>>>, u32) {
    let open = std::ptr::with_exposed_provenance_mut((word >> ROW_BITS) as usize);
    (NonNull::new(open), (word & (MAX_ROWS as u64 - 1)) as u32)
}

/// The claim of `len` rows from a word that was just replaced. Only then is the pointer made:
/// before, the chunk at this address may have been another one, with as many rows.
fn claim_at<C>(word: u64, len: u32) -> Option<Claim<C>> {
    let (open, start) = unpack::<C>(word);
    (len > 0).then_some(())?;
    Some(Claim { open: open?, start, len })
}
