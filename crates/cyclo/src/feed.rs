//! Probe rows that are read during the join, and converted to fragments on their own thread.

use std::panic::{AssertUnwindSafe, catch_unwind};

use annulus_join::{Fragment, JoinError};
use arrow::array::RecordBatch;
use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::CycloError;

/// A callback that accepts rows of the probe side. Its error means that no more rows are needed,
/// and should be returned.
pub type RowSink<'a> = dyn FnMut(Vec<RecordBatch>) -> Result<(), JoinError> + 'a;

/// A callback that passes this host's rows of the probe side to [`RowSink`], some at a time. A failed
/// join waits until it returns, so it should return on the first error of `RowSink`. The other hosts
/// do not wait for it.
pub type RowSource<'a> = dyn Fn(&mut RowSink<'_>) -> Result<(), JoinError> + Sync + 'a;

/// Hands waves of fragments, which were prepared together, from the thread that prepares them to
/// the one that sends them. A wave is taken only when the previous one is used up, so at most two
/// exist.
#[derive(Default)]
pub(crate) struct Feed {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    wave: Option<Vec<Fragment>>,
    ended: bool,
    /// Whether the join has failed.
    closed: bool,
    failed: Option<CycloError>,
    waves: Waves,
}

/// The waves that a host has prepared.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Waves {
    /// The largest size of one, in bytes as sent.
    pub(crate) largest: usize,
    /// The rows of all.
    pub(crate) rows: u64,
}

impl Feed {
    /// Begins another revolution, after the threads of the one before have ended.
    pub(crate) fn begin(&self) {
        self.state().ended = false;
    }

    /// Runs `probe`, and converts its rows with `prepare`, until they are not needed any more. If
    /// that is why the join fails, [`take_error`](Self::take_error) returns the reason, and `fail`
    /// is called.
    pub(crate) fn run(
        &self,
        probe: &RowSource<'_>,
        prepare: impl Fn(Vec<RecordBatch>) -> Result<Vec<Fragment>, JoinError>,
        fail: impl FnOnce(),
    ) {
        let given = catch_unwind(AssertUnwindSafe(|| offer(probe, |batches| self.give(prepare(batches)?))));
        let given = given.map_or(Err(CycloError::Panicked), |given| given.map_err(CycloError::from));
        let mut state = self.state();
        state.ended = true;
        let failed = given.err().filter(|_| !state.closed);
        let is_first = failed.is_some();
        state.failed = state.failed.take().or(failed);
        drop(state);
        self.changed.notify_all();
        if is_first {
            fail();
        }
    }

    /// Waits until the wave is taken.
    fn give(&self, wave: Vec<Fragment>) -> Result<(), JoinError> {
        let mut state = self.state();
        state.waves.largest = state.waves.largest.max(wave.iter().map(Fragment::encoded_bytes).sum());
        state.waves.rows += rows_of(&wave);
        state.wave = Some(wave);
        self.changed.notify_all();
        while state.wave.is_some() && !state.closed {
            self.changed.wait(&mut state);
        }
        if state.closed { Err(ended()) } else { Ok(()) }
    }

    /// Waits for the next wave. Returns `None` after the last one, and if the join has failed.
    ///
    /// # Errors
    /// If the rows' source has failed: rows are missing, so this must not look like their end.
    /// [`take_error`](Self::take_error) returns the reason.
    pub(crate) fn next_wave(&self) -> Result<Option<Vec<Fragment>>, JoinError> {
        let mut state = self.state();
        while state.wave.is_none() && !state.ended && !state.closed {
            self.changed.wait(&mut state);
        }
        if state.failed.is_some() {
            return Err(ended());
        }
        let wave = state.wave.take();
        drop(state);
        self.changed.notify_all();
        Ok(wave)
    }

    /// Ends both threads, because the join has failed.
    pub(crate) fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        state.wave = None;
        drop(state);
        self.changed.notify_all();
    }

    /// Returns the error of the rows' source, if that is why the join has failed.
    pub(crate) fn take_error(&self) -> Option<CycloError> {
        self.state().failed.take()
    }

    /// Returns the counts of the waves until now.
    pub(crate) fn waves(&self) -> Waves {
        self.state().waves
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

/// Calls `probe` with `give`. The first error of `give` is the outcome even if `probe` ignores it,
/// and `give` is not called again.
pub(crate) fn offer(
    probe: &RowSource<'_>,
    mut give: impl FnMut(Vec<RecordBatch>) -> Result<(), JoinError>,
) -> Result<(), JoinError> {
    let mut failed = None;
    let given = probe(&mut |batches| {
        if failed.is_none() {
            failed = give(batches).err();
        }
        if failed.is_none() { Ok(()) } else { Err(ended()) }
    });
    failed.map_or(given, Err)
}

fn ended() -> JoinError {
    JoinError::Outside("the join has ended".into())
}

/// Returns the number of rows of fragments.
pub(crate) fn rows_of(fragments: &[Fragment]) -> u64 {
    fragments.iter().map(|fragment| fragment.batch().num_rows() as u64).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The thread that sends may run before the one that reads has stopped the host.
    #[test]
    fn a_source_that_fails_is_no_end_of_its_rows() {
        let (feed, mut next) = (Feed::default(), None);
        let probe = |_: &mut RowSink<'_>| Err(JoinError::Outside("cannot be read".into()));
        feed.run(&probe, |_| Ok(Vec::new()), || next = Some(feed.next_wave().map(drop)));
        assert!(matches!(next, Some(Err(_))), "{next:?}");
        assert_eq!(feed.take_error().unwrap().to_string(), "cannot be read");
    }
}
