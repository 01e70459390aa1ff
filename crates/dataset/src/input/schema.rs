//! One schema for the files of a dataset.

use std::{collections::HashMap, sync::Arc};

use arrow::{
    array::{RecordBatch, RecordBatchOptions},
    compute::cast,
    datatypes::{DataType, Field, FieldRef, Schema, SchemaRef},
    error::ArrowError,
};

use super::{ColumnType, ColumnTypes};
use crate::error::DatasetError;

/// Returns the schema of all files: the columns of the first file in its order. A column is
/// nullable if it is in any file.
///
/// # Errors
/// If a file has a column twice, lacks one, has an additional one, or has one of another type. The
/// types of text count as the same, whatever their layout, and so do those of bytes.
pub(super) fn unify(files: &[(String, SchemaRef)]) -> Result<SchemaRef, DatasetError> {
    let Some((first_path, first)) = files.first() else { return Ok(Arc::new(Schema::empty())) };
    let mut fields: Vec<Arc<Field>> = first.fields().iter().cloned().collect();
    for (path, schema) in files {
        let differs = |column: &str, reason: String| DatasetError::Schema {
            path: path.clone(),
            column: column.to_owned(),
            reason,
        };
        let places = places(path, schema)?;
        for field in &mut fields {
            let Some(&place) = places.get(field.name().as_str()) else {
                let reason =
                    format!("is missing, but '{first_path}' has it; files of one dataset have the same columns");
                return Err(differs(field.name(), reason));
            };
            let found = schema.field(place);
            if !is_same(found.data_type(), field.data_type()) {
                let reason = format!(
                    "has type {}, but {} in '{first_path}'; files of one dataset have the same types",
                    found.data_type(),
                    field.data_type()
                );
                return Err(differs(field.name(), reason));
            }
            if found.is_nullable() && !field.is_nullable() {
                *field = Arc::new(field.as_ref().clone().with_nullable(true));
            }
        }
        if let Some(more) = schema.fields().iter().find(|field| first.field_with_name(field.name()).is_err()) {
            let reason = format!("is not in '{first_path}'; files of one dataset have the same columns");
            return Err(differs(more.name(), reason));
        }
    }
    Ok(Arc::new(Schema::new_with_metadata(fields, first.metadata().clone())))
}

/// Returns whether two types have the same values, possibly in another layout.
fn is_same(left: &DataType, right: &DataType) -> bool {
    let is_bytes = |of: &DataType| matches!(of, DataType::Binary | DataType::LargeBinary | DataType::BinaryView);
    left == right || left.is_string() && right.is_string() || is_bytes(left) && is_bytes(right)
}

/// Returns an error unless each column with a given type has it: files that store types keep
/// theirs.
pub(super) fn check_given(schema: &Schema, types: &ColumnTypes) -> Result<(), DatasetError> {
    for (column, ColumnType(given)) in &types.columns {
        if let Ok(field) = schema.field_with_name(column)
            && field.data_type() != given
        {
            return Err(DatasetError::Config {
                option: "types",
                value: format!("'{column}={given}'"),
                remedy: format!("its files store {}; cast it in a query", field.data_type()),
            });
        }
    }
    Ok(())
}

/// Returns the position of each column.
fn places<'a>(path: &str, schema: &'a Schema) -> Result<HashMap<&'a str, usize>, DatasetError> {
    let mut places = HashMap::with_capacity(schema.fields().len());
    for (place, field) in schema.fields().iter().enumerate() {
        if places.insert(field.name().as_str(), place).is_some() {
            let reason = "appears twice; columns are distinguished by name".to_owned();
            return Err(DatasetError::Schema { path: path.to_owned(), column: field.name().clone(), reason });
        }
    }
    Ok(places)
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
        let columns = batch.columns();
        let column = |(&place, field): (&usize, &FieldRef)| {
            let column = &columns[place];
            if column.data_type() == field.data_type() {
                Ok(Arc::clone(column))
            } else {
                cast(column, field.data_type())
            }
        };
        let columns = self.places.iter().zip(self.schema.fields()).map(column).collect::<Result<_, _>>()?;
        let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &rows)
    }
}

/// Returns the columns at `columns`, or all of them.
pub(super) fn project(schema: &SchemaRef, columns: Option<&[usize]>) -> Result<SchemaRef, ArrowError> {
    columns.map_or_else(|| Ok(Arc::clone(schema)), |columns| schema.project(columns).map(Arc::new))
}
