//! Finding the pairs of a fragment of the probe side.

use super::{TextBuild, TextFragment, Texts, scratch::Scratch};
use crate::{
    error::JoinError,
    pace::Pace,
    pairs::{PairBuffer, RequiredPairs},
    sides::Side,
    sink::PairSink,
};

/// The work after which a probe returns, in steps of about a nanosecond.
const MOST_WORK: u64 = 1 << 24;

/// The position in a fragment from which [`probe_some`](super::TextJoin::probe_some) goes on. The
/// default is the first distinct text. It also has memory that the search uses again.
#[derive(Clone, Debug, Default)]
pub struct TextPosition {
    /// The distinct text of the fragment.
    text: u32,
    is_searched: bool,
    is_end: bool,
    /// The distinct texts of the build side that match it.
    matches: Vec<u32>,
    /// The next match, and the next row of either side with these texts.
    next: usize,
    probe_row: usize,
    build_row: usize,
    scratch: Scratch,
    statistics: TextStatistics,
}

/// Counters of a search for pairs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TextStatistics {
    /// The distinct texts of the probe side whose matches were searched.
    pub texts: u64,
    /// The pairs of distinct texts that were compared.
    pub comparisons: u64,
    /// The pairs of distinct texts that are alike.
    pub matches: u64,
}

impl TextPosition {
    /// Returns whether all pairs have been found.
    pub fn is_end(&self) -> bool {
        self.is_end
    }

    /// Returns what the search has done until here.
    pub fn statistics(&self) -> TextStatistics {
        self.statistics
    }

    fn advance(&mut self) {
        self.text += 1;
        self.is_searched = false;
        self.matches.clear();
        (self.next, self.probe_row, self.build_row) = (0, 0, 0);
    }
}

/// A search for pairs.
pub(super) struct Probe<'a> {
    pub(super) build: &'a TextBuild,
    pub(super) fragment: &'a TextFragment,
    pub(super) required: RequiredPairs,
    /// The largest number of pairs to find.
    pub(super) most: u64,
}

impl Probe<'_> {
    pub(super) fn run(self, position: &mut TextPosition, sink: &mut impl PairSink) -> Result<u64, JoinError> {
        sink.check()?;
        let mut pairs = PairBuffer::new(sink);
        let (mut room, mut work) = (self.most, 0);
        while position.text < self.fragment.entries.len() && room > 0 && work < MOST_WORK {
            if !position.is_searched {
                work += self.search(position, pairs.sink())?;
                position.is_searched = true;
            }
            if self.emit(position, &mut room, &mut pairs)? {
                position.advance();
            }
        }
        position.is_end = position.text >= self.fragment.entries.len();
        pairs.finish()
    }

    /// Finds the matches of the position's text, and returns the work.
    fn search(&self, position: &mut TextPosition, sink: &impl PairSink) -> Result<u64, JoinError> {
        let (entries, rows) = (&self.fragment.entries, self.fragment.entries.rows(position.text));
        let Some(text) = rows.first().and_then(|&row| self.fragment.column.text(row)) else { return Ok(0) };
        let is_needed = |side, rows: &[u32]| !rows.iter().all(|&row| sink.is_done(side, row));
        if !is_needed(Side::Right, rows) {
            return Ok(rows.len() as u64);
        }
        let key = entries.key(entries.group_of(position.text));
        let mut check = || sink.check();
        let (mut pace, scratch) = (Pace::new(&mut check), &mut position.scratch);
        let (texts, build) = (&self.build.texts, &self.build.entries);
        match texts {
            Texts::Edit(texts) => texts.find(build, (text, key), scratch, &mut pace)?,
            Texts::Sets(texts) => texts.find(build, (text, key), scratch, &mut pace)?,
        }
        let candidates = std::mem::take(&mut scratch.candidates);
        position.statistics.texts += 1;
        for &entry in &candidates {
            if self.required == RequiredPairs::OneOfEachBuildRow && !is_needed(Side::Left, build.rows(entry)) {
                continue;
            }
            position.statistics.comparisons += 1;
            let (is_match, work) = match texts {
                Texts::Edit(texts) => (texts.is_match(entry, scratch), texts.comparison_work(entry, scratch)),
                Texts::Sets(texts) => (texts.is_match(entry, scratch), texts.comparison_work(entry, scratch)),
            };
            pace.spend(work)?;
            if is_match {
                position.matches.push(entry);
                if self.required == RequiredPairs::OneOfEachProbeRow {
                    break;
                }
            }
        }
        position.statistics.matches += position.matches.len() as u64;
        scratch.candidates = candidates;
        Ok(pace.total() + 64)
    }

    /// Passes pairs of the position's text on, and returns whether these were the last.
    fn emit<S: PairSink>(
        &self,
        position: &mut TextPosition,
        room: &mut u64,
        pairs: &mut PairBuffer<'_, S>,
    ) -> Result<bool, JoinError> {
        let mut probe = self.fragment.entries.rows(position.text);
        if self.required == RequiredPairs::OneOfEachBuildRow {
            probe = &probe[..1];
        }
        while let Some(&entry) = position.matches.get(position.next) {
            let mut build = self.build.entries.rows(entry);
            if self.required == RequiredPairs::OneOfEachProbeRow {
                build = &build[..build.len().min(1)];
            }
            while let Some(&probe_row) = probe.get(position.probe_row) {
                let rest = build.get(position.build_row..).unwrap_or_default();
                let some = &rest[..rest.len().min(usize::try_from(*room).unwrap_or(usize::MAX))];
                for &row in some {
                    pairs.push(row..row + 1, probe_row)?;
                }
                *room -= some.len() as u64;
                if some.len() < rest.len() {
                    position.build_row += some.len();
                    return Ok(false);
                }
                position.build_row = 0;
                position.probe_row += 1;
            }
            position.probe_row = 0;
            position.next += 1;
        }
        Ok(true)
    }
}
