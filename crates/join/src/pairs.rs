//! The buffer of pairs between a join and its sink.

use std::ops::Range;

use crate::{
    error::JoinError,
    sink::{MOST_PAIRS, PairSink},
};

/// The number of pairs that one step writes, so that a few are written without a loop.
const LANES: usize = 16;

/// The pairs that a sink needs, among those that satisfy the join's own part of the condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RequiredPairs {
    /// All pairs.
    All,
    /// At least one pair of each row of the probe side that has a pair.
    OneOfEachProbeRow,
    /// At least one pair of each row of the build side that has a pair.
    OneOfEachBuildRow,
}

/// Collects pairs, and hands them on [`MOST_PAIRS`] at a time.
pub(crate) struct PairBuffer<'a, S> {
    build: Box<[u32]>,
    probe: Box<[u32]>,
    len: usize,
    handed_on: u64,
    sink: &'a mut S,
}

impl<'a, S: PairSink> PairBuffer<'a, S> {
    pub(crate) fn new(sink: &'a mut S) -> Self {
        let slots = || vec![0; MOST_PAIRS + LANES].into_boxed_slice();
        Self { build: slots(), probe: slots(), len: 0, handed_on: 0, sink }
    }

    /// Adds row `probe` of the fragment, paired with each row of a range of the build side.
    #[inline]
    pub(crate) fn push(&mut self, build: Range<u32>, probe: u32) -> Result<(), JoinError> {
        let mut next = build.start;
        loop {
            let pairs = LANES.min(build.end.saturating_sub(next) as usize).min(MOST_PAIRS - self.len);
            let slots = self.len..self.len + LANES;
            // Copies even without a pair: a branch would be mispredicted. Slots after the pairs are
            // overwritten by the next ones.
            self.build[slots.clone()]
                .copy_from_slice(&std::array::from_fn::<u32, LANES, _>(|i| next.wrapping_add(i as u32)));
            self.probe[slots].copy_from_slice(&[probe; LANES]);
            self.len += pairs;
            next += pairs as u32;
            if self.len == MOST_PAIRS {
                self.flush()?;
            }
            if next >= build.end {
                return Ok(());
            }
        }
    }

    /// Returns the sink, which may not have got the last pairs yet.
    pub(crate) fn sink(&self) -> &S {
        self.sink
    }

    /// Hands on the pairs in the buffer.
    fn flush(&mut self) -> Result<(), JoinError> {
        match std::mem::take(&mut self.len) {
            0 => Ok(()),
            len => {
                self.handed_on += len as u64;
                self.sink.pairs(&self.build[..len], &self.probe[..len])
            }
        }
    }

    /// Hands on the pairs in the buffer, and returns the number of all pairs.
    pub(crate) fn finish(mut self) -> Result<u64, JoinError> {
        self.flush()?;
        Ok(self.handed_on)
    }
}
