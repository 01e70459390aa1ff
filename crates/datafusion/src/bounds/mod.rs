//! Bounds that Parquet files claim, and what they prove.
//!
//! DataFusion orders floats by IEEE 754's `totalOrder`, except that -0.0 equals 0.0: a NaN with its
//! sign bit is below all numbers, any other NaN is above them, and NaNs are equal if their bits are.
//! Parquet's statistics leave every NaN out, take 0.0 for -0.0 at will, and Bloom filters hash the
//! two apart. So the bounds of a float column prove nothing: no value is constant, no row is out of
//! range, and no `min`, `max` or distinct count can be read from them. Its null counts hold.
//!
//! [`scan`] removes such bounds from the statistics of a plan's scans, and [`reader`] from the
//! metadata by which an open file is pruned. All other columns keep theirs.

mod metadata;
mod reader;
mod scan;

use arrow::datatypes::DataType;

pub(crate) use metadata::correct;
pub(crate) use scan::{forget_unproved, guard_pruning};

/// Returns whether values of this type are floats, or contain some.
fn has_floats(data_type: &DataType) -> bool {
    match data_type {
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _)
        | DataType::Map(item, _)
        | DataType::RunEndEncoded(_, item) => has_floats(item.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| has_floats(field.data_type())),
        DataType::Union(fields, _) => fields.iter().any(|(_, field)| has_floats(field.data_type())),
        DataType::Dictionary(_, value) => has_floats(value),
        other => other.is_floating(),
    }
}
