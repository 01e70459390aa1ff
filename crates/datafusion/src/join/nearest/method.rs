//! How the nearest rows are found.

use std::{fmt, sync::Arc};

use annulus_join::{CancelToken, FilterColumn, JoinError, Side, Sides};
use arrow::{
    array::{ArrayRef, RecordBatch, RecordBatchOptions},
    datatypes::{DataType, Schema, SchemaRef},
};
use datafusion::{
    common::tree_node::{Transformed, TransformedResult, TreeNode},
    error::Result,
    physical_expr::{PhysicalExpr, expressions::Column, utils::collect_columns},
};

use super::{blocks::Block, scores::Lists};
use crate::{error::from_join, join::loops::PairExpr, nearest::NearestOrder};

/// The most rows of the right side that the expression is evaluated for at once.
const PIECE_ROWS: usize = 8192;

/// How the nearest rows are found.
#[derive(Debug)]
pub(super) struct Method {
    order: NearestOrder,
    /// The type of the expression's values.
    data_type: DataType,
    pairs: PairExpr,
}

impl Method {
    /// Returns the method for an expression over the columns of both sides.
    ///
    /// # Errors
    /// If the expression cannot be evaluated with such columns.
    pub(super) fn new(
        by: &Arc<dyn PhysicalExpr>,
        order: NearestOrder,
        joined: &Schema,
        left_columns: usize,
    ) -> Result<Self> {
        Ok(Self { order, data_type: by.data_type(joined)?, pairs: pair_expr(by, joined, left_columns)? })
    }

    /// Returns the name that `EXPLAIN` shows.
    pub(super) fn name(&self) -> &'static str {
        "all pairs"
    }

    /// Returns empty lists for left rows.
    pub(super) fn lists(&self, rows: usize, k: usize) -> Lists {
        Lists::new(&self.data_type, rows, k)
    }

    /// Offers all rows of a block to the lists of all rows of a chunk.
    ///
    /// # Errors
    /// If the expression fails, or the token is cancelled.
    pub(super) fn offer(
        &self,
        chunk: &RecordBatch,
        block: &Block,
        lists: &mut Lists,
        token: &CancelToken,
    ) -> Result<()> {
        let others = project(&block.rows, &self.pairs.columns.right)?;
        if chunk.num_rows() == 0 {
            return Ok(());
        }
        let one = self.pairs.of_one_row(Side::Left, chunk)?;
        for start in (0..others.num_rows()).step_by(PIECE_ROWS) {
            let rows = PIECE_ROWS.min(others.num_rows() - start);
            let piece = others.slice(start, rows);
            for row in 0..chunk.num_rows() {
                token.check().map_err(|cancelled| from_join(JoinError::from(cancelled)))?;
                let mut next = start;
                one.evaluate(row, &piece, |rows, values| {
                    let values = values.into_array(rows)?;
                    let first = next;
                    next += rows;
                    lists.offer(row, &values, self.order, &block.ties[first..next], block.first + first as u32)
                })?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Returns an expression over the columns of both sides as one over pairs of rows.
fn pair_expr(by: &Arc<dyn PhysicalExpr>, joined: &Schema, left_columns: usize) -> Result<PairExpr> {
    let mut indices: Vec<usize> = collect_columns(by).iter().map(Column::index).collect();
    indices.sort_unstable();
    let place = |expr: Arc<dyn PhysicalExpr>| {
        let Some(column) = expr.downcast_ref::<Column>() else { return Ok(Transformed::no(expr)) };
        let place = indices.partition_point(|&index| index < column.index());
        Ok(Transformed::yes(Arc::new(Column::new(column.name(), place)) as Arc<dyn PhysicalExpr>))
    };
    let expr = Arc::clone(by).transform(place).data()?;
    let mut columns: Sides<Vec<usize>> = Sides::default();
    let places = indices.iter().map(|&index| {
        let (side, column) = match index.checked_sub(left_columns) {
            None => (Side::Left, index),
            Some(column) => (Side::Right, column),
        };
        columns[side].push(column);
        FilterColumn { side, index: columns[side].len() - 1 }
    });
    let places = places.collect();
    Ok(PairExpr { expr, places, schema: Arc::new(joined.project(&indices)?), columns })
}

/// Returns some columns of a batch, which keeps its number of rows.
fn project(batch: &RecordBatch, columns: &[usize]) -> Result<RecordBatch> {
    let schema: SchemaRef = Arc::new(batch.schema().project(columns)?);
    let columns: Vec<ArrayRef> = columns.iter().map(|&column| Arc::clone(batch.column(column))).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(schema, columns, &options)?)
}
