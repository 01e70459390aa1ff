//! Pairs on their way from a join to its sink.

use std::ops::Range;

use crate::{
    error::JoinError,
    sink::{MOST_PAIRS, PairSink},
};

/// Pairs that one step writes, so that a few are written without a loop.
const LANES: usize = 16;

/// Which of the pairs that satisfy a join's own part of the condition its sink needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wanted {
    /// Every one.
    All,
    /// At least one of each row of the probe side that has any.
    OneOfEachProbeRow,
    /// At least one of each row of the build side that has any.
    OneOfEachBuildRow,
}

/// Collects pairs, and hands on [`MOST_PAIRS`] at once.
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

    /// Row `probe` of the fragment with each row of a range of the build side.
    #[inline]
    pub(crate) fn push(&mut self, build: Range<u32>, probe: u32) -> Result<(), JoinError> {
        let mut next = build.start;
        loop {
            let pairs = LANES.min(build.end.saturating_sub(next) as usize).min(MOST_PAIRS - self.len);
            let slots = self.len..self.len + LANES;
            // Even if there is none, as nobody could predict that; what is beyond the pairs is written over by
            // the next ones.
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

    /// Hands on what there is.
    fn flush(&mut self) -> Result<(), JoinError> {
        match std::mem::take(&mut self.len) {
            0 => Ok(()),
            len => {
                self.handed_on += len as u64;
                self.sink.pairs(&self.build[..len], &self.probe[..len])
            }
        }
    }

    /// Hands on what there is, and says how many pairs there were.
    pub(crate) fn finish(mut self) -> Result<u64, JoinError> {
        self.flush()?;
        Ok(self.handed_on)
    }
}
