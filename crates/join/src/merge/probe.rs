//! Merging a fragment with the build side.

use std::ops::Range;

use super::{
    BandEdges, MergeBuild, MergeFragment,
    cursor::{Banded, ByteKeys, Cursor, Equal, Everything, RowKeys, WordKeys},
    keys::{Column, Keys},
};
use crate::{
    error::JoinError,
    pairs::{PairBuffer, Wanted},
    sink::PairSink,
};

const ANOTHER_JOIN: JoinError = JoinError::Fragment { what: "it was prepared for another join" };

/// The place in a fragment from which [`probe_some`](super::MergeJoin::probe_some) goes on. The
/// default is the first row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MergePlace {
    /// The row of the fragment.
    row: u32,
    /// The first row of the build side that may still make a pair with it.
    next: u32,
    /// The rows of the build side that already have a pair, if one pair is enough.
    done: Range<u32>,
}

impl MergePlace {
    /// Returns the place before a row of the fragment.
    pub fn at(row: u32) -> Self {
        Self { row, ..Self::default() }
    }

    /// Returns the first row of the fragment that may still have pairs.
    pub fn row(&self) -> u32 {
        self.row
    }
}

/// The rows of a fragment to merge with a build side.
pub(super) struct Merge<'a> {
    pub(super) build: &'a MergeBuild,
    pub(super) fragment: &'a MergeFragment,
    pub(super) edges: Option<BandEdges>,
    /// The row of the fragment at which the merge ends.
    pub(super) end: u32,
    pub(super) wanted: Wanted,
    /// The largest number of pairs to find.
    pub(super) most: u64,
    pub(super) place: &'a mut MergePlace,
}

impl Merge<'_> {
    pub(super) fn run(self, sink: &mut impl PairSink) -> Result<u64, JoinError> {
        let (rows, at) = (self.build.rows, 0);
        match (&self.build.keys.equal, &self.fragment.keys.equal) {
            (Column::Nothing, Column::Nothing) => self.by_band(Everything { rows }, sink),
            (Column::Words(build), Column::Words(probe)) => {
                self.by_band(Equal { keys: WordKeys { build, probe }, rows, at }, sink)
            }
            (Column::Wide(build), Column::Wide(probe)) => {
                self.by_band(Equal { keys: WordKeys { build, probe }, rows, at }, sink)
            }
            (Column::Rows(build), Column::Rows(probe)) => {
                self.by_band(Equal { keys: RowKeys { build, probe }, rows, at }, sink)
            }
            (Column::Rows(build), Column::Bytes(probe)) => {
                self.by_band(Equal { keys: ByteKeys { build, probe }, rows, at }, sink)
            }
            _ => Err(ANOTHER_JOIN),
        }
    }

    fn by_band(self, equal: impl Cursor, sink: &mut impl PairSink) -> Result<u64, JoinError> {
        let at = 0..0;
        let Keys { band, high, .. } = &self.fragment.keys;
        let high = if matches!(high, Column::Nothing) { band } else { high };
        match (&self.build.keys.band, (band, high), self.edges) {
            (Column::Nothing, (Column::Nothing, _), None) => self.by_cursor(equal, sink),
            (Column::Words(build), (Column::Words(probe), Column::Words(high)), Some(BandEdges::Words(edges))) => {
                self.by_cursor(Banded { equal, build, probe, high, edges, at }, sink)
            }
            (Column::Wide(build), (Column::Wide(probe), Column::Wide(high)), Some(BandEdges::Wide(edges))) => {
                self.by_cursor(Banded { equal, build, probe, high, edges, at }, sink)
            }
            _ => Err(ANOTHER_JOIN),
        }
    }

    fn by_cursor(self, mut cursor: impl Cursor, sink: &mut impl PairSink) -> Result<u64, JoinError> {
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
            let mut build = next.max(matches.start as u32)..matches.end as u32;
            match self.wanted {
                Wanted::All => {}
                Wanted::OneOfEachProbeRow => build.end = build.end.min(build.start.saturating_add(1)),
                Wanted::OneOfEachBuildRow => build = only_new(build, &mut place.done),
            }
            if build.len() as u64 > room {
                build.end = build.start + room as u32;
                *place = MergePlace { row: probe, next: build.end, done: place.done.start..build.end };
            }
            room -= build.len() as u64;
            pairs.push(build, probe)?;
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
