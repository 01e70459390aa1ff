//! Software-managed buffers (paper, sections 2.3 and 3.4.2). A thread's tuples wait here until a
//! partition has enough of them to be written out together.

mod fixed;
mod variable;

use std::ops::Range;

use annulus_pages::{
    PagesError,
    page::PayloadSize,
    target::PartitionOf,
    tuples::{Payloads, Tuples},
};
use fixed::{Const, FixedBuffers, RuntimeWidth};
use variable::VariableBuffers;

use super::Job;
use crate::manager::Writer;

/// The buffers of one thread, of equal size, one for each partition. Tuples are stored in them as
/// on a page: keys upwards, data downwards.
pub(super) enum Buffers {
    Fixed(FixedBuffers),
    Variable(VariableBuffers),
}

impl Buffers {
    /// Creates empty buffers for a range of the partitions. Their total size is the share of one of
    /// the job's threads (paper, equation 4.1). Each has room for at least one tuple.
    pub(super) fn new(job: &Job<'_>, range: Range<usize>) -> Self {
        let bytes = job.buffer_bytes / job.threads / range.len().max(1);
        match job.shape.payload() {
            PayloadSize::Fixed(size) => Self::Fixed(FixedBuffers::new(range, bytes, size as usize)),
            PayloadSize::Variable => Self::Variable(VariableBuffers::new(range, bytes, &job.shape)),
        }
    }

    /// Returns the number of tuples for which each buffer has room. For tuples of any size, it is
    /// the largest number.
    pub(super) fn capacity(&self) -> usize {
        match self {
            Self::Fixed(buffers) => buffers.capacity(),
            Self::Variable(buffers) => buffers.capacity(),
        }
    }

    /// Puts the tuples of `rows` into their partitions' buffers, and writes out full buffers. The
    /// target counts partitions from the first of the range.
    ///
    /// # Errors
    /// If page memory runs out or a tuple is larger than a page.
    #[inline]
    pub(super) fn append(
        &mut self,
        tuples: &Tuples<'_>,
        rows: impl Iterator<Item = usize>,
        target: impl PartitionOf,
        writer: &mut impl Writer,
    ) -> Result<(), PagesError> {
        let keys = tuples.keys();
        match (self, tuples.payloads()) {
            (Self::Variable(buffers), _) => buffers.append(tuples, rows, target, writer),
            (Self::Fixed(buffers), Payloads::Fixed { bytes, size }) => match size {
                0 => buffers.append(keys, bytes, Const::<0>, rows, target, writer),
                12 => buffers.append(keys, bytes, Const::<12>, rows, target, writer),
                96 => buffers.append(keys, bytes, Const::<96>, rows, target, writer),
                _ => buffers.append(keys, bytes, RuntimeWidth(size), rows, target, writer),
            },
            (Self::Fixed(_), Payloads::Variable { .. }) => {
                Err(PagesError::Batch { what: "payloads of any size, but its pages are for tuples of one size" })
            }
        }
    }

    /// Writes out all buffers.
    ///
    /// # Errors
    /// If page memory runs out.
    pub(super) fn flush(&mut self, writer: &mut impl Writer) -> Result<(), PagesError> {
        match self {
            Self::Fixed(buffers) => buffers.flush(writer),
            Self::Variable(buffers) => buffers.flush(writer),
        }
    }
}
