//! Merging a fragment with the build side.

use std::ops::Range;

use super::{
    BandEdges, MergeBuild, MergeFragment, SecondIndex,
    cursor::{AllRowsCursor, BandCursor, ByteKeys, Cursor, EqualCursor, RowKeys, WordKeys},
    keys::{Column, Keys},
    second::{IndexedBand, NoSecondBand, Runs},
};
use crate::{
    error::JoinError,
    pairs::{PairBuffer, RequiredPairs},
    sink::PairSink,
};

const ANOTHER_JOIN: JoinError = JoinError::Fragment { what: "it was prepared for another join" };

/// The place in a fragment from which [`probe_some`](super::MergeJoin::probe_some) goes on. The
/// default is the first row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MergePosition {
    /// The row of the fragment.
    row: u32,
    /// The first row of the build side that may still make a pair with it.
    next: u32,
    /// The rows of the build side that already have a pair, if one pair is enough.
    done: Range<u32>,
}

impl MergePosition {
    /// Returns the place before a row of the fragment.
    pub fn at_row(row: u32) -> Self {
        Self { row, ..Self::default() }
    }

    /// Returns the first row of the fragment that may still have pairs.
    pub fn row(&self) -> u32 {
        self.row
    }
}

/// The limits of one [`probe_some`](super::MergeJoin::probe_some).
#[derive(Clone, Copy, Debug)]
pub struct ProbeLimits {
    /// The row of the fragment at which the probe ends.
    pub end: u32,
    /// The pairs that the sink needs.
    pub required: RequiredPairs,
    /// The largest number of pairs to find.
    pub most: u64,
}

/// The rows of a fragment to merge with a build side.
pub(super) struct Merge<'a> {
    pub(super) build: &'a MergeBuild,
    pub(super) fragment: &'a MergeFragment,
    /// The bounds of the first and the second band.
    pub(super) edges: [Option<BandEdges>; 2],
    /// The row of the fragment at which the merge ends.
    pub(super) end: u32,
    pub(super) wanted: RequiredPairs,
    /// The largest number of pairs to find.
    pub(super) most: u64,
    pub(super) place: &'a mut MergePosition,
}

impl Merge<'_> {
    pub(super) fn run(self, sink: &mut impl PairSink) -> Result<u64, JoinError> {
        let (rows, at) = (self.build.rows, 0);
        match (&self.build.keys.equal, &self.fragment.keys.equal) {
            (Column::Nothing, Column::Nothing) => self.by_band(AllRowsCursor { rows }, sink),
            (Column::Words(build), Column::Words(probe)) => {
                self.by_band(EqualCursor { keys: WordKeys { build, probe }, rows, at }, sink)
            }
            (Column::Wide(build), Column::Wide(probe)) => {
                self.by_band(EqualCursor { keys: WordKeys { build, probe }, rows, at }, sink)
            }
            (Column::Rows(build), Column::Rows(probe)) => {
                self.by_band(EqualCursor { keys: RowKeys { build, probe }, rows, at }, sink)
            }
            (Column::Rows(build), Column::Bytes(probe)) => {
                self.by_band(EqualCursor { keys: ByteKeys { build, probe }, rows, at }, sink)
            }
            _ => Err(ANOTHER_JOIN),
        }
    }

    fn by_band(self, equal: impl Cursor, sink: &mut impl PairSink) -> Result<u64, JoinError> {
        let at = 0..0;
        let Keys { band, high, .. } = &self.fragment.keys;
        let high = if matches!(high, Column::Nothing) { band } else { high };
        match (&self.build.keys.band, (band, high), self.edges[0]) {
            (Column::Nothing, (Column::Nothing, _), None) => self.by_second(equal, sink),
            (Column::Words(build), (Column::Words(probe), Column::Words(high)), Some(BandEdges::Words(edges))) => {
                self.by_second(BandCursor { equal, build, probe, high, edges, at }, sink)
            }
            (Column::Wide(build), (Column::Wide(probe), Column::Wide(high)), Some(BandEdges::Wide(edges))) => {
                self.by_second(BandCursor { equal, build, probe, high, edges, at }, sink)
            }
            _ => Err(ANOTHER_JOIN),
        }
    }

    fn by_second(self, cursor: impl Cursor, sink: &mut impl PairSink) -> Result<u64, JoinError> {
        let (build, probe) = (&self.build.keys.second, &self.fragment.keys.second);
        match (build, probe, &*self.build.second, self.edges[1]) {
            (Column::Nothing, Column::Nothing, SecondIndex::Nothing, None) => {
                self.by_cursor(cursor, NoSecondBand, sink)
            }
            (Column::Words(build), Column::Words(probe), SecondIndex::Words(spans), Some(BandEdges::Words(edges))) => {
                self.by_cursor(cursor, IndexedBand { build, probe, spans, edges, at: 0..0 }, sink)
            }
            (Column::Wide(build), Column::Wide(probe), SecondIndex::Wide(spans), Some(BandEdges::Wide(edges))) => {
                self.by_cursor(cursor, IndexedBand { build, probe, spans, edges, at: 0..0 }, sink)
            }
            _ => Err(ANOTHER_JOIN),
        }
    }

    fn by_cursor<R: Runs>(
        self,
        mut cursor: impl Cursor,
        mut runs: R,
        sink: &mut impl PairSink,
    ) -> Result<u64, JoinError> {
        let nulls = self.fragment.keys.nulls.as_ref();
        let mut pairs = PairBuffer::new(sink);
        let (place, mut room) = (self.place, self.most);
        while place.row < self.end && room > 0 {
            let (probe, next) = (place.row, std::mem::take(&mut place.next));
            place.row += 1;
            if nulls.is_some_and(|nulls| nulls.is_null(probe as usize)) {
                continue;
            }
            let matches = cursor.matches(probe as usize);
            let mut rest = next.max(matches.start as u32)..matches.end as u32;
            if self.wanted == RequiredPairs::OneOfEachBuildRow && R::WHOLE {
                rest = only_new(rest, &mut place.done);
            }
            let Some(bounds) = runs.bounds(probe as usize) else { continue };
            rest = runs.narrowed(bounds, rest);
            loop {
                let mut run = runs.next(bounds, rest.clone());
                if self.wanted == RequiredPairs::OneOfEachProbeRow {
                    run.end = run.end.min(run.start.saturating_add(1));
                    rest.end = run.end;
                }
                if run.len() as u64 > room {
                    run.end = run.start + room as u32;
                }
                room -= run.len() as u64;
                rest.start = run.end;
                pairs.push(run, probe)?;
                if rest.is_empty() {
                    break;
                }
                if room == 0 {
                    *place = MergePosition { row: probe, next: rest.start, done: place.done.start..rest.start };
                    break;
                }
            }
        }
        pairs.finish()
    }
}

/// Returns those of `rows` that are not in `done`, or a few more, and adds them to `done`.
fn only_new(rows: Range<u32>, done: &mut Range<u32>) -> Range<u32> {
    if !(done.start..=done.end).contains(&rows.start) {
        *done = rows.clone();
        return rows;
    }
    let new = done.end..rows.end;
    done.end = done.end.max(rows.end);
    new
}
