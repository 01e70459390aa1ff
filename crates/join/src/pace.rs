//! Looking now and then if a join is to end, during long work.

use crate::error::JoinError;

/// The work between two looks: a few milliseconds.
const MOST_WORK: u64 = 1 << 20;

/// The work of a step of a search, which takes some ten nanoseconds, or some hundred if it misses the caches.
const STEP_WORK: usize = 16;

/// Counts work in units of about a nanosecond, and calls a check now and then.
pub(crate) struct Pace<'c> {
    check: &'c mut dyn FnMut() -> Result<(), JoinError>,
    /// The work until the next look.
    left: u64,
    total: u64,
}

impl<'c> Pace<'c> {
    /// Returns a pace whose first work is checked.
    pub(crate) fn new(check: &'c mut dyn FnMut() -> Result<(), JoinError>) -> Self {
        Self { check, left: 0, total: 0 }
    }

    /// Adds work, and calls the check if it is time.
    ///
    /// # Errors
    /// Those of the check.
    #[inline]
    pub(crate) fn spend(&mut self, work: usize) -> Result<(), JoinError> {
        self.total += work as u64;
        if (work as u64) < self.left {
            self.left -= work as u64;
            return Ok(());
        }
        self.left = MOST_WORK;
        (self.check)()
    }

    /// Adds steps of a search.
    ///
    /// # Errors
    /// Those of the check.
    #[inline]
    pub(crate) fn step(&mut self, steps: usize) -> Result<(), JoinError> {
        self.spend(STEP_WORK * steps)
    }

    /// Returns all work.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }
}
