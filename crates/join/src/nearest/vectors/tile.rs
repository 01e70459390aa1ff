//! A few right rows, packed for products.

use std::ops::Range;

use super::{
    block::VectorBlock,
    elements::{Element, with_values},
    margin::{Margins, Norms},
    metric::VectorMetric,
    product::{Panels, RIGHT_LANES},
};

/// The bytes of a tile, which fit in the second-level cache with the scores.
const TILE_BYTES: usize = 400 << 10;

/// The largest number of rows of a tile.
const MOST_TILE_ROWS: usize = 256;

/// Some plain rows of a block.
#[derive(Default)]
pub(super) struct RightTile {
    pub(super) panels: Panels<RIGHT_LANES>,
    /// The places of the rows among the plain ones.
    pub(super) places: Range<usize>,
    norms: Option<Norms>,
}

/// Returns the number of elements of packed rows: Euclidean scores have an addend.
pub(super) fn packed_length(metric: VectorMetric, length: usize) -> usize {
    length + usize::from(metric == VectorMetric::Euclidean)
}

/// Returns the number of rows of a tile of vectors with some length.
pub(super) fn tile_rows(length: usize) -> usize {
    (TILE_BYTES / 4 / length.max(1) / RIGHT_LANES * RIGHT_LANES).clamp(RIGHT_LANES, MOST_TILE_ROWS)
}

impl RightTile {
    /// Packs the plain rows at `places`, at least one.
    pub(super) fn pack(&mut self, right: &VectorBlock, margins: &Margins, length: usize, places: Range<usize>) {
        self.panels.reset(places.len(), packed_length(right.metric, length));
        let mut norms = Norms { least: f64::INFINITY, most: 0.0 };
        for (packed, place) in places.clone().enumerate() {
            let row = right.plain.row(place) as usize;
            let norm = right.squares[row].sqrt();
            let is_cosine = right.metric.is_cosine();
            let (scale, norm) =
                if is_cosine { (1.0 / norm, 1.0) } else { (margins.right_scale, norm * margins.right_scale) };
            norms = Norms { least: norms.least.min(norm), most: norms.most.max(norm) };
            with_values!(&right.elements.values, values => {
                let elements = values[right.elements.range(row)].iter().map(|value| value.widen());
                if right.metric == VectorMetric::Euclidean {
                    let elements = elements.zip(&right.centre).map(|(value, centre)| ((value - centre) * scale) as f32);
                    self.panels.put(packed, elements);
                    self.panels.put_last(packed, (norm * norm / -2.0) as f32);
                } else {
                    self.panels.put(packed, elements.map(|value| (value * scale) as f32));
                }
            });
        }
        self.norms = Some(norms);
        self.places = places;
    }

    /// Returns the norms of the scaled rows.
    pub(super) fn norms(&self) -> Norms {
        self.norms.unwrap_or(Norms { least: 0.0, most: 1.0 })
    }
}
