//! Which of several threads' errors is told.

use annulus_pages::error::PagesError;
use parking_lot::Mutex;

use crate::{error::DatasetError, output::OutputError};

/// The error that came first, and is not the echo of another.
#[derive(Default)]
pub(super) struct FirstError(Mutex<Option<DatasetError>>);

impl FirstError {
    /// Takes a thread's error.
    pub(super) fn add(&self, error: DatasetError) {
        let first = &mut *self.0.lock();
        if first.as_ref().is_none_or(is_echo) {
            *first = Some(error);
        }
    }

    /// The error, if there is one.
    pub(super) fn into_inner(self) -> Option<DatasetError> {
        self.0.into_inner()
    }
}

/// A worker that fails leaves its end of the spill, which fails for all others then, and so do the files that it was writing to;
/// maybe before its own error is here.
fn is_echo(error: &DatasetError) -> bool {
    matches!(error, DatasetError::Pages(PagesError::Failed) | DatasetError::Output(OutputError::Broken(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_echo_gives_way_to_the_error_that_caused_it() {
        let corrupt = || DatasetError::corrupt("in.parquet", "damaged");
        let echo = || DatasetError::Pages(PagesError::Failed);
        let broken = || DatasetError::from(OutputError::Broken("part-00001".to_owned()));
        let echoes = [[echo(), corrupt(), echo()], [broken(), corrupt(), echo()]];
        for errors in echoes.into_iter().chain([[corrupt(), broken(), DatasetError::Cancelled]]) {
            let first = FirstError::default();
            errors.into_iter().for_each(|error| first.add(error));
            assert!(matches!(first.into_inner(), Some(DatasetError::Corrupt { .. })));
        }
        let first = FirstError::default();
        first.add(echo());
        assert!(first.into_inner().is_some_and(|error| is_echo(&error)));
    }
}
