//! Fragments as bytes.
//!
//! ```text
//! heading (64 bytes) | match bits | starts of partitions: u32 | offset, length of buffers: u64 | buffers
//! ```
//! Each part begins at a multiple of 64 bytes. Numbers are little-endian. Buffers are Arrow's, so
//! that columns are read in place. A column's validity comes first (empty if no row is null). Its
//! values follow, or offsets and bytes, or views and one buffer of bytes. Columns of other types
//! (nested ones, dictionaries) together form one column of bytes, encoded by the codec of
//! `annulus-pages`; they are copied when read. Hidden key columns come last, except for that one.
//!
//! The reader trusts no byte: any input gives an error or a valid fragment. Arrow's own stream
//! format is not used because its reader does not promise that.

mod decode;
mod encode;
mod heading;
mod size;

use std::ops::Range;

use annulus_pages::{codec::RowCodec, page::PayloadSize, tuples::TupleBatch};
use arrow::{
    array::{Array, ArrayRef, LargeBinaryArray, RecordBatch, RecordBatchOptions},
    buffer::{Buffer, OffsetBuffer},
    compute::concat,
    datatypes::DataType,
};

use super::radix::Partitions;
use crate::{error::JoinError, key::Keys, matches::MatchBits, parallel};
pub(super) use encode::MOST_INLINE;
use heading::Heading;
pub(super) use size::Sizes;

/// The alignment of every part.
const ALIGN: usize = 64;
/// The number of rows that a thread encodes at a time.
const PART_ROWS: usize = 1 << 14;

const _: () = assert!(cfg!(target_endian = "little"), "fragments are little-endian");

/// The format of all fragments of a probe side. Hosts that exchange fragments use the same format.
#[derive(Debug)]
pub struct FragmentFormat {
    keys: Keys,
    partitions: Partitions,
    /// The columns whose buffers are sent, including hidden ones, and their kinds.
    native: Vec<(usize, Kind)>,
    coded: Option<CodedColumns>,
}

/// The columns that are sent as rows of bytes.
#[derive(Debug)]
struct CodedColumns {
    columns: Vec<usize>,
    codec: RowCodec,
}

/// The form in which the buffers of a column are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Values of this many bytes.
    Fixed(usize),
    Boolean,
    /// Offsets of 32 bits, and bytes.
    Bytes32,
    /// Offsets of 64 bits, and bytes.
    Bytes64,
    View,
}

impl FragmentFormat {
    /// Returns the format of a side with these keys. `partitions` are those of the build side on
    /// every host.
    ///
    /// # Errors
    /// [`JoinError::Outside`] if a column's type cannot be sent.
    pub fn new(keys: Keys, partitions: Partitions) -> Result<Self, JoinError> {
        let fields = keys.full().fields().iter().enumerate();
        let native = fields.filter_map(|(at, field)| Some((at, Kind::for_type(field.data_type())?))).collect();
        let fields = keys.schema().fields().iter().enumerate();
        let columns: Vec<usize> =
            fields.filter(|(_, field)| Kind::for_type(field.data_type()).is_none()).map(|(at, _)| at).collect();
        let coded = if columns.is_empty() {
            None
        } else {
            let codec = RowCodec::new(keys.schema().project(&columns)?.into()).map_err(outside)?;
            Some(CodedColumns { columns, codec })
        };
        Ok(Self { keys, partitions, native, coded })
    }

    /// Returns the format of rows that are sent in their own order
    /// ([`Fragment::in_order`](crate::Fragment::in_order)).
    ///
    /// # Errors
    /// [`JoinError::Outside`] if a column's type cannot be sent.
    pub fn keyless(schema: &arrow::datatypes::SchemaRef) -> Result<Self, JoinError> {
        Self::new(Keys::none(schema), Partitions::at_least(1))
    }

    /// Like [`keyless`](Self::keyless), with a hidden column of bytes.
    pub(crate) fn beside_bytes(schema: &arrow::datatypes::SchemaRef) -> Result<Self, JoinError> {
        Self::new(Keys::none_beside(schema, [DataType::LargeBinary]), Partitions::at_least(1))
    }

    /// Returns the key columns.
    pub fn keys(&self) -> &Keys {
        &self.keys
    }

    /// Returns the partitions that both sides are clustered into.
    pub fn partitions(&self) -> Partitions {
        self.partitions
    }

    /// Encodes the columns that are sent as rows of bytes, if there are any.
    pub(super) fn code(
        &self,
        columns: &[ArrayRef],
        rows: usize,
        threads: usize,
    ) -> Result<Option<LargeBinaryArray>, JoinError> {
        let Some(coded) = &self.coded else { return Ok(None) };
        let parts = (0..rows).step_by(PART_ROWS).map(|start| start..rows.min(start + PART_ROWS)).collect();
        let parts = parallel::map(threads, parts, |rows| coded.encode(columns, rows));
        let parts = parts.into_iter().collect::<Result<Vec<_>, _>>()?;
        let parts: Vec<&dyn Array> = parts.iter().map(|part| part as &dyn Array).collect();
        if parts.is_empty() {
            return Ok(Some(LargeBinaryArray::new_null(0)));
        }
        Ok(Some(LargeBinaryArray::from(concat(&parts)?.to_data())))
    }
}

impl CodedColumns {
    fn encode(&self, columns: &[ArrayRef], rows: Range<usize>) -> Result<LargeBinaryArray, JoinError> {
        let columns = self.columns.iter().map(|&column| columns[column].slice(rows.start, rows.len())).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        let batch = RecordBatch::try_new_with_options(self.codec.schema().clone(), columns, &options)?;
        let mut coded = TupleBatch::default();
        self.codec.encode(&batch, None, &mut coded).map_err(outside)?;
        let offsets = match self.codec.payload_size() {
            PayloadSize::Fixed(bytes) => OffsetBuffer::from_lengths(std::iter::repeat_n(bytes as usize, rows.len())),
            PayloadSize::Variable => OffsetBuffer::new(coded.offsets.iter().map(|&offset| i64::from(offset)).collect()),
        };
        Ok(LargeBinaryArray::try_new(offsets, Buffer::from_vec(coded.bytes), None)?)
    }
}

impl Kind {
    fn for_type(data_type: &DataType) -> Option<Self> {
        match data_type {
            DataType::Boolean => Some(Self::Boolean),
            DataType::FixedSizeBinary(width) => {
                usize::try_from(*width).ok().filter(|&width| width > 0).map(Self::Fixed)
            }
            DataType::Utf8 | DataType::Binary => Some(Self::Bytes32),
            DataType::LargeUtf8 | DataType::LargeBinary => Some(Self::Bytes64),
            DataType::Utf8View | DataType::BinaryView => Some(Self::View),
            other => other.primitive_width().map(Self::Fixed),
        }
    }

    /// Returns the number of buffers of a column.
    fn buffers(self) -> usize {
        match self {
            Self::Fixed(_) | Self::Boolean => 2,
            Self::Bytes32 | Self::Bytes64 | Self::View => 3,
        }
    }
}

/// Returns the range of an encoded fragment's match bits: one bit per row, the lowest of each byte
/// first.
///
/// # Errors
/// [`JoinError::Fragment`] if `bytes` is not a fragment.
pub fn match_bits(bytes: &[u8]) -> Result<Range<usize>, JoinError> {
    let heading = Heading::read(bytes)?;
    Ok(ALIGN..ALIGN + (heading.rows as usize).div_ceil(8))
}

/// Replaces the match bits of an encoded fragment with those of
/// [`Fragment::matched`](crate::Fragment::matched), after the fragment was joined.
///
/// # Errors
/// [`JoinError::Fragment`] if `bytes` is not a fragment, or has another number of rows.
pub fn store_matched(bytes: &mut [u8], matched: &MatchBits) -> Result<(), JoinError> {
    let range = match_bits(bytes)?;
    if Heading::read(bytes)?.rows as usize != matched.rows() {
        return Err(JoinError::Fragment { what: "its number of rows differs from that of the matches" });
    }
    let bits = matched.to_array();
    bytes[range.clone()].copy_from_slice(&bits.values().values()[..range.len()]);
    Ok(())
}

/// Returns `bytes` rounded up to the next part.
fn padded(bytes: usize) -> usize {
    bytes.next_multiple_of(ALIGN)
}

fn outside(error: impl std::error::Error + Send + Sync + 'static) -> JoinError {
    JoinError::Outside(Box::new(error))
}
