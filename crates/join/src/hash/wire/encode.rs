//! Encoding fragments.

use arrow::{
    array::{Array, ArrayData, OffsetSizeTrait},
    buffer::Buffer,
    datatypes::ToByteSlice,
};

use super::{ALIGN, FragmentFormat, Heading, Kind, Sizes, padded};
use crate::{error::JoinError, hash::Fragment};

/// The largest size of a value that is stored in its view.
pub(in crate::hash) const MOST_INLINE: u32 = 12;

impl Fragment {
    /// Returns how many bytes [`encode`](Self::encode) writes. O(columns), but O(rows) with views.
    pub fn encoded_bytes(&self) -> usize {
        let sizes = Sizes::new(&self.format, &self.columns, self.coded.as_ref());
        sizes.bytes(0..self.batch.num_rows(), self.starts.len() - 1)
    }

    /// Writes the fragment to the first bytes of `out`, and returns their number. Values are copied
    /// once, those of views twice.
    ///
    /// # Errors
    /// [`JoinError::Fragment`] if `out` is shorter than [`encoded_bytes`](Self::encoded_bytes).
    pub fn encode(&self, out: &mut [u8]) -> Result<usize, JoinError> {
        let native = self.format.native.iter().map(|&(column, kind)| (self.columns[column].to_data(), kind));
        let coded = self.coded.as_ref().map(|coded| (coded.to_data(), Kind::Bytes64));
        let buffers: Vec<Buffer> = native.chain(coded).flat_map(|(data, kind)| buffers(&data, kind)).collect();
        let mut heading = Heading {
            bytes: 0,
            rows: self.batch.num_rows() as u32,
            partitions: self.format.partitions().count() as u32,
            first: self.first as u32,
            starts: self.starts.len() as u32,
            buffers: buffers.len() as u32,
        };
        let bytes = heading.front() + buffers.iter().map(|buffer| padded(buffer.len())).sum::<usize>();
        heading.bytes = bytes as u64;
        let Some(out) = out.get_mut(..bytes) else {
            return Err(JoinError::Fragment { what: "it does not fit in the buffer" });
        };
        heading.write(out);
        put(out, ALIGN, self.matched.to_array().values().values());
        put(out, heading.start_bytes().start, self.starts.to_byte_slice());
        let mut places = Vec::with_capacity(2 * buffers.len());
        let mut at = heading.front();
        for buffer in &buffers {
            places.extend([at as u64, buffer.len() as u64]);
            at = put(out, at, buffer);
        }
        put(out, heading.buffer_bytes().start, places.to_byte_slice());
        Ok(bytes)
    }
}

impl FragmentFormat {
    /// Returns the number of buffers of a fragment.
    pub(super) fn buffers(&self) -> usize {
        let native: usize = self.native.iter().map(|(_, kind)| kind.buffers()).sum();
        native + self.coded.as_ref().map_or(0, |_| Kind::Bytes64.buffers())
    }
}

/// Writes a part and its padding, and returns the start of the next part.
fn put(out: &mut [u8], at: usize, part: &[u8]) -> usize {
    let (end, next) = (at + part.len(), at + padded(part.len()));
    out[at..end].copy_from_slice(part);
    out[end..next].fill(0);
    next
}

/// Returns the buffers of a column, without what lies before and after a slice.
fn buffers(data: &ArrayData, kind: Kind) -> Vec<Buffer> {
    let nulls = data.nulls().filter(|nulls| nulls.null_count() > 0);
    let validity = nulls.map(|nulls| nulls.inner().sliced()).unwrap_or_default();
    let bits = |bits: Buffer| bits.slice_with_length(0, data.len().div_ceil(8));
    let validity = if validity.is_empty() { validity } else { bits(validity) };
    let first = &data.buffers()[0];
    match kind {
        Kind::Fixed(width) => vec![validity, first.slice_with_length(data.offset() * width, data.len() * width)],
        Kind::Boolean => vec![validity, bits(first.bit_slice(data.offset(), data.len()))],
        Kind::Bytes32 => [vec![validity], bytes::<i32>(data).into()].concat(),
        Kind::Bytes64 => [vec![validity], bytes::<i64>(data).into()].concat(),
        Kind::View => [vec![validity], views(data).into()].concat(),
    }
}

/// Returns the offsets, counted from 0, and the bytes that they point to.
fn bytes<O: OffsetSizeTrait>(data: &ArrayData) -> [Buffer; 2] {
    let offsets = &data.buffer::<O>(0)[..=data.len()];
    let (first, last) = (offsets[0], offsets[data.len()]);
    let values = data.buffers()[1].slice_with_length(first.as_usize(), (last - first).as_usize());
    [offsets.iter().map(|&offset| offset - first).collect(), values]
}

/// Returns the views, changed to point into one buffer that has only their values.
fn views(data: &ArrayData) -> [Buffer; 2] {
    let mut values = Vec::new();
    let view = |(row, &view): (usize, &u128)| {
        let len = view as u32;
        if data.is_null(row) {
            return 0;
        }
        if len <= MOST_INLINE {
            return view;
        }
        let (buffer, offset) = ((view >> 64) as u32 as usize, (view >> 96) as usize);
        let at = values.len() as u128;
        values.extend_from_slice(&data.buffers()[1 + buffer][offset..][..len as usize]);
        // Keeps length and first bytes; the buffer's number is 0.
        view & u128::from(u64::MAX) | at << 96
    };
    let views = data.buffer::<u128>(0)[..data.len()].iter().enumerate().map(view).collect();
    [views, Buffer::from_vec(values)]
}
