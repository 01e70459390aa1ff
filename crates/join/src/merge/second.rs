//! Those rows of a cursor that match a second band.

use std::ops::Range;

use super::{edge::Edges, spans::Spans, words::Word};

/// Finds the rows of the build side that match a second band, among those that match everything
/// else.
pub(super) trait Runs {
    /// Whether all rows match.
    const WHOLE: bool;
    /// The bounds of a row of the fragment.
    type Bounds: Copy;

    /// Returns the bounds that a row of the fragment sets, or `None` if no row matches it.
    fn bounds(&self, row: usize) -> Option<Self::Bounds>;

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
}

impl<W: Word> Runs for IndexedBand<'_, W> {
    const WHOLE: bool = false;
    type Bounds = (W, W);

    #[inline]
    fn bounds(&self, row: usize) -> Option<(W, W)> {
        self.edges.around(self.probe[row], self.probe[row])
    }

    #[inline]
    fn next(&self, bounds: (W, W), rows: Range<u32>) -> Range<u32> {
        let run = self.spans.next_run(self.build, rows.start as usize..rows.end as usize, bounds);
        run.start as u32..run.end as u32
    }
}
