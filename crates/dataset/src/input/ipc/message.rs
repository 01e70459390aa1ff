//! Messages of Arrow IPC, and their decoder.

use std::io::{self, ErrorKind, Read};

use arrow::{
    array::RecordBatch,
    buffer::{Buffer, MutableBuffer},
    datatypes::SchemaRef,
    ipc::{
        Block, BodyCompression, Buffer as BodyBuffer, MessageHeader, MetadataVersion, convert::fb_to_schema,
        reader::FileDecoder, root_as_message,
    },
};

use crate::error::DatasetError;

/// The bytes that are read at a time if their number comes from the input, which may be damaged.
const PIECE_BYTES: usize = 4 << 20;
/// The body begins at a multiple of this in memory, so that its buffers need not be copied.
const ALIGNMENT: usize = 64;
const CONTINUATION: [u8; 4] = [0xff; 4];
/// The most bytes of a message's metadata without a continuation mark.
const MOST_OLD_METADATA: i32 = 256 << 20;
/// If a buffer claims to decompress to more than this, its allocation is tried first.
const TRIED_BYTES: i64 = 16 << 20;

/// A message as it is in a file or stream: a prefix, metadata, and a body.
pub(super) struct Message {
    bytes: Buffer,
    /// The number of bytes before the body.
    metadata_bytes: usize,
}

impl Message {
    /// Returns the next message of a stream, or `None` at its end mark.
    pub(super) fn read(reader: &mut dyn Read, path: &str) -> Result<Option<Self>, DatasetError> {
        let corrupt = |error| cut_short(path, error);
        let mut prefix = vec![0; 4];
        reader.read_exact(&mut prefix).map_err(corrupt)?;
        if prefix == CONTINUATION {
            prefix.resize(8, 0);
            reader.read_exact(&mut prefix[4..]).map_err(corrupt)?;
        }
        let length = prefix.last_chunk().map_or(0, |length| i32::from_le_bytes(*length));
        if length == 0 {
            return Ok(None);
        }
        // Any text, and the mark of an IPC file, give more if read as the length that old streams
        // begin with.
        if prefix.len() == 4 && length > MOST_OLD_METADATA {
            let reason =
                "it is not an Arrow IPC stream; put other formats, Arrow IPC files too, into a file and name that";
            return Err(damaged(path, reason));
        }
        let length = usize::try_from(length).map_err(|_| damaged(path, "a message has a negative length"))?;
        let metadata_bytes = prefix.len() + length;
        let padding = metadata_bytes.next_multiple_of(ALIGNMENT) - metadata_bytes;
        let mut bytes = MutableBuffer::from_len_zeroed(padding);
        bytes.extend_from_slice(&prefix);
        append(reader, length, &mut bytes).map_err(corrupt)?;
        let body = {
            let message = root_as_message(&bytes[padding + prefix.len()..]).map_err(|error| damaged(path, error))?;
            usize::try_from(message.bodyLength()).map_err(|_| damaged(path, "a message has a negative length"))?
        };
        append(reader, body, &mut bytes).map_err(corrupt)?;
        Ok(Some(Self { bytes: Buffer::from(bytes).slice(padding), metadata_bytes }))
    }

    /// Returns the message of a file at `block`. `reader` must be at its beginning.
    pub(super) fn read_block(reader: &mut dyn Read, block: &Block, path: &str) -> Result<Self, DatasetError> {
        let lengths = (usize::try_from(block.metaDataLength()), usize::try_from(block.bodyLength()));
        let (Ok(metadata_bytes @ 8..), Ok(body)) = lengths else {
            return Err(damaged(path, "a message has an impossible length"));
        };
        let padding = metadata_bytes.next_multiple_of(ALIGNMENT) - metadata_bytes;
        let mut bytes = MutableBuffer::from_len_zeroed(padding);
        append(reader, metadata_bytes, &mut bytes).map_err(|error| cut_short(path, error))?;
        append(reader, body, &mut bytes).map_err(|error| cut_short(path, error))?;
        Ok(Self { bytes: Buffer::from(bytes).slice(padding), metadata_bytes })
    }

    /// Returns the number of bytes in the file.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    fn parse(&self, path: &str) -> Result<arrow::ipc::Message<'_>, DatasetError> {
        let prefix = if self.bytes.starts_with(&CONTINUATION) { 8 } else { 4 };
        root_as_message(&self.bytes[prefix..]).map_err(|error| damaged(path, error))
    }
}

/// Decodes messages in their order.
#[derive(Debug)]
pub(super) struct Decoder {
    path: String,
    decoder: FileDecoder,
}

impl Decoder {
    pub(super) fn new(path: &str, schema: SchemaRef, version: MetadataVersion) -> Self {
        Self { path: path.to_owned(), decoder: FileDecoder::new(schema, version) }
    }

    /// Returns the decoder of a stream, and the schema in its first message.
    pub(super) fn of_stream(reader: &mut dyn Read, path: &str) -> Result<(Self, SchemaRef), DatasetError> {
        let first = Message::read(reader, path)?;
        let first = first.ok_or_else(|| damaged(path, "it begins with the mark of its end"))?;
        let message = first.parse(path)?;
        let schema = message.header_as_schema().ok_or_else(|| damaged(path, "it does not begin with a schema"))?;
        if !schema.endianness().equals_to_target_endianness() {
            return Err(damaged(path, "it was written on a machine of another byte order"));
        }
        let schema = SchemaRef::new(fb_to_schema(schema));
        Ok((Self::new(path, SchemaRef::clone(&schema), message.version()), schema))
    }

    /// Returns the batch in a message. Returns `None` if the message has a dictionary, which is
    /// kept for later messages.
    pub(super) fn decode(&mut self, message: &Message) -> Result<Option<RecordBatch>, DatasetError> {
        let parsed = message.parse(&self.path)?;
        let body = &message.bytes[message.metadata_bytes.min(message.len())..];
        let block = Block::new(0, message.metadata_bytes as i32, body.len() as i64);
        let decoded = match parsed.header_type() {
            MessageHeader::DictionaryBatch => {
                let batch = parsed.header_as_dictionary_batch().and_then(|dictionary| dictionary.data());
                let buffers = batch.and_then(|batch| batch.buffers());
                self.try_memory(batch.and_then(|batch| batch.compression()), buffers.iter().flatten(), body)?;
                self.decoder.read_dictionary(&block, &message.bytes).map(|()| None)
            }
            MessageHeader::RecordBatch => {
                let batch = parsed.header_as_record_batch();
                let buffers = batch.and_then(|batch| batch.buffers());
                self.try_memory(batch.and_then(|batch| batch.compression()), buffers.iter().flatten(), body)?;
                self.decoder.read_record_batch(&block, &message.bytes)
            }
            other => return Err(damaged(&self.path, format!("it has a message of an unknown kind, {other:?}"))),
        };
        let batch = decoded.map_err(|error| damaged(&self.path, error))?;
        match batch {
            Some(batch) if u32::try_from(batch.num_rows()).is_err() => {
                Err(damaged(&self.path, "a batch has too many rows"))
            }
            batch => Ok(batch),
        }
    }

    /// Returns an error if a compressed buffer claims to be larger than the memory that can be
    /// allocated. Otherwise the failed allocation would end the process.
    fn try_memory<'a>(
        &self,
        compression: Option<BodyCompression<'_>>,
        buffers: impl Iterator<Item = &'a BodyBuffer>,
        body: &[u8],
    ) -> Result<(), DatasetError> {
        if compression.is_none() {
            return Ok(());
        }
        for buffer in buffers {
            let prefix =
                usize::try_from(buffer.offset()).ok().and_then(|offset| body.get(offset..)?.first_chunk::<8>());
            let length = prefix.map_or(0, |prefix| i64::from_le_bytes(*prefix));
            if length > TRIED_BYTES && Vec::<u8>::new().try_reserve_exact(length as usize).is_err() {
                return Err(damaged(&self.path, format!("a buffer claims to have {length} bytes")));
            }
        }
        Ok(())
    }
}

/// Appends the next `length` bytes.
fn append(reader: &mut dyn Read, length: usize, bytes: &mut MutableBuffer) -> io::Result<()> {
    let end = bytes.len().checked_add(length).ok_or(ErrorKind::UnexpectedEof)?;
    while bytes.len() < end {
        let at = bytes.len();
        bytes.resize(end.min(at + PIECE_BYTES), 0);
        reader.read_exact(&mut bytes[at..])?;
    }
    Ok(())
}

pub(super) fn damaged(path: &str, reason: impl ToString) -> DatasetError {
    DatasetError::corrupt(path, reason)
}

/// Returns the error for a failure to read.
pub(super) fn cut_short(path: &str, error: io::Error) -> DatasetError {
    match error.kind() {
        ErrorKind::UnexpectedEof => {
            damaged(path, "it is cut short: it ends without the mark of its end; was its writer stopped?")
        }
        _ => DatasetError::io("read", path)(error),
    }
}
