//! The columns of the output, from rows of both sides.

use std::sync::Arc;

use annulus_join::{FilterColumn, Side, Sides};
use arrow::{
    array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, RecordBatchOptions},
    compute::{nullif, prep_null_mask_filter},
    datatypes::{Schema, SchemaRef},
};
use datafusion::{error::Result, physical_expr::PhysicalExpr};

use crate::join::convert::{joined, side_column, with_own_columns};

/// The columns of the output, and the bounds that a pair of rows must satisfy.
#[derive(Debug)]
pub(super) struct Layout {
    schema: SchemaRef,
    columns: Vec<FilterColumn>,
    bounds: Option<Bounds>,
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
    pub(super) fn new(
        schemas: Sides<&SchemaRef>,
        projection: &[usize],
        bounds: Option<&Arc<dyn PhysicalExpr>>,
    ) -> Result<Self> {
        let (joined, left_columns) = (&joined(schemas, true), schemas.left.fields().len());
        let columns = projection.iter().map(|&index| side_column(index, left_columns)).collect();
        let bounds = bounds.map(|bounds| Bounds::new(bounds, joined, left_columns)).transpose()?;
        Ok(Self { schema: Arc::new(joined.project(projection)?), columns, bounds })
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

    /// Returns the output for the rows of a batch of the left side. `partners` returns a column of the
    /// right side, of each row's partner; null where there is none.
    ///
    /// # Errors
    /// If a kernel or the expression of the bounds fails.
    pub(super) fn output(
        &self,
        left: &RecordBatch,
        mut partners: impl FnMut(usize) -> Result<ArrayRef>,
    ) -> Result<RecordBatch> {
        let mut column = |column: &FilterColumn| match column.side {
            Side::Left => Ok(Arc::clone(left.column(column.index))),
            Side::Right => partners(column.index),
        };
        let options = RecordBatchOptions::new().with_row_count(Some(left.num_rows()));
        let outside = match &self.bounds {
            None => None,
            Some(bounds) => {
                let columns = bounds.columns.iter().map(&mut column).collect::<Result<_>>()?;
                let batch = RecordBatch::try_new_with_options(Arc::clone(&bounds.schema), columns, &options)?;
                let holds = bounds.expr.evaluate(&batch)?.into_array(left.num_rows())?;
                let holds = holds.as_boolean();
                let holds = if holds.null_count() > 0 { prep_null_mask_filter(holds) } else { holds.clone() };
                Some(BooleanArray::new(!holds.values(), None))
            }
        };
        let columns = self.columns.iter().map(|place| {
            let values = column(place)?;
            match (&outside, place.side) {
                (Some(outside), Side::Right) => Ok(nullif(&values, outside)?),
                _ => Ok(values),
            }
        });
        let columns = columns.collect::<Result<_>>()?;
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }
}

impl Bounds {
    fn new(bounds: &Arc<dyn PhysicalExpr>, joined: &Schema, left_columns: usize) -> Result<Self> {
        let (expr, indices) = with_own_columns(bounds)?;
        let columns = indices.iter().map(|&index| side_column(index, left_columns)).collect();
        Ok(Self { expr, columns, schema: Arc::new(joined.project(&indices)?) })
    }
}
