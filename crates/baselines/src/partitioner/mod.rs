//! Partitioners: how tuples get to their partition's pages (paper, sections 3.4 to 3.7).
//!
//! Whatever the variant, all pages of a partition but its last are full, and the tuples on each
//! page are contiguous from the first slot on (paper, section 4.2.1). With payloads of any size a
//! page is full when the tuple that its writer placed next did not fit.

mod best_case;
mod buffered;
mod buffers;
mod collaborative;
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
pub use on_demand::OnDemand;
pub use radix::Radix;
pub use ranges::Ranges;

use annulus_pages::{
    error::PagesError,
    memory::PageMemory,
    page::{
        Page, PageShape, PayloadSize,
        write::{Run, Sizes},
    },
    tuples::TupleSource,
};
use annulus_rows::partition::Modulo;

/// What is to be shuffled, and how.
pub struct Job<'a> {
    /// `key % partitions` is a tuple's partition.
    pub partitions: Modulo,
    /// Threads to run; at least one.
    pub threads: usize,
    /// The shape of all pages.
    pub shape: PageShape,
    /// Where they come from; its blocks have the shape's size.
    pub memory: &'a dyn PageMemory,
    /// The tuples.
    pub source: &'a dyn TupleSource,
    /// Software-managed buffers of all threads together, in bytes (paper, equation 4.1).
    pub buffer_bytes: usize,
}

/// What a shuffle leaves.
#[derive(Debug, Default)]
pub struct Shuffled {
    /// The pages of each partition, in order.
    pub partitions: Vec<Vec<Page>>,
}

/// A way to shuffle.
pub trait Partitioner: Sync {
    /// Its name in reports.
    fn name(&self) -> &'static str;

    /// Reads the source to its end on the job's threads and places every tuple.
    ///
    /// # Errors
    /// If page memory runs out, a tuple is larger than a page, or a batch does not have the shape's
    /// payload. The threads have ended then, and all pages are back.
    fn shuffle(&self, job: &Job<'_>) -> Result<Shuffled, PagesError>;
}

/// The paper's variants, with its defaults.
pub fn paper() -> Vec<Box<dyn Partitioner>> {
    vec![
        Box::new(OnDemand),
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

/// The paper's upper bounds (section 4.2.2), which put tuples anywhere.
pub fn best_cases() -> Vec<Box<dyn Partitioner>> {
    vec![Box::new(BestCase), Box::new(BestCaseSynchronised)]
}

/// Refuses a job that cannot be run.
fn check_job(job: &Job<'_>) -> Result<(), PagesError> {
    if job.threads == 0 {
        return Err(PagesError::Option { option: "threads", value: 0, reason: "it takes at least one" });
    }
    let page_bytes = job.memory.page_bytes();
    if page_bytes != job.shape.page_bytes() {
        let reason = "the memory's blocks must be as large as the pages";
        return Err(PagesError::Option { option: "page_bytes", value: page_bytes, reason });
    }
    Ok(())
}

/// Refuses a payload that no page has room for.
#[inline]
pub(crate) fn check_size(payload: &[u8], shape: &PageShape) -> Result<(), PagesError> {
    let (payload_bytes, most) = (payload.len(), shape.most_payload());
    if payload_bytes <= most { Ok(()) } else { Err(PagesError::TupleTooLarge { payload_bytes, most }) }
}

/// Hands a tuple to `take`.
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
