//! The memory budget of a join: what it may take from the session's pool.

use std::sync::Arc;

use datafusion::{
    error::{DataFusionError, Result},
    execution::{
        TaskContext,
        memory_pool::{MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation},
    },
};

/// The share of the pool that joins which can spill take from it: the rest is for operators that
/// need memory at any time, and cannot wait.
const SHARE: (usize, usize) = (3, 4);
/// A build side of less than this part of the pool never spills.
const SMALL: usize = 64;
/// The part of the pool that the open pieces of all parts of one side take together.
const PIECES: usize = 32;
/// The bounds of the size of a piece, in bytes.
const PIECE_BYTES: std::ops::RangeInclusive<usize> = 8 << 10..=128 << 10;
/// The bounds of the size of a set of keys, in bytes. Look-ups in a larger one would miss the caches.
const SET_BYTES: std::ops::RangeInclusive<usize> = 4 << 10..=6 << 20;

/// From this size of the pool on, in bytes, joins keep memory for later ones beside it.
const WIDE: usize = 2 << 30;

/// The memory budget of one join, and what the join has reserved of it. A join that can spill leaves
/// a part of the pool to others. What it cannot do without it takes though the pool is full: the open
/// pieces of its files, a set of the keys, and one block of a part.
#[derive(Debug)]
pub(in crate::join::hash) struct MemoryBudget {
    reservation: MemoryReservation,
    pool: Arc<dyn MemoryPool>,
    /// The size of the pool, if it is known.
    limit: Option<usize>,
    can_spill: bool,
}

impl MemoryBudget {
    pub(in crate::join::hash) fn new(context: &TaskContext) -> Self {
        let pool = Arc::clone(context.memory_pool());
        let limit = match pool.memory_limit() {
            MemoryLimit::Finite(bytes) => Some(bytes),
            MemoryLimit::Infinite | MemoryLimit::Unknown => None,
        };
        let can_spill = context.runtime_env().disk_manager.tmp_files_enabled();
        let reservation = MemoryConsumer::new("SharedHashJoinExec").register(&pool);
        Self { reservation, pool, limit, can_spill }
    }

    pub(super) fn can_spill(&self) -> bool {
        self.can_spill
    }

    /// Returns whether what joins keep for later ones is little beside the pool.
    pub(super) fn is_wide(&self) -> bool {
        self.limit.is_none_or(|bytes| bytes >= WIDE)
    }

    /// Returns the bytes that the join has reserved for its rows.
    pub(in crate::join::hash) fn size(&self) -> usize {
        self.reservation.size()
    }

    /// Reserves memory for rows that are collected.
    ///
    /// # Errors
    /// If the pool refuses, or the join would take more than it may.
    pub(super) fn try_collect(&self, bytes: usize) -> Result<()> {
        let has = self.size() + bytes;
        if has > self.small() && has > self.left_by_others() {
            return Err(greedy(has));
        }
        if has <= self.small() {
            self.reservation.grow(bytes);
            return Ok(());
        }
        self.reservation.try_grow(bytes)
    }

    /// Reserves `work` more bytes for the time in which a table is made that then takes `held`
    /// bytes.
    ///
    /// # Errors
    /// As for [`try_collect`](Self::try_collect).
    pub(super) fn try_build(&self, held: usize, work: usize) -> Result<()> {
        if self.size() + work <= self.small() {
            self.reservation.grow(work);
            return Ok(());
        }
        if self.bound().is_some() && held > self.left_by_others() / 2 {
            return Err(greedy(held));
        }
        self.reservation.try_grow(work)
    }

    /// Returns the bytes that the join may take for a block of a part, with its table.
    pub(super) fn for_block(&self) -> usize {
        match self.bound() {
            Some(limit) => {
                let free = (limit / SHARE.1 * SHARE.0).saturating_sub(self.pool.reserved());
                (free / 2).max(limit / SMALL).max(*PIECE_BYTES.start())
            }
            // The pool does not say how much it has.
            None => 16 << 20,
        }
    }

    /// Returns the bytes of a piece if as many are open at once.
    pub(super) fn piece_bytes(&self, open: usize) -> usize {
        let all = self.limit.map_or(usize::MAX, |limit| limit / PIECES);
        (all / open.max(1)).clamp(*PIECE_BYTES.start(), *PIECE_BYTES.end())
    }

    /// Takes memory that the join cannot do without.
    pub(super) fn grow(&self, bytes: usize) {
        self.reservation.grow(bytes);
    }

    /// Takes memory for a set of the keys of a build side that spills, and returns how much: none in a
    /// tiny pool.
    pub(super) fn grow_for_set(&self) -> usize {
        let bytes = (self.limit.map_or(*SET_BYTES.end(), |limit| limit / SMALL)).min(*SET_BYTES.end());
        let bytes = if bytes < *SET_BYTES.start() { 0 } else { bytes };
        self.grow(bytes);
        bytes
    }

    pub(super) fn shrink(&self, bytes: usize) {
        self.reservation.shrink(bytes);
    }

    /// Sets the reserved bytes to those that are held.
    ///
    /// # Errors
    /// If the pool refuses more, and the join cannot spill.
    pub(in crate::join::hash) fn settle(&self, bytes: usize) -> Result<()> {
        if self.can_spill {
            self.reservation.resize(bytes);
            return Ok(());
        }
        self.reservation.try_resize(bytes)
    }

    /// Returns a budget of the same join with all that this one has reserved.
    pub(in crate::join::hash) fn take(&self) -> Self {
        Self { reservation: self.reservation.split(self.size()), pool: Arc::clone(&self.pool), ..*self }
    }

    /// Returns a budget of the same join, which has reserved nothing. What it reserves goes back to
    /// the pool when it is dropped.
    pub(super) fn another(&self) -> Self {
        Self { reservation: self.reservation.new_empty(), pool: Arc::clone(&self.pool), ..*self }
    }

    /// Returns the size of the pool, if it bounds what this join takes.
    fn bound(&self) -> Option<usize> {
        self.limit.filter(|_| self.can_spill)
    }

    fn small(&self) -> usize {
        self.bound().map_or(0, |limit| limit / SMALL)
    }

    /// Returns how much of the share of the pool other operators have left.
    fn left_by_others(&self) -> usize {
        match self.bound() {
            Some(limit) => {
                let others = self.pool.reserved().saturating_sub(self.size());
                (limit / SHARE.1 * SHARE.0).saturating_sub(others)
            }
            None => usize::MAX,
        }
    }
}

fn greedy(bytes: usize) -> DataFusionError {
    DataFusionError::ResourcesExhausted(format!("{bytes} bytes are more than other operators can spare"))
}

#[cfg(test)]
mod tests {
    use datafusion::execution::{
        disk_manager::{DiskManagerBuilder, DiskManagerMode},
        runtime_env::RuntimeEnvBuilder,
    };

    use super::*;

    const LIMIT: usize = 64 << 20;

    fn budget(disk: DiskManagerMode) -> (MemoryBudget, MemoryReservation) {
        let disk = DiskManagerBuilder::default().with_mode(disk);
        let runtime = RuntimeEnvBuilder::new().with_memory_limit(LIMIT, 1.0).with_disk_manager_builder(disk);
        let context = TaskContext::default().with_runtime(runtime.build_arc().unwrap());
        let other = MemoryConsumer::new("another operator").register(context.memory_pool());
        (MemoryBudget::new(&context), other)
    }

    #[test]
    fn a_join_that_can_spill_leaves_a_quarter_of_the_pool_to_others() {
        let (budget, other) = budget(DiskManagerMode::OsTmpDirectory);
        other.grow(LIMIT / 4);
        assert!(budget.try_collect(LIMIT / 2).is_ok() && budget.try_collect(1).is_err());
        // A table may take half of what others have left.
        assert!(budget.try_build(LIMIT / 4 + 1, 1).is_err() && budget.try_build(LIMIT / 4, 1).is_ok());
        assert!(budget.try_build(1, LIMIT / 4).is_err());
        assert_eq!(budget.for_block(), LIMIT / SMALL);
        budget.settle(0).unwrap();
        assert_eq!(budget.for_block(), LIMIT / 4);
    }

    #[test]
    fn a_small_build_side_never_spills() {
        let (budget, other) = budget(DiskManagerMode::OsTmpDirectory);
        other.grow(LIMIT);
        assert!(budget.try_collect(LIMIT / SMALL / 2).is_ok() && budget.try_build(1, LIMIT / SMALL / 2).is_ok());
        assert!(budget.try_collect(1).is_err() && budget.try_build(1, 1).is_err());
    }

    #[test]
    fn a_join_that_cannot_spill_takes_what_there_is() {
        let (budget, other) = budget(DiskManagerMode::Disabled);
        other.grow(LIMIT / 4);
        assert!(budget.try_collect(LIMIT / 2).is_ok() && budget.try_build(LIMIT, LIMIT / 4).is_ok());
        assert!(budget.try_collect(1).is_err() && budget.settle(LIMIT).is_err() && budget.settle(1).is_ok());
    }

    #[test]
    fn what_a_room_has_goes_back_with_it() {
        let (budget, _other) = budget(DiskManagerMode::OsTmpDirectory);
        budget.grow(100);
        let taken = budget.take();
        assert_eq!((budget.size(), taken.size(), budget.pool.reserved()), (0, 100, 100));
        taken.another().grow(50);
        assert_eq!(budget.pool.reserved(), 100);
        drop(taken);
        assert_eq!(budget.pool.reserved(), 0);
        assert!(budget.piece_bytes(1) > budget.piece_bytes(100) && budget.piece_bytes(usize::MAX) > 0);
    }
}
