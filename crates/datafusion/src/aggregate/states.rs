//! The states of a grouping's aggregates.

use std::{mem::size_of, sync::Arc};

use arrow::array::{ArrayRef, AsArray, BooleanArray, RecordBatch};
use datafusion::{
    error::Result,
    logical_expr::{EmitTo, GroupsAccumulator},
    physical_expr::PhysicalExpr,
    physical_plan::aggregates::{AggregateExec, aggregate_expressions},
};

use crate::arithmetic::with_fast_decimals;

/// One state of each aggregate for each group.
pub(super) struct States(Vec<Aggregate>);

struct Aggregate {
    states: Box<dyn GroupsAccumulator>,
    arguments: Vec<Arc<dyn PhysicalExpr>>,
    filter: Option<Arc<dyn PhysicalExpr>>,
}

impl States {
    /// Creates the states of no groups.
    pub(super) fn new(grouping: &AggregateExec) -> Result<Self> {
        let keys = grouping.group_expr().num_group_exprs();
        let arguments = aggregate_expressions(grouping.aggr_expr(), grouping.mode(), keys)?;
        let schema = grouping.input().schema();
        let fast = |arguments: Vec<_>| -> Result<Vec<_>> {
            arguments.into_iter().map(|expr| with_fast_decimals(expr, &schema)).collect()
        };
        let aggregates = grouping.aggr_expr().iter().zip(arguments).zip(grouping.filter_expr());
        let aggregates = aggregates.map(|((function, arguments), filter)| -> Result<_> {
            let arguments = fast(arguments)?;
            Ok(Aggregate { states: function.create_groups_accumulator()?, arguments, filter: filter.clone() })
        });
        Ok(Self(aggregates.collect::<Result<_>>()?))
    }

    /// Adds rows, whose groups are `of_rows`, to the states of `groups` groups.
    pub(super) fn add(&mut self, rows: &RecordBatch, of_rows: &[usize], groups: usize) -> Result<()> {
        for aggregate in &mut self.0 {
            let (arguments, filter) = aggregate.evaluate(rows)?;
            aggregate.states.update_batch(&arguments, of_rows, filter.as_ref(), groups)?;
        }
        Ok(())
    }

    /// Returns the columns of all states, and starts over.
    pub(super) fn take(&mut self) -> Result<Vec<ArrayRef>> {
        let mut columns = Vec::new();
        for aggregate in &mut self.0 {
            columns.extend(aggregate.states.state(EmitTo::All)?);
        }
        Ok(columns)
    }

    /// Returns the columns of the states that rows would have if each was a group.
    pub(super) fn of_each(&self, rows: &RecordBatch) -> Result<Vec<ArrayRef>> {
        let mut columns = Vec::new();
        for aggregate in &self.0 {
            let (arguments, filter) = aggregate.evaluate(rows)?;
            columns.extend(aggregate.states.convert_to_state(&arguments, filter.as_ref())?);
        }
        Ok(columns)
    }

    /// Returns the bytes of all states.
    pub(super) fn bytes(&self) -> usize {
        self.0.iter().map(|aggregate| aggregate.states.size() + size_of::<Aggregate>()).sum()
    }
}

impl Aggregate {
    /// Returns the arguments of the aggregate for each row, and which rows count.
    fn evaluate(&self, rows: &RecordBatch) -> Result<(Vec<ArrayRef>, Option<BooleanArray>)> {
        let evaluate = |expr: &Arc<dyn PhysicalExpr>| expr.evaluate(rows)?.into_array(rows.num_rows());
        let arguments = self.arguments.iter().map(evaluate).collect::<Result<_>>()?;
        let filter = self.filter.as_ref().map(evaluate).transpose()?;
        Ok((arguments, filter.map(|filter| filter.as_boolean().clone())))
    }
}
