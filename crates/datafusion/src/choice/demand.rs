//! What is known of a repartition when it is planned.

use arrow::datatypes::{DataType, Schema};
use datafusion::common::stats::Precision;
use serde::{Deserialize, Serialize};

/// The layout of rows: that of their most costly column.
///
/// ```
/// use annulus_datafusion::profile::Layout;
/// use arrow::datatypes::{DataType, Field, Schema};
///
/// let schema = |types: &[DataType]| {
///     Schema::new(types.iter().map(|of| Field::new("c", of.clone(), true)).collect::<Vec<_>>())
/// };
/// assert_eq!(Layout::from_schema(&schema(&[DataType::Int64, DataType::Boolean])), Layout::Fixed);
/// assert_eq!(Layout::from_schema(&schema(&[DataType::Int64, DataType::Utf8View])), Layout::Views);
/// assert_eq!(Layout::from_schema(&schema(&[DataType::Utf8, DataType::Utf8View])), Layout::Variable);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Layout {
    /// Values of fixed width and booleans.
    Fixed,
    /// Strings or bytes as views.
    Views,
    /// Strings or bytes behind offsets, nested and dictionary columns.
    Variable,
}

impl Layout {
    /// Returns the layout of rows with these columns.
    pub fn from_schema(schema: &Schema) -> Self {
        let layout = |of: &DataType| match of {
            DataType::Utf8View | DataType::BinaryView => Self::Views,
            DataType::Boolean | DataType::FixedSizeBinary(_) | DataType::Null => Self::Fixed,
            of if of.primitive_width().is_some() => Self::Fixed,
            _ => Self::Variable,
        };
        schema.fields().iter().map(|field| layout(field.data_type())).max().unwrap_or(Self::Fixed)
    }
}

/// Returns the bytes of a row, as its columns' types tell. What the types leave open (the bytes of
/// a string, the length of a list) counts 16 bytes.
pub fn row_bytes(schema: &Schema) -> usize {
    const OPEN: usize = 16;
    let bytes = |of: &DataType| match of {
        DataType::Null => 0,
        DataType::Boolean => 1,
        DataType::FixedSizeBinary(bytes) => usize::try_from(*bytes).unwrap_or(0),
        DataType::Utf8View | DataType::BinaryView => 16 + OPEN,
        DataType::Utf8 | DataType::Binary => 4 + OPEN,
        of => of.primitive_width().unwrap_or(8 + OPEN),
    };
    schema.fields().iter().map(|field| bytes(field.data_type())).sum()
}

/// The position of a repartition in its plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Position {
    /// Whether the operator above reads the rows as soon as it has them, as joins and groupings do.
    pub reads: bool,
    /// The number of rows, as far as statistics tell.
    pub rows: Precision<usize>,
}

impl Default for Position {
    /// Returns a position below an operator that reads the rows, of an unknown number.
    fn default() -> Self {
        Self { reads: true, rows: Precision::Absent }
    }
}

/// What is known of a repartition when it is planned.
///
/// ```
/// use annulus_datafusion::profile::{Demand, Layout};
/// use arrow::datatypes::{DataType, Field, Schema};
///
/// let schema = Schema::new(vec![Field::new("k", DataType::Int64, false), Field::new("v", DataType::Utf8View, true)]);
/// let demand = Demand::new(4, 16, &schema);
/// assert_eq!((demand.layout, demand.row_bytes), (Layout::Views, 40));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Demand {
    /// The number of input partitions.
    pub inputs: usize,
    /// The number of output partitions.
    pub outputs: usize,
    /// The layout of the rows.
    pub layout: Layout,
    /// The [bytes of a row](row_bytes).
    pub row_bytes: usize,
    /// The position in the plan.
    pub position: Position,
}

impl Demand {
    /// Creates the demand of rows of `schema`, at the default position.
    pub fn new(inputs: usize, outputs: usize, schema: &Schema) -> Self {
        let (layout, row_bytes) = (Layout::from_schema(schema), row_bytes(schema));
        Self { inputs, outputs, layout, row_bytes, position: Position::default() }
    }

    /// Sets the [position](Self::position) in the plan.
    #[must_use]
    pub fn with_position(self, position: Position) -> Self {
        Self { position, ..self }
    }
}
