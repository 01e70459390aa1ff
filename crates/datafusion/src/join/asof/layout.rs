//! The columns of the output, from rows of both sides.

use std::sync::Arc;

use annulus_join::{FilterColumn, Side, Sides};
use arrow::{
    array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, RecordBatchOptions, new_null_array},
    buffer::BooleanBuffer,
    compute::{FilterBuilder, interleave, nullif, prep_null_mask_filter},
    datatypes::{DataType, Field, Schema, SchemaRef},
};
use datafusion::{error::Result, physical_expr::PhysicalExpr};

use super::condition::AsOfCondition;
use crate::join::convert::{joined, side_column, with_own_columns};

/// The columns of the output, and the bounds that a pair of rows must satisfy.
#[derive(Debug)]
pub(super) struct Layout {
    schema: SchemaRef,
    columns: Vec<FilterColumn>,
    bounds: Option<Bounds>,
    keeps_left: bool,
}

#[derive(Debug)]
struct Bounds {
    /// Over `columns`.
    expr: Arc<dyn PhysicalExpr>,
    columns: Vec<FilterColumn>,
    schema: SchemaRef,
}

impl Layout {
    /// Returns the layout of the columns `projection`, of those of the left side and then of the right side.
    ///
    /// # Errors
    /// If there are no such columns.
    pub(super) fn new(schemas: Sides<&SchemaRef>, projection: &[usize], condition: &AsOfCondition) -> Result<Self> {
        let (keeps_left, left_columns) = (condition.keeps_left, schemas.left.fields().len());
        let columns = projection.iter().map(|&index| side_column(index, left_columns)).collect();
        let with_nulls = &joined(schemas, true);
        let bounds =
            condition.bounds.as_ref().map(|bounds| Bounds::new(bounds, with_nulls, left_columns)).transpose()?;
        Ok(Self { schema: Arc::new(joined(schemas, keeps_left).project(projection)?), columns, bounds, keeps_left })
    }

    /// Adds a column of the left side, behind all others.
    pub(super) fn with_left_column(mut self, index: usize, field: Arc<Field>) -> Self {
        self.schema = Arc::new(Schema::new(self.schema.fields().iter().cloned().chain([field]).collect::<Vec<_>>()));
        self.columns.push(FilterColumn { side: Side::Left, index });
        self
    }

    /// Returns the columns of the right side that are needed.
    pub(super) fn right_columns(&self) -> Vec<usize> {
        let bounds = self.bounds.iter().flat_map(|bounds| &bounds.columns);
        let right = self.columns.iter().chain(bounds).filter(|column| column.side == Side::Right);
        right.map(|column| column.index).collect()
    }

    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Returns the output for the rows of a batch of the left side. `has_partner` tells which of them have one,
    /// all if it is not there. `partners` returns a column of the right side, of each row's partner; null where
    /// there is none.
    ///
    /// # Errors
    /// If a kernel or the expression of the bounds fails.
    pub(super) fn output(
        &self,
        left: &RecordBatch,
        has_partner: Option<BooleanBuffer>,
        mut partners: impl FnMut(usize) -> Result<ArrayRef>,
    ) -> Result<RecordBatch> {
        let mut column = |column: &FilterColumn| match column.side {
            Side::Left => Ok(Arc::clone(left.column(column.index))),
            Side::Right => partners(column.index),
        };
        let options = |rows| RecordBatchOptions::new().with_row_count(Some(rows));
        let within = match &self.bounds {
            None => None,
            Some(bounds) => {
                let columns = bounds.columns.iter().map(&mut column).collect::<Result<_>>()?;
                let batch =
                    RecordBatch::try_new_with_options(Arc::clone(&bounds.schema), columns, &options(left.num_rows()))?;
                let holds = bounds.expr.evaluate(&batch)?.into_array(left.num_rows())?;
                let holds = holds.as_boolean();
                let holds = if holds.null_count() > 0 { prep_null_mask_filter(holds) } else { holds.clone() };
                Some(holds.values().clone())
            }
        };
        let mut rows = left.num_rows();
        let columns = if self.keeps_left {
            let outside = within.map(|within| BooleanArray::new(!&within, None));
            let column = |place: &FilterColumn| match (&outside, place.side, column(place)?) {
                (Some(outside), Side::Right, values) if has_runs(&values) => {
                    let places = outside.values().iter().enumerate();
                    runs_or_nulls(&values, places.map(|(row, is_outside)| (!is_outside).then_some(row)))
                }
                (Some(outside), Side::Right, values) => Ok(nullif(&values, outside)?),
                (_, _, values) => Ok(values),
            };
            self.columns.iter().map(column).collect::<Result<_>>()?
        } else {
            let is_kept = has_partner.into_iter().chain(within).reduce(|one, other| &one & &other);
            match is_kept.filter(|is_kept| is_kept.count_set_bits() < rows) {
                None => self.columns.iter().map(column).collect::<Result<_>>()?,
                Some(is_kept) => {
                    rows = is_kept.count_set_bits();
                    let kept = FilterBuilder::new(&BooleanArray::new(is_kept, None)).optimize().build();
                    let column = |place: &FilterColumn| Ok(kept.filter(&column(place)?)?);
                    self.columns.iter().map(column).collect::<Result<_>>()?
                }
            }
        };
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options(rows))?)
    }
}

impl Bounds {
    fn new(bounds: &Arc<dyn PhysicalExpr>, joined: &Schema, left_columns: usize) -> Result<Self> {
        let (expr, indices) = with_own_columns(bounds)?;
        let columns = indices.iter().map(|&index| side_column(index, left_columns)).collect();
        Ok(Self { expr, columns, schema: Arc::new(joined.project(&indices)?) })
    }
}

/// Returns whether the values are encoded as runs. `take` and `nullif` of Arrow 59.3 keep values of such arrays
/// where they should make nulls.
pub(super) fn has_runs(values: &ArrayRef) -> bool {
    matches!(values.data_type(), DataType::RunEndEncoded(..))
}

/// Returns an array with the values at these indices, and a null for each `None`.
///
/// # Errors
/// If an index is too large.
pub(super) fn runs_or_nulls(values: &ArrayRef, places: impl Iterator<Item = Option<usize>>) -> Result<ArrayRef> {
    let nulls = new_null_array(values.data_type(), 1);
    let places: Vec<_> = places.map(|place| place.map_or((0, 0), |place| (1, place))).collect();
    Ok(interleave(&[&nulls, values], &places)?)
}
