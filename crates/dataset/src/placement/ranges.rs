//! Ranges of keys between split points.

use std::sync::Arc;

use annulus_rows::partition::{RangePartitioner, Target};
use arrow::{
    array::{Array, ArrayRef, RecordBatch, StringArray, new_empty_array},
    compute::SortOptions,
    datatypes::{Schema, SchemaRef},
    row::{RowConverter, SortField},
};

use super::hash::{key_columns, keys_of};
use crate::{
    error::{DatasetError, DatasetOption},
    exact::parse_column,
};

/// Split points, and the key columns that are compared with them.
#[derive(Debug)]
pub(super) struct Ranges {
    columns: Vec<usize>,
    points: Vec<ArrayRef>,
}

impl Ranges {
    /// Returns the ranges between split points that ascend strictly, at most one fewer than
    /// partitions.
    pub(super) fn new(
        schema: &SchemaRef,
        keys: &[String],
        points: Vec<ArrayRef>,
        partitions: usize,
    ) -> Result<Self, DatasetError> {
        let columns = key_columns(schema, keys)?;
        let types = points.iter().map(|points| points.data_type());
        if !types.eq(columns.iter().map(|&column| schema.field(column).data_type())) {
            return Err(wrong("of other types than the keys".to_owned(), "give values of the key columns' types"));
        }
        if points[0].len() >= partitions {
            return Err(wrong(
                format!("{} values for {partitions} partitions", points[0].len()),
                &format!("give one value fewer than partitions ({})", DatasetOption::Into),
            ));
        }
        converter(schema, &columns)?;
        let ranges = Self { columns, points };
        ranges.partitioner()?;
        Ok(ranges)
    }

    /// Returns the ranges between split points as text, exactly one fewer than partitions, in
    /// ascending order.
    pub(super) fn from_text(
        schema: &SchemaRef,
        keys: &[String],
        points: &[Vec<String>],
        partitions: usize,
    ) -> Result<Self, DatasetError> {
        let columns = key_columns(schema, keys)?;
        if points.len() + 1 != partitions {
            let given = format!("{} values for {partitions} partitions", points.len());
            let remedy = format!("give exactly one value fewer than partitions ({})", DatasetOption::Into);
            return Err(wrong(given, &remedy));
        }
        if let Some(point) = points.iter().find(|point| point.len() != keys.len()) {
            return Err(wrong(format!("'{}'", point.join(",")), "give each split point one value for each key column"));
        }
        let order = converter(schema, &columns)?;
        let texts = |key: usize| points.iter().map(|point| Some(point[key].as_str())).collect();
        let typed = columns.iter().enumerate().map(|(key, &column)| typed(schema, column, texts(key)));
        let typed = typed.collect::<Result<Vec<_>, _>>()?;
        let order = order.convert_columns(&typed)?;
        let text = |point: usize| points[point].join(",");
        match (1..points.len()).find(|&point| order.row(point - 1) >= order.row(point)) {
            Some(twice) if order.row(twice - 1) == order.row(twice) => {
                Err(wrong(format!("'{}' twice", text(twice)), "give each split point once"))
            }
            Some(second) => {
                let pair = format!("'{}' before '{}'", text(second - 1), text(second));
                Err(wrong(pair, "give the split points in ascending order"))
            }
            None => Self::new(schema, keys, typed, partitions),
        }
    }

    /// Returns the columns of split points whose values are given as text or null.
    pub(super) fn columns_from_text(
        schema: &SchemaRef,
        keys: &[String],
        points: &[Vec<Option<String>>],
    ) -> Result<Vec<ArrayRef>, DatasetError> {
        let columns = key_columns(schema, keys)?.into_iter().enumerate();
        let texts = |key: usize| points.iter().map(move |point| point.get(key)?.as_deref());
        columns.map(|(key, column)| typed(schema, column, texts(key).collect())).collect()
    }

    pub(super) fn points(&self) -> &[ArrayRef] {
        &self.points
    }

    /// Writes the partition of each row to `targets`. `state` is empty at first; each thread has
    /// its own.
    pub(super) fn targets(
        &self,
        batch: &RecordBatch,
        state: &mut Option<RangePartitioner>,
        targets: &mut Vec<Target>,
    ) -> Result<(), DatasetError> {
        let partitioner = match state {
            Some(partitioner) => partitioner,
            None => state.insert(self.partitioner()?),
        };
        Ok(partitioner.targets(&keys_of(batch, &self.columns)?, targets)?)
    }

    fn partitioner(&self) -> Result<RangePartitioner, DatasetError> {
        Ok(RangePartitioner::try_new(&self.points, &vec![SortOptions::default(); self.points.len()])?)
    }
}

/// Returns the values of one key column at all split points.
fn typed(schema: &Schema, column: usize, texts: StringArray) -> Result<ArrayRef, DatasetError> {
    let field = schema.field(column);
    if texts.is_empty() {
        return Ok(new_empty_array(field.data_type()));
    }
    parse_column(&(Arc::new(texts) as ArrayRef), field.data_type()).map_err(|error| DatasetError::Key {
        column: field.name().clone(),
        reason: format!("a value of {} is not of its type, {}: {error}", DatasetOption::Ranges, field.data_type()),
    })
}

/// Returns a converter that orders keys, nulls first.
pub(crate) fn converter(schema: &Schema, columns: &[usize]) -> Result<RowConverter, DatasetError> {
    let sort = columns.iter().map(|&column| SortField::new(schema.field(column).data_type().clone()));
    RowConverter::new(sort.collect()).map_err(|error| {
        let names: Vec<_> = columns.iter().map(|&column| schema.field(column).name().as_str()).collect();
        DatasetError::Key { column: names.join(", "), reason: format!("its values have no order: {error}") }
    })
}

fn wrong(value: String, remedy: &str) -> DatasetError {
    DatasetError::Config { option: DatasetOption::Ranges, value, remedy: remedy.to_owned() }
}
