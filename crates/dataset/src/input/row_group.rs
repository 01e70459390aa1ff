//! A row group of a Parquet file, or a range of its rows.

use std::{error::Error, fs::File, ops::Range, sync::Arc};

use annulus_parquet::{CodesReader, Column, SharedDictionary};
use arrow::{
    array::{ArrayRef, RecordBatch, RecordBatchOptions},
    datatypes::SchemaRef,
};
use parquet::{
    arrow::{ProjectionMask, arrow_reader::ParquetRecordBatchReaderBuilder},
    file::reader::ChunkReader,
};

use super::{
    parquet::ParquetFile,
    schema::{Projection, project},
    unit::{Batches, DecodedBatch, Part},
};
use crate::{
    codes::{Codes, CodesLayout},
    error::DatasetError,
};

/// The bytes of a batch of rows with codes, as they are in the file without compression.
const CODED_BATCH_BYTES: usize = 4 << 20;
/// The most rows of a batch with codes.
const MAX_CODED_ROWS: usize = 1 << 16;

/// A range of the rows of a row group.
pub(super) struct RowGroup {
    pub(super) file: Arc<ParquetFile>,
    pub(super) group: usize,
    pub(super) rows: Range<usize>,
    /// The columns of the dataset.
    pub(super) schema: SchemaRef,
    pub(super) batch_rows: usize,
}

impl RowGroup {
    /// Returns the leaf of the file that is a column of the dataset, if it is a flat one of its type.
    fn flat(&self, column: usize) -> Option<Column> {
        let metadata = &self.file.metadata;
        let (root, field) = metadata.schema().column_with_name(self.schema.field(column).name())?;
        let leaves = metadata.parquet_schema();
        let leaf = (0..leaves.num_columns()).find(|&leaf| leaves.get_column_root_idx(leaf) == root)?;
        let fits = field.data_type() == self.schema.field(column).data_type();
        Column::try_new(leaf, &leaves.column(leaf), field.data_type()).ok().filter(|_| fits)
    }

    /// Returns a reader of a column as codes, at the first row; `None` if the dictionary does not take the chunk's.
    fn codes(
        &self,
        file: &File,
        column: usize,
        dictionary: &SharedDictionary,
    ) -> Result<Option<CodesReader>, Box<dyn Error>> {
        let Some(flat) = self.flat(column).filter(|_| !dictionary.is_stopped()) else { return Ok(None) };
        let chunk = self.file.metadata.metadata().row_group(self.group).column(flat.index());
        let (start, length) = chunk.byte_range();
        let bytes = file.get_bytes(start, usize::try_from(length)?)?;
        let mut reader = CodesReader::try_new(flat.clone(), chunk, bytes, self.file.rows_of(self.group), dictionary)?;
        reader.as_mut().map_or(Ok(()), |reader| reader.skip(self.rows.start))?;
        Ok(reader)
    }

    /// Reads the values of all columns, or of those at `columns`.
    fn values(&self, columns: Option<&[usize]>, batch_rows: usize) -> Result<Batches, DatasetError> {
        let rows = self.rows.clone();
        let path = self.file.path.clone();
        let schema = project(&self.schema, columns)?;
        let file_fields = self.file.metadata.schema().fields();
        let roots: Vec<usize> = (0..file_fields.len())
            .filter(|&root| schema.column_with_name(file_fields[root].name()).is_some())
            .collect();
        let projection = Projection::new(roots.iter().map(|&root| file_fields[root].name()), &schema);

        let file = File::open(&self.file.place).map_err(DatasetError::io("open", &path))?;
        let corrupt = self.corrupt();
        let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file, self.file.metadata.clone());
        let mask = ProjectionMask::roots(builder.parquet_schema(), roots);
        let reader = builder
            .with_row_groups(vec![self.group])
            .with_projection(mask)
            .with_batch_size(batch_rows)
            .with_offset(rows.start)
            .with_limit(rows.len())
            .build()
            .map_err(|error| corrupt(&error))?;

        let rows = rows.len().max(1) as u64;
        let bytes = self.bytes();
        Ok(Box::new(reader.map(move |batch| {
            let batch = batch.and_then(|batch| projection.apply(&batch)).map_err(|error| corrupt(&error))?;
            let input_bytes = (u128::from(bytes) * batch.num_rows() as u128 / u128::from(rows)) as u64;
            Ok(DecodedBatch { batch, input_bytes, bad: vec![] })
        })))
    }

    /// Returns the rows of a batch whose columns are codes for the most part: more than otherwise, if they are
    /// short, so that a partition has many of them.
    fn coded_rows(&self) -> usize {
        let group = self.file.metadata.metadata().row_group(self.group);
        let bytes = usize::try_from(group.total_byte_size()).unwrap_or(usize::MAX);
        let row_bytes = (bytes / self.file.rows_of(self.group).max(1)).max(1);
        (CODED_BATCH_BYTES / row_bytes).min(MAX_CODED_ROWS).max(self.batch_rows)
    }

    /// Returns the error of a damaged row group.
    fn corrupt(&self) -> impl Fn(&dyn Error) -> DatasetError + Send + use<> {
        let (path, group) = (self.file.path.clone(), self.group);
        move |error| {
            DatasetError::corrupt(
                &path,
                format!("row group {group}: {error} (bad rows are skipped line by line, never by whole row groups)"),
            )
        }
    }
}

impl Part for RowGroup {
    fn path(&self) -> &str {
        &self.file.path
    }

    fn bytes(&self) -> u64 {
        let whole = self.file.metadata.metadata().row_group(self.group).compressed_size().max(0) as u128;
        (whole * self.rows.len() as u128 / self.file.rows_of(self.group).max(1) as u128) as u64
    }

    fn rows(&self) -> Option<u64> {
        Some(self.rows.len() as u64)
    }

    fn read(&self, columns: Option<&[usize]>) -> Result<Batches, DatasetError> {
        self.values(columns, self.batch_rows)
    }

    fn has_codes(&self, column: usize, dictionary: &SharedDictionary) -> bool {
        let group = self.file.metadata.metadata().row_group(self.group);
        self.flat(column).is_some_and(|flat| {
            let leaf = self.file.metadata.parquet_schema().column(flat.index());
            let chunk = group.column(flat.index());
            dictionary.takes(&flat, &leaf) && (group.num_rows() == 0 || CodesReader::reads(&flat, chunk))
        })
    }

    fn read_codes(&self, codes: &Codes) -> Result<(CodesLayout, Batches), DatasetError> {
        if self.rows.is_empty() {
            return Ok((CodesLayout::values(codes.len()), self.read(None)?));
        }
        let file = File::open(&self.file.place).map_err(DatasetError::io("open", &self.file.path))?;
        let corrupt = self.corrupt();
        let mut readers: Vec<Option<CodesReader>> = (0..codes.len()).map(|_| None).collect();
        for (column, encoding) in codes.columns() {
            let reader = self.codes(&file, column, encoding.dictionary());
            readers[column] = reader.map_err(|error| corrupt(&*error))?;
        }
        let layout = CodesLayout::new(readers.iter().map(Option::is_some));
        let schema = layout.schema(&self.schema);
        let values: Vec<usize> = (0..readers.len()).filter(|&column| readers[column].is_none()).collect();
        let batches = self.values(Some(&values), self.coded_rows())?.map(move |decoded| {
            let DecodedBatch { batch, input_bytes, bad } = decoded?;
            let batch = with_codes(&batch, &mut readers, &schema).map_err(|error| corrupt(&*error))?;
            Ok(DecodedBatch { batch, input_bytes, bad })
        });
        Ok((layout, Box::new(batches)))
    }
}

/// Returns the rows with the columns of `schema`: those that have a reader from there, the others in their order.
fn with_codes(
    values: &RecordBatch,
    readers: &mut [Option<CodesReader>],
    schema: &SchemaRef,
) -> Result<RecordBatch, Box<dyn Error>> {
    let rows = values.num_rows();
    let mut values = values.columns().iter().cloned();
    let mut columns: Vec<ArrayRef> = Vec::with_capacity(readers.len());
    for reader in readers {
        match reader {
            Some(reader) => columns.push(Arc::new(reader.read(rows)?)),
            None => columns.extend(values.next()),
        }
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
}
