//! One schema for the files of a dataset.

use std::{collections::HashMap, sync::Arc};

use arrow::{
    array::{RecordBatch, RecordBatchOptions},
    datatypes::{Field, Schema, SchemaRef},
    error::ArrowError,
};

use crate::error::DatasetError;

/// The schema of all files: the columns of the first in its order, nullable where one file's are.
///
/// # Errors
/// If a file has a column twice, lacks one, has one more, or has one of another type.
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
            if found.data_type() != field.data_type() {
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

/// Where each column stands.
fn places<'a>(path: &str, schema: &'a Schema) -> Result<HashMap<&'a str, usize>, DatasetError> {
    let mut places = HashMap::with_capacity(schema.fields().len());
    for (place, field) in schema.fields().iter().enumerate() {
        if places.insert(field.name().as_str(), place).is_some() {
            let reason = "stands there twice; columns are told apart by name".to_owned();
            return Err(DatasetError::Schema { path: path.to_owned(), column: field.name().clone(), reason });
        }
    }
    Ok(places)
}

/// Columns of a file's batches in the order of the dataset's schema, or of chosen columns of it.
#[derive(Clone, Debug)]
pub(super) struct Projection {
    schema: SchemaRef,
    /// For each column of `schema` its place in a batch.
    places: Vec<usize>,
}

impl Projection {
    /// From batches with the columns named `from`, to those of `to`; the names that are missing are left out.
    pub(super) fn new<'a>(from: impl IntoIterator<Item = &'a String>, to: &SchemaRef) -> Self {
        let from: HashMap<&str, usize> =
            from.into_iter().enumerate().map(|(place, name)| (name.as_str(), place)).collect();
        let places = to.fields().iter().filter_map(|field| from.get(field.name().as_str()).copied()).collect();
        Self { schema: Arc::clone(to), places }
    }

    /// `batch` with the columns of the dataset.
    pub(super) fn apply(&self, batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
        let columns = batch.columns();
        let columns = self.places.iter().map(|&place| Arc::clone(&columns[place])).collect();
        let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &rows)
    }
}

/// The columns at `columns`, or all of them.
pub(super) fn project(schema: &SchemaRef, columns: Option<&[usize]>) -> Result<SchemaRef, ArrowError> {
    columns.map_or_else(|| Ok(Arc::clone(schema)), |columns| schema.project(columns).map(Arc::new))
}
