//! An expression over both sides, with the columns of one row as constants.

use std::sync::Arc;

use annulus_join::{FilterColumn, Side, Sides};
use arrow::{
    array::{ArrayRef, RecordBatch},
    datatypes::SchemaRef,
};
use datafusion::{
    common::{
        internal_err,
        tree_node::{Transformed, TreeNode},
    },
    error::Result,
    logical_expr::ColumnarValue,
    physical_expr::{PhysicalExpr, expressions::Column},
};

use super::{
    once::Once,
    value::{Row, RowValue, takes_constants},
};

/// An expression over columns of both sides.
#[derive(Debug)]
pub(in crate::join) struct PairExpr {
    pub(in crate::join) expr: Arc<dyn PhysicalExpr>,
    /// The columns of the expression, by their places in `columns`.
    pub(in crate::join) places: Vec<FilterColumn>,
    pub(in crate::join) schema: SchemaRef,
    /// The columns of each side, by their places in its batches.
    pub(in crate::join) columns: Sides<Vec<usize>>,
}

/// An expression over columns of one side, and the row of the other whose values are constants in it.
pub(in crate::join) struct OneRow {
    expr: Arc<dyn PhysicalExpr>,
    row: Arc<Row>,
}

impl PairExpr {
    /// Returns the expression over columns of the other side, with those of `one` as the values of a row,
    /// which is the first one.
    pub(in crate::join) fn of_one_row(&self, one: Side, batch: &RecordBatch) -> Result<OneRow> {
        let columns: Vec<ArrayRef> = self.columns[one].iter().map(|&column| Arc::clone(batch.column(column))).collect();
        let constants = takes_constants(&self.expr, self.schema.fields().iter().map(|field| field.data_type()));
        let row = Arc::new(Row::new(&columns, constants)?);
        let moved = Arc::clone(&self.expr).transform_down(|expr| {
            let Some(column) = expr.downcast_ref::<Column>() else { return Ok(Transformed::no(expr)) };
            let (Some(place), Some(field)) =
                (self.places.get(column.index()), self.schema.fields().get(column.index()))
            else {
                return internal_err!("the expression of a join has no column {column}");
            };
            let moved: Arc<dyn PhysicalExpr> = if place.side == one {
                let field = Arc::clone(field);
                Arc::new(RowValue::new(Arc::clone(&row), place.index, field))
            } else {
                Arc::new(Column::new(column.name(), place.index))
            };
            Ok(Transformed::yes(moved))
        })?;
        Ok(OneRow { expr: if constants { Once::wrap_in(moved.data)? } else { moved.data }, row })
    }
}

impl OneRow {
    /// Evaluates the expression for a row and all rows of the other side, piece by piece. `piece` gets the
    /// number of rows and their values.
    ///
    /// # Errors
    /// If the expression fails, or has another number of values; and those of `piece`.
    pub(in crate::join) fn evaluate(
        &self,
        row: usize,
        others: &RecordBatch,
        mut piece: impl FnMut(usize, ColumnarValue) -> Result<()>,
    ) -> Result<()> {
        self.row.set(row as u32)?;
        let most = self.row.most_rows().min(others.num_rows()).max(1);
        for start in (0..others.num_rows()).step_by(most) {
            let rows = most.min(others.num_rows() - start);
            let values = self.expr.evaluate(&others.slice(start, rows))?;
            if let ColumnarValue::Array(values) = &values
                && values.len() != rows
            {
                return internal_err!("an expression returned {} values for {rows} pairs of rows", values.len());
            }
            piece(rows, values)?;
        }
        Ok(())
    }
}
