//! The block nested-loops join: every pair, for conditions that only a filter understands (the
//! fallback of cyclo-join, section IV.C).

use std::ops::Range;

use crate::{
    error::JoinError,
    pairs::{PairBuffer, Wanted},
    sink::PairSink,
};

/// Rows of the build side that meet a range of the probe side before the next ones do: few enough
/// that the columns which a condition looks at stay in the first-level cache.
const BLOCK_ROWS: u32 = 1024;

/// A build side of so many rows; there is nothing else to prepare.
#[derive(Clone, Copy, Debug)]
pub struct LoopsBuild {
    rows: u32,
}

impl LoopsBuild {
    /// For a build side of `rows` rows.
    ///
    /// # Errors
    /// [`JoinError::TooManyRows`] if rows cannot be numbered with 32 bits.
    pub fn try_new(rows: usize) -> Result<Self, JoinError> {
        Ok(Self { rows: u32::try_from(rows).map_err(|_| JoinError::TooManyRows { rows })? })
    }

    /// Gives each row of `probe`, a range of a fragment's rows, with each row of the build side to
    /// `sink`, or as many pairs as are wanted, and says how many. O(build rows * probe rows),
    /// without memory but for [`MOST_PAIRS`](crate::sink::MOST_PAIRS) pairs.
    ///
    /// # Errors
    /// The first one of the sink.
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
