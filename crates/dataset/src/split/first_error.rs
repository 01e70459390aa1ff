//! The error that a run with several failing threads returns.

use annulus_pages::PagesError;
use parking_lot::Mutex;

use crate::error::{DatasetError, OutputError};

/// The most informative error of a run's threads, and the first of several such.
#[derive(Default)]
pub(super) struct FirstError(Mutex<Option<DatasetError>>);

impl FirstError {
    /// Adds a thread's error.
    pub(super) fn add(&self, error: DatasetError) {
        let first = &mut *self.0.lock();
        if first.as_ref().is_none_or(|first| weight(first) < weight(&error)) {
            *first = Some(error);
        }
    }

    /// Returns the error, if there is one.
    pub(super) fn into_inner(self) -> Option<DatasetError> {
        self.0.into_inner()
    }
}

/// Returns how much an error says; the cause says most. A worker that fails leaves the spill and
/// its output files unusable, so other workers fail with `Failed` or `Broken`. A worker that sees
/// the stop flag fails with `Cancelled`. Each of these may arrive before the cause.
fn weight(error: &DatasetError) -> u8 {
    match error {
        DatasetError::Pages(PagesError::Failed) | DatasetError::Output(OutputError::Broken(_)) => 0,
        DatasetError::Cancelled => 1,
        _ => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_echo_gives_way_to_the_error_that_caused_it() {
        let corrupt = || DatasetError::corrupt("in.parquet", "damaged");
        let echo = || DatasetError::Pages(PagesError::Failed);
        let broken = || DatasetError::from(OutputError::Broken("part-00001".to_owned()));
        let cancelled = || DatasetError::Cancelled;
        let orders = [
            [echo(), corrupt(), echo()],
            [broken(), corrupt(), echo()],
            [corrupt(), broken(), cancelled()],
            [broken(), cancelled(), corrupt()],
        ];
        for errors in orders {
            let first = FirstError::default();
            errors.into_iter().for_each(|error| first.add(error));
            assert!(matches!(first.into_inner(), Some(DatasetError::Corrupt { .. })));
        }
        let first = FirstError::default();
        [echo(), cancelled(), broken()].into_iter().for_each(|error| first.add(error));
        assert!(matches!(first.into_inner(), Some(DatasetError::Cancelled)));
    }
}
