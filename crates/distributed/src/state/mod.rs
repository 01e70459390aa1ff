//! The state of a worker, which lasts longer than a query.
//!
//! ```text
//! queries.rs   the queries that run, and totals.rs, their counters
//! meeting.rs   the tasks of joins around a ring that wait for each other
//! resident.rs  the shares of resident tables
//! results.rs   the parts of datasets that are not complete yet
//! expiry.rs    drops what a coordinator has left behind
//! access.rs    what a task reaches of all this
//! ```

mod access;
mod expiry;
mod meeting;
mod queries;
mod resident;
mod results;
mod totals;

use annulus_roundabout::BufferCache;

pub(crate) use access::TaskAccess;
pub(crate) use meeting::{LocalAddress, Meetings, Registration, RingAgreement, RingHost};
pub(crate) use queries::{QueryActivity, QueryHandle, QueryTask, Refusal, TaskPlan, WorkerActivity, WorkerQueries};
pub(crate) use resident::{Purpose, ResidentStore, Share, ShareInfo, SharePart, ShareRows, TableInfo};
pub(crate) use results::{PublishedPart, ResultStore, Target, Writer, blocking};
pub(crate) use totals::{Totals, counters_of};

/// The state of a worker. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct WorkerState {
    pub(crate) queries: WorkerQueries,
    pub(crate) meetings: Meetings,
    pub(crate) resident: ResidentStore,
    pub(crate) results: ResultStore,
    /// The buffers of rings, which outlive them.
    pub(crate) buffers: BufferCache,
}

impl WorkerState {
    /// Returns the state of a worker that runs at most this many queries at a time, and lends `buffers` to
    /// rings.
    pub(crate) fn new(most_queries: usize, buffers: BufferCache) -> Self {
        Self {
            queries: WorkerQueries::new(most_queries),
            meetings: Meetings::default(),
            resident: ResidentStore::default(),
            results: ResultStore::default(),
            buffers,
        }
    }
}
