//! Avro files: a unit is a whole file.

use std::{
    fs::File,
    io::{BufReader, Read, Seek, SeekFrom},
    sync::Arc,
};

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
        let reader = reader(&file.path, 1)?;
        check_whole(file, &reader.avro_header().sync())?;
        let schema = reader.schema();
        Ok(Box::new(AvroFile { file: file.clone(), schema }) as Box<dyn Source>)
    })
}

/// Every block ends with the file's marker; the decoder does not miss a last block that is cut
/// short.
fn check_whole(file: &InputFile, marker: &[u8]) -> Result<(), DatasetError> {
    let mut end = vec![0; marker.len()];
    let mut reader = File::open(&file.path).map_err(DatasetError::io("open", &file.path))?;
    let read = reader.seek(SeekFrom::End(-(marker.len() as i64))).and_then(|_| reader.read_exact(&mut end));
    read.map_err(DatasetError::io("read", &file.path))?;
    if end == marker {
        Ok(())
    } else {
        Err(DatasetError::corrupt(&file.path, "it is cut short: its last block has no end"))
    }
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
