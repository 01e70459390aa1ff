//! Columns that a job moves as codes: from the dictionaries of Parquet files to those of others, without
//! looking at the values of rows.

use std::sync::Arc;

use annulus_parquet::CodesEncoding;
use arrow::{
    array::{Array, ArrayRef, AsArray, DictionaryArray, RecordBatch, RecordBatchOptions},
    compute::take,
    datatypes::{DataType, Field, Schema, SchemaRef, UInt16Type},
    error::ArrowError,
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
    codes: &'a Codes,
    layout: &'a CodesLayout,
    /// The positions of the batch's columns among those of the dataset; `None` if it has all of them.
    columns: Option<&'a [usize]>,
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

impl<'a> BatchCodes<'a> {
    /// Returns the codes of batches that have all columns.
    pub(crate) fn new(codes: &'a Codes, layout: &'a CodesLayout) -> Self {
        Self { codes, layout, columns: None }
    }

    /// Returns the codes of batches that have only `columns`.
    pub(crate) fn project(self, columns: &'a [usize]) -> Self {
        Self { columns: Some(columns), ..self }
    }

    /// Returns whether a column of the batch has codes.
    pub(crate) fn is_coded(&self, column: usize) -> bool {
        self.layout.is_coded(self.in_dataset(column))
    }

    /// Returns the encoding of a column of the batch; `None` if it has values.
    pub(crate) fn encoding(&self, column: usize) -> Option<&'a Arc<CodesEncoding>> {
        self.codes.encoding(self.in_dataset(column)).filter(|_| self.is_coded(column))
    }

    /// Returns the values of a column of the batch.
    pub(crate) fn values(&self, column: usize, array: &ArrayRef) -> Result<ArrayRef, ParquetError> {
        if !self.is_coded(column) {
            return Ok(Arc::clone(array));
        }
        self.codes.values(self.in_dataset(column), array)
    }

    /// Returns a column of the batch as values or, if it has codes, as these with their dictionary.
    pub(crate) fn dictionary(&self, column: usize, array: &ArrayRef) -> Result<ArrayRef, ParquetError> {
        let Some(encoding) = self.encoding(column) else { return Ok(Arc::clone(array)) };
        let values = encoding.dictionary().to_array().map_err(|error| ParquetError::External(Box::new(error)))?;
        let codes = array.as_primitive::<UInt16Type>().clone();
        Ok(Arc::new(DictionaryArray::try_new(codes, values)?))
    }

    /// Returns a batch with all columns of the dataset, whose schema is `schema`, as values.
    pub(crate) fn decode(&self, batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
        let columns = batch.columns().iter().enumerate().map(|(column, array)| self.values(column, array));
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(Arc::clone(schema), columns.collect::<Result<_, _>>()?, &options)
    }

    fn in_dataset(&self, column: usize) -> usize {
        self.columns.map_or(column, |columns| columns[column])
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
