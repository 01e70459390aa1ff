//! Claims on a consumer's open chunk: every atomic of the row protocol, free of Arrow. `PROTOCOL.md` beside this file
//! states the rules (R1..R6) that the comments cite.

use std::{marker::PhantomData, ptr::NonNull};

use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Rows of the largest chunk: a claim's position takes the low 16 bits of the lane's word.
pub(crate) const MAX_ROWS: usize = 1 << 16;

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
        Box::new(Self { chunk, completed: AtomicU32::new(0), rows: AtomicU32::new(capacity) })
    }

    /// Rows that hold data, once the chunk is whole.
    pub(crate) fn rows(&self) -> usize {
        self.rows.load(Ordering::Relaxed) as usize
    }
}

/// Rows `start .. start + len` of a chunk, which the holder alone may write, and which it must complete.
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
        // SAFETY: by R2 an open chunk lives until its completed count is full, which this claim's rows still lack.
        unsafe { &self.open.as_ref().chunk }
    }

    /// Says that the rows are written. The last claim of a chunk to complete receives the chunk, whole (R3).
    pub(crate) fn complete(self, capacity: u32) -> Option<Box<Open<C>>> {
        // SAFETY: as in `chunk`.
        let before = unsafe { self.open.as_ref() }.completed.fetch_add(self.len, COMPLETE);
        // SAFETY: the count has reached the capacity, so no other claim exists and the lane no longer names the chunk
        // (R2): this is the only pointer to what `Box::into_raw` gave.
        (before + self.len == capacity).then(|| unsafe { Box::from_raw(self.open.as_ptr()) })
    }
}

// SAFETY: a claim is the exclusive right to some rows of a chunk; chunks are shared between the producers' threads.
unsafe impl<C: Send + Sync> Send for Claim<C> {}

const COMPLETE: Ordering = if cfg!(annulus_weaken = "reserve_complete") { Ordering::Relaxed } else { Ordering::AcqRel };
const CLAIM: Ordering = if cfg!(annulus_weaken = "reserve_claim") { Ordering::Relaxed } else { Ordering::AcqRel };

/// The open chunk of one consumer: its address (48 bits) and the rows claimed of it (16 bits) in one word; 0 is none.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Lane<C> {
    word: AtomicU64,
    capacity: u32,
    owns: PhantomData<Open<C>>,
}

impl<C> Lane<C> {
    /// A lane without an open chunk, whose chunks will have `capacity` rows (1 to [`MAX_ROWS`]).
    pub(crate) fn new(capacity: u32) -> Self {
        assert!(capacity >= 1 && capacity as usize <= MAX_ROWS);
        Self { word: AtomicU64::new(0), capacity, owns: PhantomData }
    }

    /// Claims `rows` rows (at most the capacity) and pushes one claim, or two where they cross into a new chunk, which
    /// `fresh` makes; `spare` takes that chunk back if others made it unnecessary. Lock-free; returns the number of
    /// read-modify-write operations it took.
    pub(crate) fn claim(
        &self,
        rows: u32,
        mut fresh: impl FnMut() -> Box<Open<C>>,
        spare: impl FnOnce(Box<Open<C>>),
        claims: &mut Vec<Claim<C>>,
    ) -> u64 {
        debug_assert!(rows >= 1 && rows <= self.capacity);
        let mut next: Option<Box<Open<C>>> = None;
        let mut word = self.word.load(Ordering::Relaxed);
        let mut operations = 0;
        loop {
            let (open, used) = unpack::<C>(word);
            let free = if open.is_some() { self.capacity - used } else { 0 };
            let here = rows.min(free);
            let there = rows - here;
            if there > 0 && next.is_none() {
                next = Some(fresh());
            }
            let target = match &next {
                Some(next) if there > 0 => pack(NonNull::from(&**next), there, self.capacity),
                _ => pack(open.unwrap_or(NonNull::dangling()), used + here, self.capacity),
            };
            operations += 1;
            // R1. Release publishes a fresh chunk's content; Acquire pairs with the release of whoever installed it.
            match self.word.compare_exchange_weak(word, target, CLAIM, Ordering::Relaxed) {
                Ok(_) => {
                    if let (Some(open), true) = (open, here > 0) {
                        claims.push(Claim { open, start: used, len: here });
                    }
                    match next {
                        Some(next) if there > 0 => {
                            let open = NonNull::from(Box::leak(next));
                            claims.push(Claim { open, start: 0, len: there });
                        }
                        Some(next) => spare(next),
                        None => {}
                    }
                    return operations;
                }
                Err(seen) => word = seen,
            }
        }
    }

    /// Takes the open chunk out of the lane with the rows it has; returns it if they are all written, else whoever
    /// completes the last claim gets it (R4).
    pub(crate) fn seal(&self) -> Option<Box<Open<C>>> {
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            let (open, used) = unpack::<C>(word);
            let open = open?;
            match self.word.compare_exchange_weak(word, 0, CLAIM, Ordering::Relaxed) {
                Ok(_) => {
                    let rest = Claim { open, start: used, len: self.capacity - used };
                    // SAFETY: the rest of the chunk is claimed here, so it is alive (R2).
                    unsafe { open.as_ref() }.rows.store(used, Ordering::Relaxed);
                    return rest.complete(self.capacity);
                }
                Err(seen) => word = seen,
            }
        }
    }
}

impl<C> Drop for Lane<C> {
    fn drop(&mut self) {
        // Nobody holds a claim any more: claims live inside calls on handles that keep the lane alive.
        if let (Some(open), _) = unpack::<C>(self.word.load(Ordering::Acquire)) {
            // SAFETY: the chunk was leaked by `claim`, is named by the lane, and so was never completed (R2).
            drop(unsafe { Box::from_raw(open.as_ptr()) });
        }
    }
}

/// The word for `used` claimed rows; a fully claimed chunk is no longer named (R2).
fn pack<C>(open: NonNull<Open<C>>, used: u32, capacity: u32) -> u64 {
    if used == capacity {
        return 0;
    }
    let address = open.as_ptr().expose_provenance() as u64;
    assert!(address >> 48 == 0, "user space addresses have 48 bits");
    address << 16 | u64::from(used)
}

fn unpack<C>(word: u64) -> (Option<NonNull<Open<C>>>, u32) {
    let open = std::ptr::with_exposed_provenance_mut((word >> 16) as usize);
    (NonNull::new(open), (word & 0xffff) as u32)
}
