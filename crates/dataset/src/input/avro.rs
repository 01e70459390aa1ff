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
    schema::Projection,
    unit::{Batches, DecodedBatch, Part, Source, guard},
    whole::WholeFile,
};
use crate::error::DatasetError;

/// Reads the header of a file.
pub(super) fn open(file: &InputFile) -> Result<Box<dyn Source>, DatasetError> {
    guard(&file.path, || {
        let reader = reader(file, 1)?;
        check_whole(file, &reader.avro_header().sync())?;
        let schema = reader.schema();
        Ok(Box::new(AvroFile { file: file.clone(), schema }) as Box<dyn Source>)
    })
}

/// Checks that the file ends with its marker, as every block does. The decoder does not notice if
/// the last block is cut short.
fn check_whole(file: &InputFile, marker: &[u8]) -> Result<(), DatasetError> {
    let mut end = vec![0; marker.len()];
    let mut reader = File::open(&file.place).map_err(DatasetError::io("open", &file.path))?;
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
        let Self { file, schema: found } = *self;
        let read = move |file: &InputFile, schema: &SchemaRef| read(file, batch_rows, &found, schema);
        vec![Box::new(WholeFile { file, schema: Arc::clone(schema), read })]
    }
}

/// Returns the batches of a file whose columns are `found`, with the columns of `schema`.
fn read(file: &InputFile, batch_rows: usize, found: &SchemaRef, schema: &SchemaRef) -> Result<Batches, DatasetError> {
    let projection = Projection::new(found.fields().iter().map(|field| field.name()), schema);
    let path = file.path.clone();
    let mut input_bytes = file.bytes;
    Ok(Box::new(reader(file, batch_rows)?.map(move |batch| {
        let batch = batch.map_err(|error| DatasetError::corrupt(&path, error))?;
        // The decoder does not report how much of the file it has read.
        let input_bytes = std::mem::take(&mut input_bytes);
        Ok(DecodedBatch { batch: projection.apply(&batch)?, input_bytes, bad: vec![] })
    })))
}

fn reader(file: &InputFile, batch_rows: usize) -> Result<Reader<BufReader<File>>, DatasetError> {
    let reader = File::open(&file.place).map_err(DatasetError::io("open", &file.path))?;
    let reader = ReaderBuilder::new().with_batch_size(batch_rows).build(BufReader::new(reader));
    reader.map_err(|error| DatasetError::corrupt(&file.path, error))
}
