//! Rows of the probe side that are read while the ring turns, and become fragments on a thread of their own.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        atomic::{AtomicUsize, Ordering::Relaxed},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    time::{Duration, Instant},
};

use annulus_join::{error::JoinError, hash::Fragment};
use arrow::array::RecordBatch;

use crate::CycloError;

/// Takes rows of the probe side; an error says that no more are wanted.
pub type Give<'a> = dyn FnMut(Vec<RecordBatch>) -> Result<(), JoinError> + 'a;

/// Gives this host's rows of the probe side, some at a time, the same in the same order for every revolution.
pub type Probe<'a> = dyn Fn(&mut Give<'_>) -> Result<(), JoinError> + Sync + 'a;

/// Fragments that wait to be sent, at most; those of the rows that are being prepared come besides.
const MOST_WAITING: usize = 32;

type Fed = Result<Option<Fragment>, CycloError>;

/// Where rows become fragments.
pub(crate) struct Feeder<'a> {
    /// Of the rows that were prepared together, the most bytes as they are sent.
    pub(crate) largest: &'a AtomicUsize,
    fragments: SyncSender<Fed>,
}

/// Where fragments come out, in the order of their rows.
pub(crate) struct Feed {
    fragments: Option<Receiver<Fed>>,
    /// How long the taker has waited.
    pub(crate) waited: Duration,
}

/// Both ends.
pub(crate) fn feed(largest: &AtomicUsize) -> (Feeder<'_>, Feed) {
    let (sender, receiver) = sync_channel(MOST_WAITING);
    (Feeder { largest, fragments: sender }, Feed { fragments: Some(receiver), waited: Duration::ZERO })
}

impl Feeder<'_> {
    /// Takes all that `probe` gives, and `prepare` makes fragments of, until they are not wanted any more.
    pub(crate) fn run(self, probe: &Probe<'_>, prepare: impl Fn(Vec<RecordBatch>) -> Result<Vec<Fragment>, JoinError>) {
        let mut give = |batches| {
            let fragments = prepare(batches)?;
            self.largest.fetch_max(fragments.iter().map(Fragment::encoded_bytes).sum(), Relaxed);
            let all_sent = fragments.into_iter().all(|fragment| self.fragments.send(Ok(Some(fragment))).is_ok());
            if all_sent { Ok(()) } else { Err(JoinError::Outside("the join has ended".into())) }
        };
        let given = catch_unwind(AssertUnwindSafe(|| probe(&mut give)));
        let end = given.map_or(Err(CycloError::Panicked), |given| given.map(|()| None).map_err(CycloError::from));
        // Nobody waits for it if the join has failed.
        self.fragments.send(end).ok();
    }
}

impl Feed {
    /// Nothing comes.
    pub(crate) fn empty() -> Self {
        Self { fragments: None, waited: Duration::ZERO }
    }

    /// The next fragment, which it waits for, or none after the last one.
    pub(crate) fn next(&mut self) -> Result<Option<Fragment>, CycloError> {
        let Some(fragments) = &self.fragments else { return Ok(None) };
        let start = Instant::now();
        let next = fragments.recv().unwrap_or(Err(CycloError::Panicked));
        self.waited += start.elapsed();
        if !matches!(next, Ok(Some(_))) {
            self.fragments = None;
        }
        next
    }
}
