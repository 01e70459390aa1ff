//! Looks at whether a search is to end, every so often.

use crate::error::JoinError;

/// The steps between two looks. A step takes some ten nanoseconds, or some hundred if it misses the caches.
const STEPS: usize = 1 << 16;

/// Calls a check once a number of steps.
pub(super) struct Pace<'c> {
    left: usize,
    check: &'c mut dyn FnMut() -> Result<(), JoinError>,
}

impl<'c> Pace<'c> {
    /// Returns a pace whose first step is checked.
    pub(super) fn new(check: &'c mut dyn FnMut() -> Result<(), JoinError>) -> Self {
        Self { left: 0, check }
    }

    /// Counts steps, and calls the check if it is time.
    #[inline]
    pub(super) fn step(&mut self, steps: usize) -> Result<(), JoinError> {
        if steps < self.left {
            self.left -= steps;
            return Ok(());
        }
        self.left = STEPS;
        (self.check)()
    }
}
