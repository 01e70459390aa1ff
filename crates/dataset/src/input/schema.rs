//! One schema for the files of a dataset.

use std::{collections::HashMap, sync::Arc};

use arrow::{
    array::{RecordBatch, RecordBatchOptions},
    datatypes::{Schema, SchemaRef},
    error::ArrowError,
};

use super::{ColumnType, ColumnTypes, names::type_of_column};
use crate::error::{DatasetError, DatasetOption};

/// Returns an error unless each column with a given type has it: files that store types keep
/// theirs.
pub(super) fn check_given(schema: &Schema, types: &ColumnTypes) -> Result<(), DatasetError> {
    for (column, ColumnType(given)) in &types.columns {
        if let Some(found) = type_of_column(schema, column)
            && found != *given
        {
            return Err(DatasetError::Config {
                option: DatasetOption::Types,
                value: format!("'{column}={given}'"),
                remedy: format!("its files store {found}; cast it in a query"),
            });
        }
    }
    Ok(())
}

/// Brings the columns of a file's batches into the order of the dataset's schema, or of columns
/// chosen from it.
#[derive(Clone, Debug)]
pub(super) struct Projection {
    schema: SchemaRef,
    /// For each column of `schema`, its position in a batch.
    places: Vec<usize>,
}

impl Projection {
    /// Returns the projection of batches with the columns named `from` to the columns of `to`.
    /// Columns of `to` that are not in `from` are left out.
    pub(super) fn new<'a>(from: impl IntoIterator<Item = &'a String>, to: &SchemaRef) -> Self {
        let from: HashMap<&str, usize> =
            from.into_iter().enumerate().map(|(place, name)| (name.as_str(), place)).collect();
        let places = to.fields().iter().filter_map(|field| from.get(field.name().as_str()).copied()).collect();
        Self { schema: Arc::clone(to), places }
    }

    /// Returns `batch` with the columns of the dataset.
    pub(super) fn apply(&self, batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
        let columns = self.places.iter().map(|&place| Arc::clone(batch.column(place))).collect();
        let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &rows)
    }
}

/// Returns the columns at `columns`, or all of them.
pub(super) fn project(schema: &SchemaRef, columns: Option<&[usize]>) -> Result<SchemaRef, ArrowError> {
    columns.map_or_else(|| Ok(Arc::clone(schema)), |columns| schema.project(columns).map(Arc::new))
}
