//! The error that a run with several failing threads returns.

use annulus_pages::PagesError;
use parking_lot::Mutex;

use crate::{error::DatasetError, output::OutputError};

/// The error that came first of those that say most.
#[derive(Default)]
pub(super) struct FirstError(Mutex<Option<DatasetError>>);

impl FirstError {
    /// Takes a thread's error.
    pub(super) fn add(&self, error: DatasetError) {
        let first = &mut *self.0.lock();
        if first.as_ref().is_none_or(|first| weight(first) < weight(&error)) {
            *first = Some(error);
        }
    }

    /// The error, if there is one.
    pub(super) fn into_inner(self) -> Option<DatasetError> {
        self.0.into_inner()
    }
}

/// How much an error says. A worker that fails leaves its end of the spill, which fails for all
/// others then, and so do the files that it was writing to; and who sees that others stop says that
/// it was cancelled: all that maybe before the error itself is here.
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
