//! The lock-based page manager (paper, section 3.3.1): insertion of one tuple or a batch.

use annulus_pages::{PagesError, page::write::Run};

use super::{Writer, places::Places};

/// A writer that takes places under the partition's lock, for as much of a run as fits on the page.
/// It writes them without the lock.
pub(crate) struct Lock<'m, 'a>(pub(crate) &'m Places<'a>);

impl Writer for Lock<'_, '_> {
    #[inline(always)]
    fn insert(&mut self, partition: usize, mut run: Run<'_>) -> Result<(), PagesError> {
        while !run.is_empty() {
            let claim = self.0.claim(partition, &run.need())?;
            let (first, others) = run.split(claim.room);
            // SAFETY: the claim has room for these tuples, and they are written once.
            unsafe { self.0.write(&claim, claim.at, &first) };
            self.0.complete(claim);
            run = others;
        }
        Ok(())
    }
}
