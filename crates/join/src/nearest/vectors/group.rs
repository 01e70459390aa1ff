//! Some left rows, packed for products with all tiles of a right block.

use std::ops::Range;

use super::{
    block::{VectorBlock, is_zero},
    exact::squares,
    margin::{LeftScale, Margins},
    metric::VectorMetric,
    product::{LEFT_LANES, Panels, RIGHT_LANES, multiply},
    tile::{RightTile, packed_length},
};

/// The bytes of a group, which fit in a core's share of the third-level cache.
const GROUP_BYTES: usize = 3 << 19;

/// The panels that are multiplied with a tile at once, so that they stay in the second-level cache.
pub(super) const PANELS_AT_ONCE: usize = 16;

/// Left rows for products.
#[derive(Default)]
pub(super) struct LeftGroup {
    panels: Panels<LEFT_LANES>,
    /// The rows in the panels.
    pub(super) members: Vec<Member>,
    /// The rows that are always evaluated exactly.
    pub(super) special: Vec<usize>,
    row_values: Vec<f64>,
}

/// A left row in a group.
pub(super) struct Member {
    pub(super) row: usize,
    pub(super) scale: LeftScale,
}

/// Returns the largest number of rows in a group of vectors with some length.
pub(super) fn group_rows(length: usize, most: usize) -> usize {
    let at_once = PANELS_AT_ONCE * LEFT_LANES;
    (GROUP_BYTES / 4 / length.max(1)).clamp(at_once, most.max(at_once)) / at_once * at_once
}

impl LeftGroup {
    /// Packs the left rows in a range that have results.
    pub(super) fn pack(
        &mut self,
        left: &VectorBlock,
        rows: Range<usize>,
        right: &VectorBlock,
        margins: &Margins,
        length: usize,
    ) {
        self.members.clear();
        self.special.clear();
        self.panels.reset(rows.len(), packed_length(left.metric, length));
        for row in rows {
            if !left.is_candidate(row) {
                continue;
            }
            left.elements.widen_row(row, &mut self.row_values);
            let is_euclidean = left.metric == VectorMetric::Euclidean;
            let sum = if is_euclidean { squares(&self.row_values, &right.centre) } else { left.squares[row] };
            let is_zero = sum == 0.0 && is_zero(&self.row_values, &right.centre);
            if !VectorBlock::is_plain(sum, is_zero, length) {
                self.special.push(row);
                continue;
            }
            let (scale, packed) = (margins.left_scale(sum), self.members.len());
            if is_euclidean {
                let elements = self.row_values.iter().zip(&right.centre);
                self.panels.put(packed, elements.map(|(value, centre)| ((value - centre) * scale.scale) as f32));
                self.panels.put_last(packed, scale.right_terms as f32);
            } else {
                self.panels.put(packed, self.row_values.iter().map(|value| (value * scale.scale) as f32));
            }
            self.members.push(Member { row, scale });
        }
    }

    /// Computes the scores of the members from some place on, as many as are multiplied at once, with a
    /// tile. Returns the places of these members, and the number of scores of each.
    pub(super) fn multiply(&self, first: usize, tile: &RightTile, scores: &mut Vec<f32>) -> (Range<usize>, usize) {
        let members = first..self.members.len().min(first + PANELS_AT_ONCE * LEFT_LANES);
        let panels = first / LEFT_LANES..members.end.div_ceil(LEFT_LANES);
        multiply(&self.panels, panels, &tile.panels, scores);
        debug_assert!(tile.panels.rows().is_multiple_of(RIGHT_LANES));
        (members, tile.panels.rows())
    }
}
