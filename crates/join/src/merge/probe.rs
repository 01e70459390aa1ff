//! Merging a fragment with the build side.

use std::ops::Range;

use super::{
    BandEdges, MergeBuild, MergeFragment,
    cursor::{Banded, ByteKeys, Cursor, Equal, Everything, RowKeys, WordKeys},
    keys::Column,
};
use crate::{
    error::JoinError,
    pairs::{PairBuffer, Wanted},
    sink::PairSink,
};

const ANOTHER_JOIN: JoinError = JoinError::Fragment { what: "it was prepared for another join" };

/// The rows of a fragment to merge with a build side.
pub(super) struct Merge<'a> {
    pub(super) build: &'a MergeBuild,
    pub(super) fragment: &'a MergeFragment,
    pub(super) edges: Option<BandEdges>,
    pub(super) rows: Range<u32>,
    pub(super) wanted: Wanted,
}

impl Merge<'_> {
    pub(super) fn run(&self, sink: &mut impl PairSink) -> Result<u64, JoinError> {
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

    fn by_band(&self, equal: impl Cursor, sink: &mut impl PairSink) -> Result<u64, JoinError> {
        let at = 0..0;
        match (&self.build.keys.band, &self.fragment.keys.band, self.edges) {
            (Column::Nothing, Column::Nothing, None) => self.by_cursor(equal, sink),
            (Column::Words(build), Column::Words(probe), Some(BandEdges::Words(edges))) => {
                self.by_cursor(Banded { equal, build, probe, edges, at }, sink)
            }
            (Column::Wide(build), Column::Wide(probe), Some(BandEdges::Wide(edges))) => {
                self.by_cursor(Banded { equal, build, probe, edges, at }, sink)
            }
            _ => Err(ANOTHER_JOIN),
        }
    }

    fn by_cursor(&self, mut cursor: impl Cursor, sink: &mut impl PairSink) -> Result<u64, JoinError> {
        let nulls = self.fragment.keys.nulls.as_ref();
        let mut pairs = PairBuffer::new(sink);
        // The rows of the build side that already have a pair, if one pair is enough.
        let mut done = 0..0;
        for probe in self.rows.clone() {
            if nulls.is_some_and(|nulls| nulls.is_null(probe as usize)) {
                continue;
            }
            let matches = cursor.matches(probe as usize);
            let mut build = matches.start as u32..matches.end as u32;
            match self.wanted {
                Wanted::All => {}
                Wanted::OneOfEachProbeRow => build.end = build.end.min(build.start.saturating_add(1)),
                Wanted::OneOfEachBuildRow => build = only_new(build, &mut done),
            }
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
