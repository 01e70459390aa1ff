//! Which columns of each side a join reads, and where those of its output come from. Pure.

use std::{collections::BTreeSet, sync::Arc};

use annulus_join::{JoinType, Keys, Output, OutputSpec, Side, Sides};
use arrow::{
    array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, UInt64Array},
    datatypes::{DataType, Field, Schema, SchemaRef},
};
use datafusion::{
    common::NullEquality,
    error::Result,
    physical_expr::{PhysicalExpr, expressions::Column},
    physical_plan::{
        ExecutionPlan,
        joins::{HashJoinExec, utils::build_join_schema},
    },
};

use crate::{
    error::from_join,
    join::convert::{self, ExprFilter},
};

/// The build side, as everywhere in DataFusion.
pub(super) const BUILD: Side = Side::Left;
/// The probe side.
pub(super) const PROBE: Side = Side::Right;

/// The columns of a join.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub(super) sides: Sides<SideLayout>,
    pub(super) join: JoinType,
    filter: Option<Arc<ExprFilter>>,
    /// For each column of the output its number in that of `annulus-join`.
    arrange: Vec<usize>,
    nulls_equal: bool,
    /// Whether rows with null keys decide about the rows of the other side, as in `NOT IN`.
    null_aware: bool,
    schema: SchemaRef,
}

/// The columns that are read of one side.
#[derive(Clone, Debug)]
pub(super) struct SideLayout {
    /// The columns of the input that are kept, in ascending order.
    columns: Vec<usize>,
    /// The keys that are not columns.
    computed: Vec<Arc<dyn PhysicalExpr>>,
    /// The kept columns, then the computed keys.
    pub(super) schema: SchemaRef,
    /// The keys, by their number in this schema.
    keys: Vec<usize>,
    /// The columns that are output, by their number in this schema.
    output: Vec<usize>,
}

impl Layout {
    /// Returns whether rows with null keys decide about the rows of the other side.
    pub(super) fn is_null_aware(&self) -> bool {
        self.null_aware
    }

    pub(super) fn new(stock: &HashJoinExec) -> Result<Self> {
        let schemas = Sides { left: stock.left().schema(), right: stock.right().schema() };
        let (_, all) = build_join_schema(&schemas.left, &schemas.right, stock.join_type());
        let places: Vec<_> = match &stock.projection {
            Some(projection) => projection.iter().map(|&column| all[column].clone()).collect(),
            None => all,
        };
        let mut output = Sides::<Vec<usize>>::default();
        for place in &places {
            if let Some(side) = convert::side(place.side)
                && !output[side].contains(&place.index)
            {
                output[side].push(place.index);
            }
        }
        let arrange = places.iter().map(|place| {
            // The mark is the last column.
            let Some(side) = convert::side(place.side) else { return output.left.len() + output.right.len() };
            let before = if side == Side::Left { 0 } else { output.left.len() };
            before + output[side].iter().take_while(|&&column| column != place.index).count()
        });
        let arrange = arrange.collect();
        let filtered = stock.filter().map_or(&[][..], |filter| filter.column_indices());
        let sides = Sides::try_from_fn(|side| {
            let filtered = filtered.iter().filter(|column| convert::side(column.side) == Some(side));
            let keys: Vec<_> = stock.on().iter().map(|on| if side == Side::Left { &on.0 } else { &on.1 }).collect();
            SideLayout::new(&schemas[side], &output[side], filtered.map(|column| column.index), &keys)
        })?;
        let filter = stock.filter().map(|filter| ExprFilter::new(filter, |side, column| sides[side].place(column)));
        let join = convert::join_type(*stock.join_type());
        let nulls_equal = stock.null_equality() == NullEquality::NullEqualsNull;
        let (filter, null_aware, schema) = (filter.map(Arc::new), stock.null_aware, stock.schema());
        Ok(Self { sides, join, filter, arrange, nulls_equal, null_aware, schema })
    }

    /// Returns whether the join has a filter on pairs.
    pub(super) fn has_filter(&self) -> bool {
        self.filter.is_some()
    }

    /// Returns the keys of a side.
    ///
    /// # Errors
    /// If a key's type cannot be compared.
    pub(super) fn keys(&self, side: Side) -> Result<Keys> {
        let SideLayout { schema, keys, .. } = &self.sides[side];
        Keys::new(schema, keys, self.nulls_equal).map_err(from_join)
    }

    /// Returns the same join with a number of each row of the probe side: the last column of that
    /// side, and of the output.
    pub(super) fn numbered(&self) -> Self {
        let with_number = |schema: &SchemaRef| {
            let number = Arc::new(Field::new("number", DataType::UInt64, false));
            Arc::new(Schema::new(schema.fields().iter().cloned().chain([number]).collect::<Vec<_>>()))
        };
        let mut numbered = Self { schema: with_number(&self.schema), ..self.clone() };
        let place = self.sides.left.output.len() + self.sides.right.output.len();
        // The mark, if there is one, comes behind the number.
        numbered.arrange.iter_mut().filter(|column| **column == place).for_each(|mark| *mark += 1);
        numbered.arrange.push(place);
        let probe = &mut numbered.sides[PROBE];
        probe.output.push(probe.schema.fields().len());
        probe.schema = with_number(&probe.schema);
        numbered
    }

    /// Returns the columns of the operator's output.
    pub(super) fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// Returns the plan of the output, in batches of this many rows.
    pub(super) fn output(&self, batch_rows: usize) -> Result<Output> {
        let schemas = Sides::from_fn(|side| Arc::clone(&self.sides[side].schema));
        let columns = Sides::from_fn(|side| self.sides[side].output.clone());
        let filter = self.filter.clone().map(|filter| filter as _);
        let spec = OutputSpec::new(self.join, BUILD, schemas).with_columns(columns);
        Output::try_new(spec.with_filter(filter).with_batch_rows(batch_rows)).map_err(from_join)
    }

    /// Returns a batch of the operator's output from one of `annulus-join`'s.
    pub(super) fn arrange(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let columns = self.arrange.iter().map(|&column| Arc::clone(batch.column(column))).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }
}

impl SideLayout {
    fn new(
        input: &SchemaRef,
        output: &[usize],
        filtered: impl Iterator<Item = usize>,
        keys: &[&Arc<dyn PhysicalExpr>],
    ) -> Result<Self> {
        let key_column = |key: &&Arc<dyn PhysicalExpr>| key.downcast_ref::<Column>().map(Column::index);
        let wanted: BTreeSet<usize> =
            output.iter().copied().chain(filtered).chain(keys.iter().filter_map(key_column)).collect();
        let columns: Vec<usize> = wanted.into_iter().collect();
        let mut fields: Vec<_> = columns.iter().map(|&column| Arc::clone(&input.fields()[column])).collect();
        let (mut places, mut computed) = (Vec::new(), Vec::new());
        for key in keys {
            places.push(match key_column(key) {
                Some(column) => place(&columns, column),
                None => {
                    computed.push(Arc::clone(key));
                    fields.push(Arc::new(Field::new("key", key.data_type(input)?, true)));
                    fields.len() - 1
                }
            });
        }
        let output = output.iter().map(|&column| place(&columns, column)).collect();
        Ok(Self { columns, computed, schema: Arc::new(Schema::new(fields)), keys: places, output })
    }

    /// Returns the number of a column of the input among those that are read.
    fn place(&self, column: usize) -> usize {
        place(&self.columns, column)
    }

    /// Returns the columns that are read, of a batch of the input.
    pub(super) fn read(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let mut columns: Vec<_> = self.columns.iter().map(|&column| Arc::clone(batch.column(column))).collect();
        for key in &self.computed {
            columns.push(key.evaluate(batch)?.into_array(batch.num_rows())?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }

    /// Returns a batch that [`read`](Self::read) returned, with the numbers of its rows. These are
    /// the columns of a [numbered](Layout::numbered) layout.
    pub(super) fn numbered(&self, read: &RecordBatch, first: u64) -> Result<RecordBatch> {
        let rows = read.num_rows();
        let numbers: ArrayRef = Arc::new(UInt64Array::from_iter_values(first..first + rows as u64));
        let columns = read.columns().iter().cloned().chain([numbers]).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }

    /// Returns the keys of a batch that [`read`](Self::read) returned.
    pub(super) fn key_columns(&self, read: &RecordBatch) -> Vec<ArrayRef> {
        self.keys.iter().map(|&key| Arc::clone(read.column(key))).collect()
    }

    /// Returns whether a row of a batch that [`read`](Self::read) returned has a null key.
    pub(super) fn has_null_key(&self, read: &RecordBatch) -> bool {
        self.keys.iter().any(|&key| read.column(key).logical_null_count() > 0)
    }

    /// Returns the rows with a null key, of a batch that [`read`](Self::read) returned.
    pub(super) fn null_keys(&self, read: &RecordBatch) -> Vec<u32> {
        let nulls: Vec<_> = self.keys.iter().filter_map(|&key| read.column(key).logical_nulls()).collect();
        (0..read.num_rows() as u32).filter(|&row| nulls.iter().any(|nulls| nulls.is_null(row as usize))).collect()
    }
}

fn place(columns: &[usize], column: usize) -> usize {
    columns.partition_point(|&kept| kept < column)
}
