//! Arrow IPC files: a unit is a run of batches.

use std::{
    fs::File,
    io::{BufReader, Read, Seek, SeekFrom},
    ops::Range,
    sync::Arc,
};

use arrow::{
    datatypes::SchemaRef,
    ipc::{Block, MetadataVersion, convert::fb_to_schema, reader::read_footer_length, root_as_footer},
};

use super::{
    message::{Decoder, Message, cut_short, damaged},
    stream::StreamFile,
};
use crate::{
    error::DatasetError,
    input::{
        InputOptions,
        paths::InputFile,
        schema::{Projection, project},
        unit::{Batches, DecodedBatch, Part, Source, guard},
    },
};

const MAGIC: &[u8; 6] = b"ARROW1";
/// The bytes at the end of a file: the footer's length and the magic.
const TRAILER_BYTES: u64 = 10;
/// A unit has batches of at least this many bytes together, unless they are the last.
const UNIT_BYTES: u64 = 16 << 20;

/// Reads the footer of a file, or the schema of a stream.
pub(in crate::input) fn open(file: &InputFile) -> Result<Box<dyn Source>, DatasetError> {
    guard(&file.path, || {
        let mut reader = File::open(&file.place).map_err(DatasetError::io("open", &file.path))?;
        let mut magic = [0; 6];
        reader.read_exact(&mut magic).map_err(|error| cut_short(&file.path, error))?;
        if &magic == MAGIC {
            Ok(Box::new(IpcFile::open(file, &mut reader)?) as Box<dyn Source>)
        } else {
            Ok(Box::new(StreamFile::open(file)?) as Box<dyn Source>)
        }
    })
}

/// A file whose footer has been read.
struct IpcFile {
    path: String,
    place: String,
    schema: SchemaRef,
    version: MetadataVersion,
    dictionaries: Vec<Block>,
    batches: Vec<Block>,
}

impl IpcFile {
    fn open(file: &InputFile, reader: &mut File) -> Result<Self, DatasetError> {
        let path = &file.path;
        let io = |error| cut_short(path, error);
        let no_footer = || damaged(path, "it is cut short: it has no footer; was its writer stopped?");
        let footer_end = file.bytes.checked_sub(TRAILER_BYTES).ok_or_else(no_footer)?;
        let mut trailer = [0; TRAILER_BYTES as usize];
        reader.seek(SeekFrom::Start(footer_end)).map_err(io)?;
        reader.read_exact(&mut trailer).map_err(io)?;
        let length = read_footer_length(trailer).map_err(|_| no_footer())? as u64;
        let start = footer_end.checked_sub(length).ok_or_else(no_footer)?;
        let mut footer = vec![0; length as usize];
        reader.seek(SeekFrom::Start(start)).map_err(io)?;
        reader.read_exact(&mut footer).map_err(io)?;

        let footer = root_as_footer(&footer).map_err(|error| damaged(path, format!("its footer: {error}")))?;
        let schema = footer.schema().ok_or_else(|| damaged(path, "its footer has no schema"))?;
        if !schema.endianness().equals_to_target_endianness() {
            return Err(damaged(path, "it was written on a machine of another byte order"));
        }
        Ok(Self {
            path: path.clone(),
            place: file.place.clone(),
            schema: SchemaRef::new(fb_to_schema(schema)),
            version: footer.version(),
            dictionaries: footer.dictionaries().iter().flatten().copied().collect(),
            batches: footer.recordBatches().iter().flatten().copied().collect(),
        })
    }

    /// Returns the runs of batches that make units.
    fn runs(&self) -> Vec<Range<usize>> {
        let (mut runs, mut start, mut bytes) = (vec![], 0, 0);
        for (index, block) in self.batches.iter().enumerate() {
            bytes += length(block);
            if bytes >= UNIT_BYTES || index + 1 == self.batches.len() {
                runs.push(start..index + 1);
                (start, bytes) = (index + 1, 0);
            }
        }
        runs
    }
}

impl Source for IpcFile {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn parts(self: Box<Self>, schema: &SchemaRef, _options: &InputOptions) -> Vec<Box<dyn Part>> {
        let file: Arc<Self> = Arc::from(self);
        let part = |run| Run { file: Arc::clone(&file), run, schema: Arc::clone(schema) };
        file.runs().into_iter().map(|run| Box::new(part(run)) as Box<dyn Part>).collect()
    }
}

/// Returns the number of bytes of a message.
fn length(block: &Block) -> u64 {
    block.bodyLength().max(0) as u64 + block.metaDataLength().max(0) as u64
}

/// Consecutive batches.
struct Run {
    file: Arc<IpcFile>,
    run: Range<usize>,
    schema: SchemaRef,
}

impl Part for Run {
    fn path(&self) -> &str {
        &self.file.path
    }

    fn bytes(&self) -> u64 {
        self.file.batches[self.run.clone()].iter().map(length).sum()
    }

    fn read(&self, columns: Option<&[usize]>) -> Result<Batches, DatasetError> {
        let file = Arc::clone(&self.file);
        let schema = project(&self.schema, columns)?;
        let projection = Projection::new(file.schema.fields().iter().map(|field| field.name()), &schema);
        let reader = File::open(&file.place).map_err(DatasetError::io("open", &file.path))?;
        let mut reader = BufReader::new(reader);
        let mut decoder = Decoder::new(&file.path, Arc::clone(&file.schema), file.version);
        for block in &file.dictionaries {
            decoder.decode(&read_at(&mut reader, block, &file.path)?)?;
        }
        Ok(Box::new(self.run.clone().map(move |index| {
            let message = read_at(&mut reader, &file.batches[index], &file.path)?;
            let batch = decoder.decode(&message)?;
            let batch = batch.ok_or_else(|| damaged(&file.path, format!("batch {index} is a dictionary")))?;
            Ok(DecodedBatch { batch: projection.apply(&batch)?, input_bytes: message.len() as u64, bad: vec![] })
        })))
    }
}

fn read_at(reader: &mut BufReader<File>, block: &Block, path: &str) -> Result<Message, DatasetError> {
    let offset = u64::try_from(block.offset()).map_err(|_| damaged(path, "a message has a negative place"))?;
    reader.seek(SeekFrom::Start(offset)).map_err(DatasetError::io("read", path))?;
    Message::read_block(reader, block, path)
}
