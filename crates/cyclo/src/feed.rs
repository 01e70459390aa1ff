//! Probe rows that are read while the ring turns, and converted to fragments on their own thread.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        atomic::{AtomicUsize, Ordering::Relaxed},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    time::{Duration, Instant},
    vec,
};

use annulus_join::{Fragment, JoinError};
use arrow::array::RecordBatch;

use crate::CycloError;

/// A callback that accepts rows of the probe side. Its error means that no more rows are needed,
/// and should be returned.
pub type Give<'a> = dyn FnMut(Vec<RecordBatch>) -> Result<(), JoinError> + 'a;

/// A callback that passes this host's rows of the probe side to [`Give`], some at a time. It must
/// pass the same rows in the same order in every revolution. A failed join waits until it returns,
/// so it should return on the first error of `Give`.
pub type Probe<'a> = dyn Fn(&mut Give<'_>) -> Result<(), JoinError> + Sync + 'a;

/// Fragments that were prepared together, or `None` at the end.
type Fed = Result<Option<Vec<Fragment>>, CycloError>;

/// The sending end: converts rows to fragments.
pub(crate) struct Feeder<'a> {
    /// The largest size of fragments that were prepared together, in bytes as sent.
    pub(crate) largest: &'a AtomicUsize,
    fed: SyncSender<Fed>,
}

/// The receiving end: returns fragments in the order of their rows.
pub(crate) struct Feed {
    fed: Option<Receiver<Fed>>,
    fragments: vec::IntoIter<Fragment>,
    /// The time spent waiting for fragments.
    pub(crate) waited: Duration,
}

/// Returns both ends. A wave of fragments is handed over only when the previous wave is used up, so
/// at most two waves exist.
pub(crate) fn feed(largest: &AtomicUsize) -> (Feeder<'_>, Feed) {
    let (sender, receiver) = sync_channel(0);
    (Feeder { largest, fed: sender }, Feed { fed: Some(receiver), ..Feed::empty() })
}

impl Feeder<'_> {
    /// Runs `probe`, and converts its rows with `prepare`, until they are not needed any more.
    pub(crate) fn run(self, probe: &Probe<'_>, prepare: impl Fn(Vec<RecordBatch>) -> Result<Vec<Fragment>, JoinError>) {
        let mut give = |batches| {
            let fragments = prepare(batches)?;
            self.largest.fetch_max(fragments.iter().map(Fragment::encoded_bytes).sum(), Relaxed);
            self.fed.send(Ok(Some(fragments))).map_err(|_| JoinError::Outside("the join has ended".into()))
        };
        let given = catch_unwind(AssertUnwindSafe(|| probe(&mut give)));
        let end = given.map_or(Err(CycloError::Panicked), |given| given.map(|()| None).map_err(CycloError::from));
        // Fails only if the join has failed, and then nothing waits for it.
        self.fed.send(end).ok();
    }
}

impl Feed {
    /// Returns a feed without fragments.
    pub(crate) fn empty() -> Self {
        Self { fed: None, fragments: Vec::new().into_iter(), waited: Duration::ZERO }
    }

    /// Waits for the next fragment. Returns `None` after the last one.
    pub(crate) fn next(&mut self) -> Result<Option<Fragment>, CycloError> {
        loop {
            if let Some(fragment) = self.fragments.next() {
                return Ok(Some(fragment));
            }
            let Some(fed) = &self.fed else { return Ok(None) };
            let start = Instant::now();
            let next = fed.recv().unwrap_or(Err(CycloError::Panicked));
            self.waited += start.elapsed();
            match next {
                Ok(Some(fragments)) => self.fragments = fragments.into_iter(),
                end => {
                    self.fed = None;
                    return end.map(|_| None);
                }
            }
        }
    }
}
