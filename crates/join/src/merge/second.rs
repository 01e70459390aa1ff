//! Those rows of a cursor that match a second band.

use std::ops::Range;

use super::{
    cursor::{NUMBERS, advance},
    edge::Edges,
    spans::{FAN_OUT, Spans},
    words::Word,
};

/// Finds the rows of the build side that match a second band, among those that match everything
/// else.
pub(super) trait Runs {
    /// Whether all rows match.
    const WHOLE: bool;
    /// The bounds of a row of the fragment.
    type Bounds: Copy;

    /// Returns the bounds that a row of the fragment sets, or `None` if no row matches it.
    fn bounds(&self, row: usize) -> Option<Self::Bounds>;

    /// Returns `rows` of the build side without many at either end that are outside of the bounds. While
    /// the fragment is sorted, that takes a few steps.
    fn narrowed(&mut self, bounds: Self::Bounds, rows: Range<u32>) -> Range<u32>;

    /// Returns the first rows of the build side within the bounds, which follow each other, among
    /// `rows`. They are empty, at the end of `rows`, if there are none.
    fn next(&self, bounds: Self::Bounds, rows: Range<u32>) -> Range<u32>;
}

/// No second band.
pub(super) struct NoSecondBand;

impl Runs for NoSecondBand {
    const WHOLE: bool = true;
    type Bounds = ();

    #[inline]
    fn bounds(&self, _row: usize) -> Option<()> {
        Some(())
    }

    #[inline]
    fn narrowed(&mut self, (): (), rows: Range<u32>) -> Range<u32> {
        rows
    }

    #[inline]
    fn next(&self, (): (), rows: Range<u32>) -> Range<u32> {
        rows
    }
}

/// A second band, of keys that have an index.
pub(super) struct IndexedBand<'a, W> {
    pub(super) build: &'a [W],
    pub(super) probe: &'a [W],
    pub(super) spans: &'a Spans<W>,
    pub(super) edges: Edges<W>,
    /// The spans that the last row of the fragment was narrowed to.
    pub(super) at: Range<usize>,
}

impl<W: Word> Runs for IndexedBand<'_, W> {
    const WHOLE: bool = false;
    type Bounds = (W, W);

    #[inline]
    fn bounds(&self, row: usize) -> Option<(W, W)> {
        self.edges.around(self.probe[row], self.probe[row])
    }

    #[inline]
    fn narrowed(&mut self, (low, high): (W, W), rows: Range<u32>) -> Range<u32> {
        let (most, least) = self.spans.running();
        let all = 0..most.len();
        let start = advance(NUMBERS, self.at.start, all.clone(), |span| most[span] < low);
        let end = advance(NUMBERS, self.at.end, all, |span| least[span] <= high);
        self.at = start..end;
        let row = |span: usize| (span * FAN_OUT).min(rows.end as usize) as u32;
        let start = rows.start.max(row(start));
        start..row(end).max(start)
    }

    #[inline]
    fn next(&self, bounds: (W, W), rows: Range<u32>) -> Range<u32> {
        let run = self.spans.next_run(self.build, rows.start as usize..rows.end as usize, bounds);
        run.start as u32..run.end as u32
    }
}
