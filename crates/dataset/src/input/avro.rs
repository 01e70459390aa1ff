//! Avro files: a unit is a whole file.

use std::{fs::File, io::BufReader, sync::Arc};

use arrow::datatypes::SchemaRef;
use arrow_avro::reader::{Reader, ReaderBuilder};

use super::{
    InputOptions,
    paths::InputFile,
    schema::{Projection, project},
    unit::{Batches, Decoded, Part, Source, guard},
};
use crate::error::DatasetError;

/// Reads the header of a file.
pub(super) fn open(file: &InputFile) -> Result<Box<dyn Source>, DatasetError> {
    guard(&file.path, || {
        let schema = reader(&file.path, 1)?.schema();
        Ok(Box::new(AvroFile { file: file.clone(), schema }) as Box<dyn Source>)
    })
}

struct AvroFile {
    file: InputFile,
    schema: SchemaRef,
}

impl Source for AvroFile {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn parts(self: Box<Self>, schema: &SchemaRef, options: &InputOptions) -> Vec<Box<dyn Part>> {
        let batch_rows = options.batch_rows.max(1);
        vec![Box::new(WholeFile { file: self.file, found: self.schema, schema: Arc::clone(schema), batch_rows })]
    }
}

struct WholeFile {
    file: InputFile,
    /// The columns of the file, and those of the dataset.
    found: SchemaRef,
    schema: SchemaRef,
    batch_rows: usize,
}

impl Part for WholeFile {
    fn path(&self) -> &str {
        &self.file.path
    }

    fn bytes(&self) -> u64 {
        self.file.bytes
    }

    fn read(&self, columns: Option<&[usize]>) -> Result<Batches, DatasetError> {
        let schema = project(&self.schema, columns)?;
        let projection = Projection::new(self.found.fields().iter().map(|field| field.name()), &schema);
        let path = self.file.path.clone();
        let mut input_bytes = self.file.bytes;
        Ok(Box::new(reader(&path, self.batch_rows)?.map(move |batch| {
            let batch = batch.map_err(|error| DatasetError::corrupt(&path, error))?;
            // How far the decoder is in the file, it does not tell.
            let input_bytes = std::mem::take(&mut input_bytes);
            Ok(Decoded { batch: projection.apply(&batch)?, input_bytes, bad: vec![] })
        })))
    }
}

fn reader(path: &str, batch_rows: usize) -> Result<Reader<BufReader<File>>, DatasetError> {
    let file = File::open(path).map_err(DatasetError::io("open", path))?;
    let reader = ReaderBuilder::new().with_batch_size(batch_rows).build(BufReader::new(file));
    reader.map_err(|error| DatasetError::corrupt(path, error))
}
