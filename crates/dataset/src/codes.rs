//! Columns that a job moves as codes: from the dictionaries of Parquet files to those of others, without
//! looking at the values of rows.

use std::sync::Arc;

use annulus_parquet::CodesEncoding;
use arrow::{
    array::{Array, ArrayRef},
    compute::take,
    datatypes::{DataType, Field, Schema, SchemaRef},
};
use parquet::errors::ParquetError;

/// The dictionaries of a job, for those of its columns that are moved as codes.
#[derive(Debug)]
pub(crate) struct Codes {
    columns: Vec<Option<Arc<CodesEncoding>>>,
}

/// The columns of a batch that have codes in place of values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CodesLayout(Arc<[bool]>);

/// The columns of a batch that have codes, with their dictionaries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchCodes<'a> {
    pub(crate) codes: &'a Codes,
    pub(crate) layout: &'a CodesLayout,
}

impl Codes {
    /// Returns the dictionaries of the columns of a dataset; `None` for those that are moved as values.
    pub(crate) fn new(columns: Vec<Option<Arc<CodesEncoding>>>) -> Self {
        Self { columns }
    }

    /// Returns the number of columns of the dataset.
    pub(crate) fn len(&self) -> usize {
        self.columns.len()
    }

    /// Returns whether any column has a dictionary.
    pub(crate) fn any(&self) -> bool {
        self.columns.iter().any(Option::is_some)
    }

    /// Returns the columns that have a dictionary, by number.
    pub(crate) fn columns(&self) -> impl Iterator<Item = (usize, &Arc<CodesEncoding>)> {
        self.columns.iter().enumerate().filter_map(|(column, encoding)| Some((column, encoding.as_ref()?)))
    }

    /// Returns the encoding of a column.
    pub(crate) fn encoding(&self, column: usize) -> Option<&Arc<CodesEncoding>> {
        self.columns[column].as_ref()
    }

    /// Returns the values of a column's codes.
    ///
    /// # Errors
    /// If the column has no dictionary.
    pub(crate) fn values(&self, column: usize, codes: &dyn Array) -> Result<ArrayRef, ParquetError> {
        let encoding = self.encoding(column).ok_or_else(|| ParquetError::General("a dictionary is missing".into()))?;
        let values = encoding.dictionary().to_array().map_err(|error| ParquetError::External(Box::new(error)))?;
        Ok(take(&values, codes, None)?)
    }
}

impl CodesLayout {
    /// Returns the layout with codes in the columns that `is_coded` tells.
    pub(crate) fn new(is_coded: impl IntoIterator<Item = bool>) -> Self {
        Self(is_coded.into_iter().collect())
    }

    /// Returns the layout of `columns` columns of values.
    pub(crate) fn values(columns: usize) -> Self {
        Self::new(std::iter::repeat_n(false, columns))
    }

    /// Returns whether a column has codes.
    pub(crate) fn is_coded(&self, column: usize) -> bool {
        self.0[column]
    }

    /// Returns the schema of batches of a dataset with columns of `schema`.
    pub(crate) fn schema(&self, schema: &SchemaRef) -> SchemaRef {
        if !self.0.contains(&true) {
            return Arc::clone(schema);
        }
        let fields = schema.fields().iter().zip(&*self.0).map(|(field, &is_coded)| match is_coded {
            true => Arc::new(Field::clone(field).with_data_type(DataType::UInt16)),
            false => Arc::clone(field),
        });
        Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), schema.metadata().clone()))
    }
}
