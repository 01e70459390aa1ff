//! Rows of the probe side that are read while the ring turns, and become fragments on a thread of their own.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        atomic::{AtomicUsize, Ordering::Relaxed},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    time::{Duration, Instant},
    vec,
};

use annulus_join::{error::JoinError, hash::Fragment};
use arrow::array::RecordBatch;

use crate::CycloError;

/// Takes rows of the probe side; an error says that no more are wanted.
pub type Give<'a> = dyn FnMut(Vec<RecordBatch>) -> Result<(), JoinError> + 'a;

/// Gives this host's rows of the probe side, some at a time, the same in the same order for every revolution. A join that fails
/// waits until this ends, which it does when it next gives something.
pub type Probe<'a> = dyn Fn(&mut Give<'_>) -> Result<(), JoinError> + Sync + 'a;

/// Fragments that were prepared together, or the end.
type Fed = Result<Option<Vec<Fragment>>, CycloError>;

/// Where rows become fragments.
pub(crate) struct Feeder<'a> {
    /// Of the rows that were prepared together, the most bytes as they are sent.
    pub(crate) largest: &'a AtomicUsize,
    fed: SyncSender<Fed>,
}

/// Where fragments come out, in the order of their rows.
pub(crate) struct Feed {
    fed: Option<Receiver<Fed>>,
    fragments: vec::IntoIter<Fragment>,
    /// How long the taker has waited.
    pub(crate) waited: Duration,
}

/// Both ends. Fragments are handed over when those before are gone, so that there are no more than two waves of them.
pub(crate) fn feed(largest: &AtomicUsize) -> (Feeder<'_>, Feed) {
    let (sender, receiver) = sync_channel(0);
    (Feeder { largest, fed: sender }, Feed { fed: Some(receiver), ..Feed::empty() })
}

impl Feeder<'_> {
    /// Takes all that `probe` gives, and `prepare` makes fragments of, until they are not wanted any more.
    pub(crate) fn run(self, probe: &Probe<'_>, prepare: impl Fn(Vec<RecordBatch>) -> Result<Vec<Fragment>, JoinError>) {
        let mut give = |batches| {
            let fragments = prepare(batches)?;
            self.largest.fetch_max(fragments.iter().map(Fragment::encoded_bytes).sum(), Relaxed);
            self.fed.send(Ok(Some(fragments))).map_err(|_| JoinError::Outside("the join has ended".into()))
        };
        let given = catch_unwind(AssertUnwindSafe(|| probe(&mut give)));
        let end = given.map_or(Err(CycloError::Panicked), |given| given.map(|()| None).map_err(CycloError::from));
        // Nobody waits for it if the join has failed.
        self.fed.send(end).ok();
    }
}

impl Feed {
    /// Nothing comes.
    pub(crate) fn empty() -> Self {
        Self { fed: None, fragments: Vec::new().into_iter(), waited: Duration::ZERO }
    }

    /// The next fragment, which it waits for, or none after the last one.
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
