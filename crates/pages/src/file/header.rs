//! The header of a page file.

use arrow::datatypes::SchemaRef;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::{FileError, schema};
use crate::page::{PageLayout, PageShape, PayloadSize};

/// The version of the format.
pub const FILE_VERSION: u32 = 1;

/// The first eight bytes.
pub(super) const MAGIC: [u8; 8] = *b"AnPgFile";
/// The bytes before the schema.
pub(super) const FIXED_BYTES: usize = 64;
/// Pages begin at a multiple of this offset.
const ALIGN: usize = 4096;
/// The offset of the checksum.
const CHECKSUM_AT: usize = 56;
/// The bytes of the longest schema that a reader accepts.
const MAX_SCHEMA_BYTES: usize = 64 << 20;

/// The header of a page file, which describes all its pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileHeader {
    /// The shape of all pages.
    pub shape: PageShape,
    /// The number of partitions.
    pub partitions: u32,
    /// The format of the tuples' data, for example [`ROW_FORMAT`](crate::codec::ROW_FORMAT).
    pub row_format: u32,
    /// The schema of the data.
    pub schema: SchemaRef,
}

impl FileHeader {
    /// Returns the first bytes of the file, padded to the first page, and the pages' schema id.
    pub(super) fn to_bytes(&self) -> Result<(Vec<u8>, u64), FileError> {
        let schema = schema::to_bytes(&self.schema)?;
        if schema.len() > MAX_SCHEMA_BYTES {
            return Err(FileError::Schema("it takes more than 64 MiB".to_owned()));
        }
        let fixed_bytes = match self.shape.payload() {
            PayloadSize::Fixed(bytes) => bytes,
            PayloadSize::Variable => u32::MAX,
        };
        let words = [
            FILE_VERSION,
            self.shape.page_bytes() as u32,
            self.shape.layout() as u32,
            fixed_bytes,
            self.partitions,
            self.row_format,
            schema.len() as u32,
        ];
        let mut bytes = MAGIC.to_vec();
        words.iter().for_each(|word| bytes.extend(word.to_le_bytes()));
        bytes.resize(FIXED_BYTES, 0);
        bytes.extend(&schema);
        let checksum = xxh3_64(&bytes);
        bytes[CHECKSUM_AT..FIXED_BYTES].copy_from_slice(&checksum.to_le_bytes());
        bytes.resize(bytes.len().next_multiple_of(ALIGN), 0);
        Ok((bytes, schema_id(&schema, self.row_format)))
    }

    /// Returns the bytes of the schema that follows the header's first bytes.
    pub(super) fn schema_bytes(fixed: &[u8; FIXED_BYTES]) -> Result<usize, FileError> {
        if fixed[..8] != MAGIC {
            return Err(FileError::Magic);
        }
        match word(fixed, 0) {
            FILE_VERSION => {}
            version => return Err(FileError::Version(version)),
        }
        let bytes = word(fixed, 6) as usize;
        if bytes > MAX_SCHEMA_BYTES {
            return Err(FileError::Damaged("its schema takes more than 64 MiB"));
        }
        Ok(bytes)
    }

    /// Returns the bytes before the first page, if the schema has `schema_bytes`.
    pub(super) fn padded_bytes(schema_bytes: usize) -> usize {
        (FIXED_BYTES + schema_bytes).next_multiple_of(ALIGN)
    }

    /// Reads the header's first bytes and the schema. Returns the header and the pages' schema id.
    pub(super) fn from_bytes(mut fixed: [u8; FIXED_BYTES], schema: &[u8]) -> Result<(Self, u64), FileError> {
        let (start, checksum) = fixed.split_at_mut(CHECKSUM_AT);
        if start[36..].iter().any(|&byte| byte != 0) {
            return Err(FileError::Damaged("its header has bytes that are not defined"));
        }
        let found = u64::from_le_bytes(checksum.first_chunk().copied().unwrap_or_default());
        checksum.fill(0);
        if xxh3_64(&[&fixed[..], schema].concat()) != found {
            return Err(FileError::Damaged("the checksum of header and schema is wrong"));
        }
        let layout = match word(&fixed, 2) {
            0 => PageLayout::Slotted,
            1 => PageLayout::Compact,
            _ => return Err(FileError::Damaged("its pages have an unknown layout")),
        };
        let payload = match word(&fixed, 3) {
            u32::MAX => PayloadSize::Variable,
            bytes => PayloadSize::Fixed(bytes),
        };
        let header = Self {
            shape: PageShape::new(word(&fixed, 1) as usize, layout, payload)?,
            partitions: word(&fixed, 4),
            row_format: word(&fixed, 5),
            schema: schema::from_bytes(schema)?.into(),
        };
        let id = schema_id(schema, header.row_format);
        Ok((header, id))
    }
}

fn schema_id(schema: &[u8], row_format: u32) -> u64 {
    xxh3_64_with_seed(schema, row_format.into())
}

/// Returns the header's word with this number, counted after the magic.
fn word(fixed: &[u8; FIXED_BYTES], number: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|i| fixed[8 + 4 * number + i]))
}
