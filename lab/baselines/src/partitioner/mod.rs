//! The partitioners, which bring tuples to their partitions' pages (paper, sections 3.4 to 3.7).
//!
//! All variants except the upper bounds fill all pages of a partition but its last. The tuples on
//! each page are contiguous from the first slot on (paper, section 4.2.1). With payloads of any
//! size, a page is full if the tuple that its writer placed next did not fit.

mod best_case;
mod buffered;
mod buffers;
mod collaborative;
mod collected;
mod crew;
mod hybrid;
mod local;
mod on_demand;
mod radix;
mod ranges;

pub use best_case::{BestCase, BestCaseSynchronised};
pub use buffered::{Smb, SmbBatched, SmbLockFree, SmbLockFreeBatched};
pub use collaborative::{CmpExclusivePartitionRanges, CmpProcessingUnits};
pub use hybrid::Hybrid;
pub use local::LocalPagesAndMerge;
pub use on_demand::{OnDemand, OnDemandLocalPages, OnDemandLockFree};
pub use radix::Radix;
pub use ranges::Ranges;

use annulus_pages::{
    PagesError,
    memory::PageMemory,
    page::{
        Page, PageShape, PayloadSize,
        write::{Run, Sizes},
    },
    partition::PageSink,
};
use annulus_rows::partition::Modulo;

use self::collected::CollectedPages;
use crate::{
    manager::{check_size, outlet::Outlet},
    source::TupleSource,
};

/// The input and the settings of a partitioner.
pub struct Job<'a> {
    /// The number of partitions. A tuple's partition is `key % partitions`.
    pub partitions: Modulo,
    /// The number of threads, at least one.
    pub threads: usize,
    /// The shape of all pages.
    pub shape: PageShape,
    /// The source of pages. Its blocks have the shape's size.
    pub memory: &'a dyn PageMemory,
    /// The source of tuples.
    pub source: &'a dyn TupleSource,
    /// The bytes of the software-managed buffers of all threads together (paper, equation 4.1).
    pub buffer_bytes: usize,
}

/// The pages of all partitions.
#[derive(Debug, Default)]
pub struct PartitionedPages {
    /// The pages of each partition, in order.
    pub partitions: Vec<Vec<Page>>,
}

/// An algorithm that partitions tuples onto pages.
pub trait Partitioner: Sync {
    /// Returns its name in reports.
    fn name(&self) -> &'static str;

    /// Reads the source to its end on the job's threads and places every tuple. Each page goes to
    /// `sink` when it is full and written, while others fill; those that are not full follow at
    /// the end.
    ///
    /// # Errors
    /// If page memory runs out, a tuple is larger than a page, or a batch does not have the shape's
    /// payload size. The threads have ended then, and all pages are given back.
    fn place(&self, job: &Job<'_>, sink: &dyn PageSink) -> Result<(), PagesError>;

    /// Returns whether pages reach the sink while the source is read, so that memory is bounded
    /// however many tuples come.
    ///
    /// # Errors
    /// The reason why they do not.
    fn streams(&self) -> Result<(), &'static str> {
        Ok(())
    }

    /// Does the same as [`place`](Self::place), and keeps all pages.
    ///
    /// # Errors
    /// Those of [`place`](Self::place).
    fn partition(&self, job: &Job<'_>) -> Result<PartitionedPages, PagesError> {
        let pages = CollectedPages::new(job.partitions.consumers());
        self.place(job, &pages)?;
        Ok(PartitionedPages { partitions: pages.into_pages() })
    }
}

impl Job<'_> {
    /// Returns the way out for pages of this job's shape.
    fn outlet<'s>(&self, sink: &'s dyn PageSink) -> Outlet<'s> {
        Outlet::new(self.shape, self.partitions.consumers(), sink)
    }
}

/// Returns the paper's variants, with its defaults.
pub fn paper() -> Vec<Box<dyn Partitioner>> {
    vec![
        Box::new(OnDemand),
        Box::new(OnDemandLockFree),
        Box::new(OnDemandLocalPages),
        Box::new(Smb),
        Box::new(SmbBatched),
        Box::new(SmbLockFree),
        Box::new(SmbLockFreeBatched),
        Box::new(Radix::default()),
        Box::new(Hybrid),
        Box::new(CmpExclusivePartitionRanges),
        Box::new(CmpProcessingUnits),
        Box::new(LocalPagesAndMerge),
    ]
}

/// Returns the paper's upper bounds (section 4.2.2), which put tuples into any partition.
pub fn best_cases() -> Vec<Box<dyn Partitioner>> {
    vec![Box::new(BestCase), Box::new(BestCaseSynchronised)]
}

/// Checks that a job can be run.
fn check_job(job: &Job<'_>) -> Result<(), PagesError> {
    if job.threads == 0 {
        return Err(PagesError::Option { option: "threads", value: 0, reason: "choose at least 1" });
    }
    let page_bytes = job.memory.page_bytes();
    if page_bytes != job.shape.page_bytes() {
        let reason = "the memory must return blocks of the size of pages";
        return Err(PagesError::Option { option: "page_bytes", value: page_bytes, reason });
    }
    Ok(())
}

/// Passes a tuple to `take` as a run.
#[inline(always)]
fn one_tuple(
    key: u32,
    payload: &[u8],
    shape: &PageShape,
    take: impl FnOnce(Run<'_>) -> Result<(), PagesError>,
) -> Result<(), PagesError> {
    match shape.payload() {
        PayloadSize::Fixed(_) => take(Run::new(&[key], Sizes::fixed(payload.len()), payload)),
        PayloadSize::Variable => {
            check_size(payload, shape)?;
            take(Run::new(&[key], Sizes::each(&[payload.len() as u32]), payload))
        }
    }
}
