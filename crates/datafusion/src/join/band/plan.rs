//! A join as `annulus-join` runs it.

use std::sync::Arc;

use annulus_join::{
    FilterColumn, JoinType, KeyPair, MergeCondition, MergeJoin, Output, OutputSpec, PairFilter, Side, Sides,
};
use arrow::{
    array::{RecordBatch, RecordBatchOptions},
    datatypes::SchemaRef,
};
use datafusion::{
    common::internal_datafusion_err,
    error::Result,
    physical_plan::{
        ExecutionPlan,
        joins::{NestedLoopJoinExec, utils::JoinFilter},
    },
};

use super::{condition::Condition, filter::narrowed, side::SideInput};
use crate::{
    error::from_join,
    join::convert::{ExprFilter, join_type, side},
};

/// A join on a band, with the left side as the build side.
pub(super) struct BandPlan {
    pub(super) join: MergeJoin,
    pub(super) sides: Sides<SideInput>,
    pub(super) condition: Condition,
    kind: JoinType,
    columns: Sides<Vec<usize>>,
    filter: Option<Arc<ExprFilter>>,
    /// For each column of the output, its place in the output of `annulus-join`.
    order: Vec<usize>,
    schema: SchemaRef,
}

impl BandPlan {
    /// Returns the plan of a stock join; `None` if `annulus-join` cannot evaluate its condition, or
    /// does not have its type.
    ///
    /// # Errors
    /// If the stock join is invalid.
    pub(super) fn of(stock: &NestedLoopJoinExec) -> Result<Option<Self>> {
        let ((kind, None), Some(filter)) = (join_type(*stock.join_type()), stock.filter()) else { return Ok(None) };
        let Some(condition) = Condition::of(filter) else { return Ok(None) };
        let schemas = Sides { left: stock.left().schema(), right: stock.right().schema() };
        let output = output_columns(kind, schemas.as_ref().map(|schema| schema.fields().len()), stock.projection());
        let rest = condition.rest.as_ref().map(|rest| narrowed(filter, rest)).transpose()?;

        let filtered = rest.as_ref().map_or(&[][..], JoinFilter::column_indices);
        let sides = Sides::try_from_fn(|side| {
            let output = output.iter().filter(|column| column.side == side);
            let filtered = filtered.iter().filter(|column| self::side(column.side) == Some(side));
            let columns = output.map(|column| column.index).chain(filtered.map(|column| column.index)).collect();
            let high = condition.band.high_key.as_ref().filter(|_| side == Side::Right);
            SideInput::new(&schemas[side], columns, [&condition.band.keys[side]].into_iter().chain(high))
        })?;
        let place = |column: FilterColumn| {
            let place = sides[column.side].place(column.index);
            place.ok_or_else(|| internal_datafusion_err!("column {} is not read", column.index))
        };

        let mut columns: Sides<Vec<usize>> = Sides::default();
        for &column in &output {
            columns[column.side].push(place(column)?);
        }
        for side in Side::BOTH {
            columns[side].sort_unstable();
            columns[side].dedup();
        }
        let order = output.iter().map(|&column| {
            let place = columns[column.side].binary_search(&place(column)?).unwrap_or_default();
            Ok(if column.side == Side::Left { place } else { columns.left.len() + place })
        });
        let order = order.collect::<Result<_>>()?;
        let filter =
            rest.map(|rest| ExprFilter::new(&rest, |side, index| sides[side].place(index).unwrap_or_default()));
        let filter = filter.map(Arc::new);

        let keys = KeyPair { build: sides.left.keys[0], probe: sides.right.keys[0] };
        let high_key = sides.right.keys.get(1).copied();
        let merge = MergeCondition { band: condition.band(keys), high_key, ..MergeCondition::default() };
        let Ok(join) = MergeJoin::try_new(&merge, &sides.left.schema, &sides.right.schema) else { return Ok(None) };
        let schema = stock.schema();
        Ok(merge.band.is_some().then_some(Self { join, sides, condition, kind, columns, filter, order, schema }))
    }

    /// Returns the output for one execution.
    ///
    /// # Errors
    /// If a column does not exist.
    pub(super) fn output(&self) -> Result<Arc<Output>> {
        let schemas = self.sides.as_ref().map(|side| Arc::clone(&side.schema));
        let spec = OutputSpec::new(self.kind, Side::Left, schemas)
            .with_columns(self.columns.clone())
            .with_filter(self.filter.clone().map(|filter| filter as Arc<dyn PairFilter>));
        Ok(Arc::new(Output::try_new(spec).map_err(from_join)?))
    }

    /// Returns a batch of the output of `annulus-join` as the stock operator would return it.
    ///
    /// # Errors
    /// If a column has another type.
    pub(super) fn finish(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let columns = self.order.iter().map(|&column| Arc::clone(batch.column(column))).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }

    /// Returns the schema of the output.
    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }
}

/// Returns the columns of the output.
fn output_columns(kind: JoinType, fields: Sides<usize>, projection: &Option<Arc<[usize]>>) -> Vec<FilterColumn> {
    let of_side = |side| {
        let columns = if kind.outputs(side) { 0..fields[side] } else { 0..0 };
        columns.map(move |index| FilterColumn { side, index })
    };
    let all: Vec<FilterColumn> = of_side(Side::Left).chain(of_side(Side::Right)).collect();
    match projection {
        Some(projection) => projection.iter().map(|&column| all[column]).collect(),
        None => all,
    }
}
