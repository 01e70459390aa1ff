//! The predicates that are evaluated on pairs.

use std::{collections::HashMap, sync::Arc};

use annulus_join::{FilterColumn, JoinError, PairFilter, Side};
use arrow::array::{BooleanArray, RecordBatch};
use datafusion::{
    common::{
        JoinSide,
        cast::as_boolean_array,
        internal_datafusion_err,
        tree_node::{Transformed, TreeNode},
    },
    error::Result,
    physical_expr::{PhysicalExpr, expressions::Column, utils::collect_columns},
    physical_plan::joins::utils::ColumnIndex,
};

use crate::error::into_join;

/// A predicate over columns of both sides.
#[derive(Debug)]
pub(super) struct Predicate {
    predicate: Arc<dyn PhysicalExpr>,
    columns: Vec<FilterColumn>,
}

impl Predicate {
    /// Creates the filter of a predicate over columns at these places of the sides.
    ///
    /// # Errors
    /// If a column does not exist.
    pub(super) fn new(predicate: &Arc<dyn PhysicalExpr>, places: &[ColumnIndex]) -> Result<Self> {
        let mut used: Vec<usize> = collect_columns(predicate).iter().map(Column::index).collect();
        used.sort_unstable();
        let columns = used.iter().map(|&column| {
            let place = places.get(column).ok_or_else(|| internal_datafusion_err!("no column {column} in a filter"))?;
            let side = if place.side == JoinSide::Left { Side::Left } else { Side::Right };
            Ok(FilterColumn { side, index: place.index })
        });
        let columns = columns.collect::<Result<_>>()?;
        let new_places: HashMap<usize, usize> = used.into_iter().enumerate().map(|(new, old)| (old, new)).collect();
        let moved = Arc::clone(predicate).transform_down(|expr| {
            let Some(column) = expr.downcast_ref::<Column>() else { return Ok(Transformed::no(expr)) };
            let moved = Column::new(column.name(), new_places[&column.index()]);
            Ok(Transformed::yes(Arc::new(moved) as Arc<dyn PhysicalExpr>))
        })?;
        Ok(Self { predicate: moved.data, columns })
    }

    /// Returns the filter with the places of its columns replaced.
    ///
    /// # Errors
    /// The first error of `place`.
    pub(super) fn with_places(self, place: impl Fn(FilterColumn) -> Result<usize>) -> Result<Self> {
        let columns = self.columns.into_iter();
        let columns = columns.map(|column| Ok(FilterColumn { index: place(column)?, ..column }));
        Ok(Self { columns: columns.collect::<Result<_>>()?, ..self })
    }
}

impl PairFilter for Predicate {
    fn columns(&self) -> &[FilterColumn] {
        &self.columns
    }

    fn keep(&self, candidates: &RecordBatch) -> Result<BooleanArray, JoinError> {
        let kept = self.predicate.evaluate(candidates).and_then(|kept| kept.into_array(candidates.num_rows()));
        let kept = kept.map_err(into_join)?;
        Ok(as_boolean_array(&kept).map_err(into_join)?.clone())
    }
}
