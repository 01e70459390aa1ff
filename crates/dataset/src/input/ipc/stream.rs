//! Arrow IPC streams, in a file or from elsewhere: one unit.

use std::{
    fs::File,
    io::{BufReader, Read},
    sync::Arc,
};

use arrow::datatypes::SchemaRef;
use parking_lot::Mutex;

use super::message::{Decoder, Message};
use crate::{
    error::{DatasetError, DatasetOption},
    input::{
        InputOptions,
        paths::InputFile,
        schema::{Projection, project},
        unit::{Batches, DecodedBatch, Part, Source, guard},
        whole::WholeFile,
    },
};

/// A file that holds a stream.
pub(super) struct StreamFile {
    file: InputFile,
    schema: SchemaRef,
}

impl StreamFile {
    pub(super) fn open(file: &InputFile) -> Result<Self, DatasetError> {
        let (_, schema) = Decoder::of_stream(&mut reader(file)?, &file.path)?;
        Ok(Self { file: file.clone(), schema })
    }
}

impl Source for StreamFile {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn parts(self: Box<Self>, schema: &SchemaRef, _options: &InputOptions) -> Vec<Box<dyn Part>> {
        vec![Box::new(WholeFile { file: self.file, schema: Arc::clone(schema), read })]
    }
}

fn read(file: &InputFile, schema: &SchemaRef) -> Result<Batches, DatasetError> {
    let mut reader = reader(file)?;
    let (decoder, found) = Decoder::of_stream(&mut reader, &file.path)?;
    Ok(batches(Box::new(reader), decoder, &found, schema, file.path.clone()))
}

/// A stream that can be read once.
pub(in crate::input) struct Once {
    name: String,
    schema: SchemaRef,
    stream: Mutex<Option<(Box<dyn Read + Send>, Decoder)>>,
}

impl Once {
    /// Reads the schema. Errors use `name` for the stream.
    pub(in crate::input) fn open(name: &str, mut reader: Box<dyn Read + Send>) -> Result<Self, DatasetError> {
        guard(name, move || {
            let (decoder, schema) = Decoder::of_stream(&mut reader, name)?;
            Ok(Self { name: name.to_owned(), schema, stream: Mutex::new(Some((reader, decoder))) })
        })
    }

    pub(in crate::input) fn schema(&self) -> &SchemaRef {
        &self.schema
    }
}

impl Part for Once {
    fn path(&self) -> &str {
        &self.name
    }

    fn bytes(&self) -> u64 {
        0
    }

    fn read(&self, columns: Option<&[usize]>) -> Result<Batches, DatasetError> {
        let (reader, decoder) = self.stream.lock().take().ok_or_else(|| DatasetError::Config {
            option: DatasetOption::Inputs,
            value: self.name.clone(),
            remedy: "it can be read only once; put it into a file".to_owned(),
        })?;
        let schema = project(&self.schema, columns)?;
        Ok(batches(reader, decoder, &self.schema, &schema, self.name.clone()))
    }
}

fn reader(file: &InputFile) -> Result<BufReader<File>, DatasetError> {
    Ok(BufReader::new(File::open(&file.place).map_err(DatasetError::io("open", &file.path))?))
}

/// Returns the batches after the schema.
fn batches(
    mut reader: Box<dyn Read + Send>,
    mut decoder: Decoder,
    found: &SchemaRef,
    schema: &SchemaRef,
    path: String,
) -> Batches {
    let projection = Projection::new(found.fields().iter().map(|field| field.name()), schema);
    let mut input_bytes = 0;
    let mut next = move || -> Result<Option<DecodedBatch>, DatasetError> {
        while let Some(message) = Message::read(&mut reader, &path)? {
            input_bytes += message.len() as u64;
            if let Some(batch) = decoder.decode(&message)? {
                let input_bytes = std::mem::take(&mut input_bytes);
                return Ok(Some(DecodedBatch { batch: projection.apply(&batch)?, input_bytes, bad: vec![] }));
            }
        }
        Ok(None)
    };
    Box::new(std::iter::from_fn(move || next().transpose()))
}
