//! Bitmaps: validity, and the values of booleans.

use arrow::{
    array::{ArrayData, ArrayRef, make_array},
    buffer::{BooleanBuffer, NullBuffer},
    datatypes::DataType,
    util::bit_chunk_iterator::BitChunks,
};

use super::source::{Select, SourceColumn, Space};
use crate::pool::PooledBuffer;

const WORD_BITS: usize = u64::BITS as usize;

/// Returns the bytes of a bitmap of `rows` bits, in whole words.
pub(super) fn bitmap_bytes(rows: usize) -> usize {
    rows.div_ceil(WORD_BITS) * size_of::<u64>()
}

/// The builder of a boolean column.
#[derive(Debug, Default)]
pub(super) struct BooleanBuilder {
    values: Option<PooledBuffer>,
    validity: Validity,
}

impl BooleanBuilder {
    /// Appends the selected rows and returns the bytes copied.
    ///
    /// # Safety
    /// `select` is within `source`, a boolean column; `space` has room for its rows, and its first
    /// `at` rows were appended here since the last `finish`.
    pub(super) unsafe fn append(&mut self, source: &SourceColumn, select: Select<'_>, space: Space<'_>) -> usize {
        let values = self.values.get_or_insert_with(|| space.pool.take(bitmap_bytes(space.capacity)));
        // SAFETY: the caller's promises.
        unsafe {
            append_bits(values, space.at, &source.data.buffers()[0], source.data.offset(), select);
            self.validity.append(source.nulls(), select, space);
        }
        select.len().div_ceil(8)
    }

    /// Returns the bytes of memory that this column has taken since the last `finish`.
    pub(super) fn allocated_bytes(&self) -> usize {
        PooledBuffer::capacity_of(self.values.as_ref()) + self.validity.allocated_bytes()
    }

    /// Returns the `len` appended rows.
    ///
    /// # Safety
    /// `len` rows were appended since the last `finish`.
    pub(super) unsafe fn finish(&mut self, len: usize) -> ArrayRef {
        // SAFETY: `len` bits were written to either bitmap.
        make_array(unsafe {
            let values = self.values.take().map(|values| values.into_buffer(len.div_ceil(8))).unwrap_or_default();
            ArrayData::builder(DataType::Boolean)
                .len(len)
                .nulls(self.validity.finish(len))
                .add_buffer(values)
                .build_unchecked()
        })
    }
}

/// The validity of one output column. It takes no memory before the first null.
#[derive(Debug, Default)]
pub(super) struct Validity {
    bits: Option<PooledBuffer>,
    nulls: usize,
}

impl Validity {
    /// Appends the validity of the selected rows. `source` is `None` if no row is null.
    ///
    /// # Safety
    /// `select` is within `source`; `space` has room for its rows, and its first `at` rows were
    /// appended here since the last `finish`.
    #[inline]
    pub(super) unsafe fn append(&mut self, source: Option<&NullBuffer>, select: Select<'_>, space: Space<'_>) {
        if source.is_some() || self.bits.is_some() {
            // SAFETY: the caller's promises.
            unsafe { self.append_bits(source, select, space) }
        }
    }

    /// Returns the bytes of memory that the validity has taken since the last `finish`.
    pub(super) fn allocated_bytes(&self) -> usize {
        PooledBuffer::capacity_of(self.bits.as_ref())
    }

    /// # Safety
    /// As [`append`](Self::append).
    unsafe fn append_bits(&mut self, source: Option<&NullBuffer>, select: Select<'_>, space: Space<'_>) {
        let source = source.filter(|source| self.bits.is_some() || select.any(|row| source.is_null(row)));
        if source.is_none() && self.bits.is_none() {
            return;
        }
        let bits = self.bits.get_or_insert_with(|| {
            let bits = space.pool.take(bitmap_bytes(space.capacity));
            // SAFETY: the bitmap has room for `at` bits. All earlier rows are valid.
            unsafe { append_ones(&bits, 0, space.at) };
            bits
        });
        // SAFETY: the caller's promises.
        unsafe {
            match source {
                Some(nulls) => {
                    let bitmap = nulls.inner();
                    let valid = append_bits(bits, space.at, bitmap.values(), bitmap.offset(), select);
                    self.nulls += select.len() - valid;
                }
                None => append_ones(bits, space.at, select.len()),
            }
        }
    }

    /// Returns the validity of the `len` appended rows, if any is null.
    ///
    /// # Safety
    /// `len` rows were appended since the last `finish`.
    pub(super) unsafe fn finish(&mut self, len: usize) -> Option<NullBuffer> {
        let nulls = std::mem::take(&mut self.nulls);
        let bits = self.bits.take()?;
        // SAFETY: `len` bits were written, of which `nulls` are zero.
        unsafe {
            let bits = BooleanBuffer::new(bits.into_buffer(len.div_ceil(8)), 0, len);
            Some(NullBuffer::new_unchecked(bits, nulls))
        }
    }
}

/// Appends bits of `from`, counted from bit `offset`, after the first `at` bits of `to`. Returns
/// the number of ones.
///
/// # Safety
/// `select` is within `from`; `to` has room for the bits in whole words, and its first `at` bits
/// were appended before.
unsafe fn append_bits(to: &PooledBuffer, at: usize, from: &[u8], offset: usize, select: Select<'_>) -> usize {
    let words = to.as_ptr().as_ptr().cast::<u64>();
    let (mut at, mut ones) = (at, 0);
    let mut append = |word: u64, bits: usize| {
        // SAFETY: the caller made room.
        unsafe { append_word(words, at, word, bits) };
        at += bits;
        ones += word.count_ones() as usize;
    };
    match select {
        Select::Rows(rows) => {
            for rows in rows.as_slice().chunks(WORD_BITS) {
                let bit = |(i, &row): (usize, &u32)| {
                    let bit = offset + row as usize;
                    // SAFETY: the row is within the source.
                    let byte = unsafe { *from.get_unchecked(bit / 8) };
                    u64::from(byte >> (bit % 8) & 1) << i
                };
                append(rows.iter().enumerate().map(bit).fold(0, |word, bit| word | bit), rows.len());
            }
        }
        Select::Range { start, len } => {
            let chunks = BitChunks::new(from, offset + start, len);
            chunks.iter().for_each(|word| append(word, WORD_BITS));
            append(chunks.remainder_bits(), chunks.remainder_len());
        }
    }
    ones
}

/// Appends `len` ones after the first `at` bits of `to`.
///
/// # Safety
/// As [`append_bits`].
unsafe fn append_ones(to: &PooledBuffer, at: usize, len: usize) {
    let words = to.as_ptr().as_ptr().cast::<u64>();
    for done in (0..len).step_by(WORD_BITS) {
        let bits = WORD_BITS.min(len - done);
        // SAFETY: the caller made room.
        unsafe { append_word(words, at + done, u64::MAX >> (WORD_BITS - bits), bits) };
    }
}

/// Appends the low `bits` bits of `word`, whose other bits are zero. Bit `i` of the map is bit `i %
/// 8` of byte `i / 8`, whatever the byte order of the machine.
///
/// # Safety
/// `words` has room for `at + bits` bits in whole words, and the first `at` were appended before.
#[inline]
unsafe fn append_word(words: *mut u64, at: usize, word: u64, bits: usize) {
    let (index, shift) = (at / WORD_BITS, at % WORD_BITS);
    if bits == 0 {
        return;
    }
    // SAFETY: `index` is within the room. A word that is read has been written, since `shift` bits of
    // it are in use.
    unsafe {
        if shift == 0 {
            words.add(index).write(word.to_le());
            return;
        }
        words.add(index).write(words.add(index).read() | (word << shift).to_le());
        if shift + bits > WORD_BITS {
            words.add(index + 1).write((word >> (WORD_BITS - shift)).to_le());
        }
    }
}
