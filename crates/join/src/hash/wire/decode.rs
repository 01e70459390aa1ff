//! Decoding fragments. The decoder trusts no byte of its input.

use std::sync::Arc;

use arrow::{
    array::{ArrayData, ArrayRef, LargeBinaryArray, make_array},
    buffer::{BooleanBuffer, Buffer, NullBuffer},
    datatypes::DataType,
};

use super::{ALIGN, FragmentFormat, Heading, Kind, outside};
use crate::{
    error::JoinError,
    hash::{Fragment, build::user_batch},
    matches::MatchBits,
};

impl Fragment {
    /// Decodes the fragment at the beginning of `bytes`, which may be any bytes. Only nested
    /// columns and dictionaries are copied. The other columns refer to `bytes`, so its match bits
    /// may change only after the fragment is dropped. O(bytes): strings and offsets are checked.
    ///
    /// # Errors
    /// [`JoinError::Fragment`] or [`JoinError::Arrow`] if `bytes` is not a fragment of this format,
    /// or does not begin at a multiple of 64.
    pub fn decode(format: &Arc<FragmentFormat>, bytes: Buffer) -> Result<Self, JoinError> {
        if !bytes.as_ptr().addr().is_multiple_of(ALIGN) {
            return Err(JoinError::Fragment { what: "its memory does not begin at a multiple of 64 bytes" });
        }
        let heading = Heading::read(&bytes)?;
        if heading.partitions as usize != format.partitions.count() {
            return Err(JoinError::Fragment { what: "its number of partitions is not that of its format" });
        }
        let rows = heading.rows as usize;
        let starts = read_starts(&heading, &bytes)?;
        let mut buffers = read_buffers(&heading, &bytes, format.buffers())?.into_iter();
        let mut columns: Vec<Option<ArrayRef>> = vec![None; format.keys.full().fields().len()];
        for &(column, kind) in &format.native {
            let data_type = format.keys.full().field(column).data_type();
            columns[column] = Some(make_array(read_column(data_type, kind, rows, &mut buffers)?));
        }
        let mut coded_rows = None;
        if let Some(coded) = &format.coded {
            let data = read_column(&DataType::LargeBinary, Kind::Bytes64, rows, &mut buffers)?;
            let payloads = LargeBinaryArray::from(data);
            let cells: Vec<&[u8]> = (0..rows).map(|row| payloads.value(row)).collect();
            let decoded = coded.codec.decode(&cells).map_err(outside)?;
            for (&column, array) in coded.columns.iter().zip(decoded.columns()) {
                columns[column] = Some(Arc::clone(array));
            }
            coded_rows = Some(payloads);
        }
        let columns: Vec<ArrayRef> = columns.into_iter().flatten().collect();
        Ok(Self {
            batch: user_batch(&format.keys, columns.clone(), rows)?,
            columns,
            coded: coded_rows,
            first: heading.first as usize,
            starts,
            matched: read_matched(&heading, &bytes),
            format: Arc::clone(format),
        })
    }
}

/// Reads the match bits.
fn read_matched(heading: &Heading, bytes: &Buffer) -> MatchBits {
    let rows = heading.rows as usize;
    let matched = MatchBits::new(rows);
    let bits = BooleanBuffer::new(bytes.slice(ALIGN), 0, rows);
    bits.set_indices().for_each(|row| matched.set(row as u32));
    matched
}

/// Reads the starts of the partitions.
fn read_starts(heading: &Heading, bytes: &Buffer) -> Result<Vec<u32>, JoinError> {
    let starts: Vec<u32> =
        bytes.slice_with_length(heading.start_bytes().start, heading.start_bytes().len()).typed_data().to_vec();
    // The rows with null keys follow the partitions.
    let groups = heading.partitions as usize + 1;
    let ends = heading.first as usize + starts.len();
    let whole = starts.first() == Some(&0) && starts.last() == Some(&heading.rows) && starts.is_sorted();
    if starts.len() < 2 || ends > groups + 1 || !whole {
        return Err(JoinError::Fragment { what: "the starts of its partitions do not match its rows" });
    }
    Ok(starts)
}

/// Returns all buffers, without copying them.
fn read_buffers(heading: &Heading, bytes: &Buffer, expected: usize) -> Result<Vec<Buffer>, JoinError> {
    if heading.buffers as usize != expected {
        return Err(JoinError::Fragment { what: "its columns are not those of its format" });
    }
    let places = heading.buffer_bytes();
    let places = bytes.slice_with_length(places.start, places.len());
    let buffer = |&[at, len]: &[u64; 2]| {
        let within = at.checked_add(len).is_some_and(|end| end <= heading.bytes) && at.is_multiple_of(ALIGN as u64);
        if !within {
            return Err(JoinError::Fragment { what: "a column lies outside its bytes" });
        }
        Ok(bytes.slice_with_length(at as usize, len as usize))
    };
    places.typed_data::<u64>().as_chunks::<2>().0.iter().map(buffer).collect()
}

fn read_column(
    data_type: &DataType,
    kind: Kind,
    rows: usize,
    buffers: &mut impl Iterator<Item = Buffer>,
) -> Result<ArrayData, JoinError> {
    let buffers: Vec<Buffer> = buffers.take(kind.buffers()).collect();
    let [validity, values @ ..] = &buffers[..] else {
        return Err(JoinError::Fragment { what: "its columns are not those of its format" });
    };
    let bytes = match kind {
        Kind::Fixed(width) => rows.checked_mul(width),
        Kind::Boolean => Some(rows.div_ceil(8)),
        Kind::Bytes32 => Some((rows + 1) * size_of::<i32>()),
        Kind::Bytes64 => Some((rows + 1) * size_of::<i64>()),
        Kind::View => Some(rows * size_of::<u128>()),
    };
    let is_validity = validity.is_empty() || validity.len() == rows.div_ceil(8);
    if Some(values[0].len()) != bytes || !is_validity {
        return Err(JoinError::Fragment { what: "a column does not have a value for each row" });
    }
    let nulls = (!validity.is_empty()).then(|| NullBuffer::new(BooleanBuffer::new(validity.clone(), 0, rows)));
    let data = ArrayData::builder(data_type.clone()).len(rows).nulls(nulls).add_buffers(values.iter().cloned());
    Ok(data.build()?)
}
