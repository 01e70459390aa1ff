//! Looking at the sink now and then during long work.

use crate::error::JoinError;

/// The work between two looks: a few milliseconds.
const MOST_WORK: u64 = 1 << 20;

/// Counts work in steps of about a nanosecond, and looks now and then if the join is to end.
pub(super) struct Pace<'a> {
    check: &'a dyn Fn() -> Result<(), JoinError>,
    unchecked: u64,
    checked: u64,
}

impl<'a> Pace<'a> {
    pub(super) fn new(check: &'a dyn Fn() -> Result<(), JoinError>) -> Self {
        Self { check, unchecked: 0, checked: 0 }
    }

    /// Adds work.
    #[inline]
    pub(super) fn spend(&mut self, work: usize) -> Result<(), JoinError> {
        self.unchecked += work as u64;
        if self.unchecked < MOST_WORK {
            return Ok(());
        }
        self.checked += std::mem::take(&mut self.unchecked);
        (self.check)()
    }

    /// Returns the work of all steps.
    pub(super) fn total(&self) -> u64 {
        self.checked + self.unchecked
    }
}
