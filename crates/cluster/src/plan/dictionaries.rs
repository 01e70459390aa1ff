//! Which columns of a result are written with a dictionary.

use annulus_dataset::ColumnHints;
use annulus_join::{Side, Sides};

use super::Bound;

impl Bound {
    /// Returns for each column of the result whether a dictionary is expected to pay for it in a
    /// file: true, unless it is a column of an input whose files say otherwise in `hints`.
    pub fn dictionaries(&self, hints: Sides<&ColumnHints>) -> Vec<bool> {
        let of_side = |side: Side| {
            let columns = self.scans[side].columns.iter().take(self.outputs[side]);
            columns.map(move |&column| hints[side].dictionary(column).unwrap_or(true))
        };
        let joined: Vec<bool> = Side::BOTH.into_iter().flat_map(of_side).collect();
        match &self.projection {
            None => joined,
            Some(projection) => projection.columns().map(|column| column.is_none_or(|column| joined[column])).collect(),
        }
    }
}
