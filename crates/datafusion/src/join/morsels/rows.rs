//! The columns of a join: what it reads of each side, and what it outputs.

use std::sync::Arc;

use annulus_join::{FilterColumn, JoinType, Output, OutputSpec, PairFilter, Side, Sides};
use arrow::{
    array::{RecordBatch, RecordBatchOptions},
    compute::concat_batches,
    datatypes::SchemaRef,
};
use datafusion::{
    common::internal_datafusion_err,
    error::Result,
    physical_expr::PhysicalExpr,
    physical_plan::{
        ExecutionPlan,
        joins::{
            NestedLoopJoinExec,
            utils::{ColumnIndex, JoinFilter},
        },
    },
};

use super::side::SideInput;
use crate::{
    error::from_join,
    join::convert::{ExprFilter, join_type, side},
};

/// The columns of a join whose build side is the left one.
pub struct RowsPlan {
    pub(in crate::join) sides: Sides<SideInput>,
    kind: JoinType,
    columns: Sides<Vec<usize>>,
    filter: Option<Arc<ExprFilter>>,
    /// For each column of the output, its place in the output of `annulus-join`.
    order: Vec<usize>,
    schema: SchemaRef,
}

impl RowsPlan {
    /// Returns the columns of a stock join. `keys` are those of each side, and `others` columns that
    /// the condition reads beside them.
    ///
    /// # Errors
    /// If the stock join is invalid.
    pub(in crate::join) fn new<'a, K: Iterator<Item = &'a Arc<dyn PhysicalExpr>> + Clone>(
        stock: &NestedLoopJoinExec,
        keys: impl Fn(Side) -> K,
        others: &[ColumnIndex],
    ) -> Result<Self> {
        let schemas = Sides { left: stock.left().schema(), right: stock.right().schema() };
        let output = (stock.projection().as_deref(), stock.schema());
        Self::of_inputs(join_type(*stock.join_type()), &schemas, output, keys, others)
    }

    /// Returns the columns of a join of inputs with these schemas, which outputs the columns of a projection, if
    /// there is one, with the schema `output.1`.
    ///
    /// # Errors
    /// If a column does not exist.
    pub(in crate::join) fn of_inputs<'a, K: Iterator<Item = &'a Arc<dyn PhysicalExpr>> + Clone>(
        kind: JoinType,
        schemas: &Sides<SchemaRef>,
        output: (Option<&[usize]>, SchemaRef),
        keys: impl Fn(Side) -> K,
        others: &[ColumnIndex],
    ) -> Result<Self> {
        let (projection, schema) = output;
        let fields = schemas.as_ref().map(|schema| schema.fields().len());
        let output = output_columns(kind, fields, projection);
        let sides = Sides::try_from_fn(|side| {
            let output = output.iter().flatten().filter(|column| column.side == side);
            let others = others.iter().filter(|column| self::side(column.side) == Some(side));
            let columns = output.map(|column| column.index).chain(others.map(|column| column.index)).collect();
            SideInput::new(&schemas[side], columns, keys(side))
        })?;
        let (columns, order) = arrangement(&output, &sides)?;
        Ok(Self { sides, kind, columns, filter: None, order, schema })
    }

    /// Sets a filter on pairs, whose columns are among those that the join reads.
    #[must_use]
    pub(in crate::join) fn with_filter(mut self, filter: Option<JoinFilter>) -> Self {
        let place = |side: Side, index| self.sides[side].place(index).unwrap_or_default();
        self.filter = filter.map(|filter| Arc::new(ExprFilter::new(&filter, place)));
        self
    }

    /// Returns the output for one execution.
    ///
    /// # Errors
    /// If a column does not exist.
    pub(super) fn output(&self) -> Result<Arc<Output>> {
        Ok(Arc::new(Output::try_new(self.spec()).map_err(from_join)?))
    }

    /// Returns what the join outputs.
    pub(in crate::join) fn spec(&self) -> OutputSpec {
        let schemas = self.sides.as_ref().map(|side| Arc::clone(&side.schema));
        OutputSpec::new(self.kind, Side::Left, schemas)
            .with_columns(self.columns.clone())
            .with_filter(self.filter.clone().map(|filter| filter as Arc<dyn PairFilter>))
    }

    /// Returns a batch of the output of `annulus-join` as the stock operator would return it.
    ///
    /// # Errors
    /// If a column has another type.
    pub(in crate::join) fn finish(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let columns = self.order.iter().map(|&column| Arc::clone(batch.column(column))).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }

    /// Returns the schema of the output.
    pub(in crate::join) fn schema(&self) -> &SchemaRef {
        &self.schema
    }
}

/// Returns the columns of the output; none for a mark.
fn output_columns(kind: JoinType, fields: Sides<usize>, projection: Option<&[usize]>) -> Vec<Option<FilterColumn>> {
    let of_side = |side| {
        let columns = if kind.outputs(side) { 0..fields[side] } else { 0..0 };
        columns.map(move |index| Some(FilterColumn { side, index }))
    };
    let all = of_side(Side::Left).chain(of_side(Side::Right)).chain(kind.marks().then_some(None));
    let all: Vec<Option<FilterColumn>> = all.collect();
    match projection {
        Some(projection) => projection.iter().map(|&column| all[column]).collect(),
        None => all,
    }
}

/// Returns the columns of each side that are output, by their places in what is read, and for each
/// column of the output its place among these.
fn arrangement(output: &[Option<FilterColumn>], sides: &Sides<SideInput>) -> Result<(Sides<Vec<usize>>, Vec<usize>)> {
    let place = |column: FilterColumn| {
        let place = sides[column.side].place(column.index);
        place.ok_or_else(|| internal_datafusion_err!("column {} is not read", column.index))
    };
    let mut columns: Sides<Vec<usize>> = Sides::default();
    for &column in output.iter().flatten() {
        columns[column.side].push(place(column)?);
    }
    for side in Side::BOTH {
        columns[side].sort_unstable();
        columns[side].dedup();
    }
    let order = output.iter().map(|column| {
        let Some(column) = *column else { return Ok(columns.left.len() + columns.right.len()) };
        let place = columns[column.side].binary_search(&place(column)?).unwrap_or_default();
        Ok(if column.side == Side::Left { place } else { columns.left.len() + place })
    });
    let order = order.collect::<Result<_>>()?;
    Ok((columns, order))
}

/// Returns the rows of these batches in one. A single batch is not copied.
///
/// # Errors
/// If they are too many for a batch.
pub(in crate::join) fn whole(schema: &SchemaRef, mut batches: Vec<RecordBatch>) -> Result<RecordBatch> {
    match (batches.pop(), batches.is_empty()) {
        (Some(batch), true) => Ok(batch),
        (last, _) => {
            batches.extend(last);
            Ok(concat_batches(schema, &batches)?)
        }
    }
}
