//! Claims on a consumer's open chunk. This file has every atomic of the row protocol, and knows
//! nothing of Arrow. `PROTOCOL.md` beside it states the rules (R1 to R9) that the comments cite.

use std::{marker::PhantomData, ptr::NonNull};

use annulus_sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed},
};

use super::order;

/// The rows of the largest chunk: a claim's position takes the low 16 bits of the claim word.
pub(crate) const MAX_ROWS: usize = 1 << 16;
const ADDRESS_BITS: u32 = 48;

/// A chunk that is being filled, with the number of its completed rows.
#[derive(Debug)]
pub(crate) struct CountedChunk<C> {
    /// The memory that claims are written to.
    pub(crate) chunk: C,
    /// The number of rows written, or given up by a seal. The chunk is whole when this is its
    /// capacity (R3).
    completed: AtomicU32,
    /// The number of rows that hold data: fewer than the capacity only if the chunk was sealed
    /// early.
    rows: AtomicU32,
}

impl<C> CountedChunk<C> {
    /// Creates a chunk of `capacity` rows, none of them claimed.
    pub(crate) fn new(chunk: C, capacity: u32) -> Box<Self> {
        let open = Box::new(Self { chunk, completed: AtomicU32::new(0), rows: AtomicU32::new(capacity) });
        // Systems with longer addresses return them only on request.
        assert!((&raw const *open).addr() >> ADDRESS_BITS == 0, "user space addresses have {ADDRESS_BITS} bits");
        open
    }

    /// Returns the number of rows that hold data, if the chunk is whole.
    pub(crate) fn rows(&self) -> usize {
        self.rows.load(Relaxed) as usize
    }
}

/// A claim on rows `start .. start + len` of a chunk. Only its holder may write them, and must
/// complete the claim.
#[derive(Debug)]
#[must_use = "a claim that is not completed keeps its chunk from the consumer for ever"]
pub(crate) struct Claim<C> {
    open: NonNull<CountedChunk<C>>,
    /// The first row.
    pub(crate) start: u32,
    /// The number of rows, at least 1.
    pub(crate) len: u32,
}

impl<C> Claim<C> {
    /// Returns the chunk of the rows.
    pub(crate) fn chunk(&self) -> &C {
        // SAFETY: by R2 a chunk lives until all its rows are completed, and those of this claim are not
        // yet.
        unsafe { &self.open.as_ref().chunk }
    }

    /// Completes the claim: its rows are written. The last claim of a chunk to complete receives
    /// the whole chunk (R3).
    pub(crate) fn complete(self, capacity: u32) -> Option<Box<CountedChunk<C>>> {
        // SAFETY: as in `chunk`.
        let before = unsafe { self.open.as_ref() }.completed.fetch_add(self.len, order::rows_complete());
        // SAFETY: the count has reached the capacity, so no other claim exists and the claim word no longer
        // names the chunk (R2). This is the only pointer to the leaked box.
        (before + self.len == capacity).then(|| unsafe { Box::from_raw(self.open.as_ptr()) })
    }
}

// SAFETY: a claim is the exclusive right to some rows of a chunk. Chunks are shared between the
// producers' threads.
unsafe impl<C: Send + Sync> Send for Claim<C> {}

/// The open chunk of one consumer. One word has its address (48 bits) and its claimed rows (16
/// bits), or is 0 if there is none.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct ClaimWord<C> {
    word: AtomicU64,
    capacity: u32,
    owns: PhantomData<CountedChunk<C>>,
}

impl<C: Send + Sync> ClaimWord<C> {
    /// Creates a claim word without an open chunk. Its chunks have `capacity` rows, 1 to
    /// [`MAX_ROWS`].
    pub(crate) fn new(capacity: u32) -> Self {
        assert!(capacity >= 1 && capacity as usize <= MAX_ROWS);
        Self { word: AtomicU64::new(0), capacity, owns: PhantomData }
    }

    /// Claims `rows` rows, at most the capacity. Pushes one claim, or two if the rows cross into a
    /// new chunk, which `fresh` creates. `spare` takes a new chunk back if another claim has made
    /// it unnecessary. Lock-free. Returns the number of read-modify-write operations.
    pub(crate) fn claim(
        &self,
        rows: u32,
        mut fresh: impl FnMut() -> Box<CountedChunk<C>>,
        spare: impl FnOnce(Box<CountedChunk<C>>),
        claims: &mut Vec<Claim<C>>,
    ) -> u64 {
        debug_assert!(rows >= 1 && rows <= self.capacity);
        // Not a `Box` any more: the claim word and the claims copy this pointer, and a move of the Box
        // would invalidate the copies.
        let mut next: Option<NonNull<CountedChunk<C>>> = None;
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
            // R1. Acquire pairs with the Release of the claim that installed the open chunk.
            // Release publishes the chunk that this claim installs.
            match self.word.compare_exchange_weak(word, target, order::rows_claim(), Relaxed) {
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

    /// Takes the open chunk out of the claim word with the rows that it has. Returns it if all of
    /// them are written. Otherwise the caller that completes the last claim gets it (R4).
    pub(crate) fn seal(&self) -> Option<Box<CountedChunk<C>>> {
        let mut word = self.word.load(Relaxed);
        while word != 0 {
            match self.word.compare_exchange_weak(word, 0, order::rows_seal(), Relaxed) {
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

impl<C> Drop for ClaimWord<C> {
    fn drop(&mut self) {
        // No claims are left: they live inside calls on handles that keep the claim word alive.
        if let (Some(open), _) = unpack::<C>(self.word.load(Acquire)) {
            // SAFETY: `claim` leaked the chunk. The claim word names it, so it was never completed (R2).
            drop(unsafe { Box::from_raw(open.as_ptr()) });
        }
    }
}

const ROW_BITS: u32 = 64 - ADDRESS_BITS;

/// Returns the word for `used` claimed rows. It does not name a fully claimed chunk (R2).
fn pack(address: usize, used: u32, capacity: u32) -> u64 {
    if used == capacity { 0 } else { (address as u64) << ROW_BITS | u64::from(used) }
}

fn unpack<C>(word: u64) -> (Option<NonNull<CountedChunk<C>>>, u32) {
    let open = std::ptr::with_exposed_provenance_mut((word >> ROW_BITS) as usize);
    (NonNull::new(open), (word & (MAX_ROWS as u64 - 1)) as u32)
}

/// Returns the claim of `len` rows from a word that was just replaced. The pointer is created only
/// now: before the swap, the chunk at this address may have been another one with as many rows.
fn claim_at<C>(word: u64, len: u32) -> Option<Claim<C>> {
    let (open, start) = unpack::<C>(word);
    (len > 0).then_some(())?;
    Some(Claim { open: open?, start, len })
}
