//! The partitioning that a dataset's manifest tells, in DataFusion's words.

use std::sync::Arc;

use annulus_dataset::{KeyLayout, KeyRule, NoLayout};
use arrow::{
    array::{Array, ArrayRef},
    compute::{SortOptions, cast},
    datatypes::{DataType, Schema},
};
use datafusion::{
    common::{ScalarValue, SplitPoint},
    error::Result as PlanResult,
    physical_expr::{LexOrdering, PhysicalExpr, PhysicalSortExpr, RangePartitioning, expressions::Column},
    physical_plan::Partitioning,
};
use thiserror::Error;

/// The reason why a table is not read as partitioned.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum NotPartitioned {
    /// The dataset is not known to be partitioned by key.
    #[error(transparent)]
    Layout(#[from] NoLayout),
    /// A key was hashed as another type than the table has.
    #[error("key '{column}' was hashed as {hashed}, but is read as {read}, which hashes differently")]
    Type {
        /// The key column.
        column: String,
        /// The type when it was hashed.
        hashed: DataType,
        /// The type in the table.
        read: DataType,
    },
    /// A key of ranges has a type whose order may be another one in DataFusion.
    #[error("key '{column}' has type {read}, whose ranges DataFusion may order differently")]
    Order {
        /// The key column.
        column: String,
        /// The type in the table.
        read: DataType,
    },
    /// DataFusion does not accept the split points.
    #[error("its split points cannot be used: {0}")]
    Points(String),
}

/// Returns the partitioning of a table with the columns of `schema`.
pub(super) fn partitioning(
    layout: &Result<KeyLayout, NoLayout>,
    schema: &Schema,
) -> Result<Partitioning, NotPartitioned> {
    let layout = layout.as_ref().map_err(Clone::clone)?;
    let mut keys = Vec::with_capacity(layout.keys.len());
    for name in &layout.keys {
        let column = Column::new_with_schema(name, schema).map_err(|_| NoLayout::Column(name.clone()))?;
        keys.push((schema.field(column.index()).data_type().clone(), column));
    }
    match &layout.rule {
        KeyRule::Hash { types } => {
            if let Some(((read, column), hashed)) = keys.iter().zip(types).find(|((read, _), hashed)| read != *hashed) {
                let (column, hashed, read) = (column.name().to_owned(), hashed.clone(), read.clone());
                return Err(NotPartitioned::Type { column, hashed, read });
            }
            let keys = keys.into_iter().map(|(_, column)| Arc::new(column) as Arc<dyn PhysicalExpr>);
            Ok(Partitioning::Hash(keys.collect(), layout.partitions.len()))
        }
        KeyRule::Ranges { points } => {
            if let Some((read, column)) = keys.iter().find(|(read, _)| !is_ordered_alike(read)) {
                return Err(NotPartitioned::Order { column: column.name().to_owned(), read: read.clone() });
            }
            ranges(&keys, points).map_err(|error| NotPartitioned::Points(error.to_string()))
        }
        _ => Err(NoLayout::Unknown.into()),
    }
}

/// Returns the partitioning by split points, a column for each key.
fn ranges(keys: &[(DataType, Column)], points: &[ArrayRef]) -> PlanResult<Partitioning> {
    let points = points.iter().zip(keys).map(|(points, (read, _))| cast(points, read));
    let points = points.collect::<Result<Vec<_>, _>>()?;
    let point = |row| points.iter().map(|column| ScalarValue::try_from_array(column, row)).collect::<PlanResult<_>>();
    let count = points.first().map_or(0, |column| column.len());
    let points = (0..count).map(|row| point(row).map(SplitPoint::new)).collect::<PlanResult<_>>()?;
    // Annulus places nulls before all values.
    let options = SortOptions { descending: false, nulls_first: true };
    let keys = keys.iter().map(|(_, column)| PhysicalSortExpr::new(Arc::new(column.clone()), options));
    let ordering = LexOrdering::new(keys).ok_or_else(|| datafusion::common::plan_datafusion_err!("there is no key"))?;
    Ok(Partitioning::Range(RangePartitioning::try_new(ordering, points)?))
}

/// Returns whether DataFusion and Annulus order values of a type in the same way. They may differ
/// in floats (not-a-number, and zero with a sign) and in nested values.
fn is_ordered_alike(data_type: &DataType) -> bool {
    data_type.is_integer()
        || data_type.is_decimal()
        || data_type.is_temporal()
        || data_type.is_string()
        || matches!(data_type, DataType::Boolean | DataType::Binary | DataType::LargeBinary | DataType::BinaryView)
}
