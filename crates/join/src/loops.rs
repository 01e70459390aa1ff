//! The block nested-loops join: all pairs of rows, for conditions that only a filter evaluates (the
//! fallback of cyclo-join, section IV.C).

use std::ops::Range;

use crate::{
    error::JoinError,
    pairs::{PairBuffer, Wanted},
    sink::PairSink,
};

/// The number of build rows that are joined with a range of the probe side at a time. The columns
/// of these rows that a filter reads stay in the first-level cache.
const BLOCK_ROWS: u32 = 1024;

/// The build side of a nested-loops join: its number of rows. Nothing else is prepared.
///
/// ```
/// use annulus_join::{JoinError, LoopsBuild, PairSink, Wanted};
///
/// struct Count(usize);
///
/// impl PairSink for Count {
///     fn pairs(&mut self, build: &[u32], _probe: &[u32]) -> Result<(), JoinError> {
///         self.0 += build.len();
///         Ok(())
///     }
/// }
///
/// let mut count = Count(0);
/// LoopsBuild::try_new(3)?.probe(0..5, Wanted::All, &mut count)?;
/// assert_eq!(count.0, 15);
/// # Ok::<(), JoinError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct LoopsBuild {
    rows: u32,
}

impl LoopsBuild {
    /// Returns a build side of `rows` rows.
    ///
    /// # Errors
    /// [`JoinError::TooManyRows`] if rows cannot be numbered with 32 bits.
    pub fn try_new(rows: usize) -> Result<Self, JoinError> {
        Ok(Self { rows: u32::try_from(rows).map_err(|_| JoinError::TooManyRows { rows })? })
    }

    /// Pairs each row of `probe`, a range of a fragment's rows, with each row of the build side,
    /// and gives the wanted pairs to `sink`. Returns their number. O(build rows * probe rows),
    /// with memory for [`MOST_PAIRS`](crate::MOST_PAIRS) pairs.
    ///
    /// # Errors
    /// The first error of the sink.
    pub fn probe(&self, probe: Range<u32>, wanted: Wanted, sink: &mut impl PairSink) -> Result<u64, JoinError> {
        let (mut build, mut probe) = (0..self.rows, probe);
        match wanted {
            Wanted::All => {}
            Wanted::OneOfEachProbeRow => build.end = build.end.min(1),
            Wanted::OneOfEachBuildRow => probe.end = probe.end.min(probe.start.saturating_add(1)),
        }
        let mut pairs = PairBuffer::new(sink);
        for start in build.clone().step_by(BLOCK_ROWS as usize) {
            let block = start..build.end.min(start.saturating_add(BLOCK_ROWS));
            for row in probe.clone() {
                pairs.push(block.clone(), row)?;
            }
        }
        pairs.finish()
    }
}
