//! A column chunk that is written from values.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray},
    buffer::{NullBuffer, ScalarBuffer},
    datatypes::{ArrowNativeType, DataType, Decimal128Type, Int8Type, Int16Type, UInt8Type, UInt16Type},
};
use parquet::{
    basic::Type,
    errors::{ParquetError, Result},
};

use super::{
    ValuesEncoding,
    bounds::Order,
    chunk::{ChunkPages, EncodedChunk},
    dictionary::{Dictionary, Numbers, Texts, ViewText},
};

/// A dictionary pays if the rows with codes take less than this share of the bytes of their values.
const PAYING_SHARE: f64 = 0.75;

/// Writes a column chunk: values of rows, in pages, until it is [finished](Self::finish). They become codes of a
/// dictionary until that is full. Pages are compressed as soon as it is known whether they have codes.
#[derive(Debug)]
pub struct ValuesWriter {
    values: Values,
    chunk: Chunk,
}

/// The dictionary by the kind of values.
#[derive(Debug)]
enum Values {
    Words(Numbers<u32>),
    Longs(Numbers<u64>),
    Texts(Texts),
}

#[derive(Debug)]
struct Chunk {
    pages: ChunkPages,
    /// The bytes of the entries, at most.
    dictionary_bytes: usize,
    /// Whether rows are written without codes from now on. The dictionary has entries then if pages before have codes.
    is_full: bool,
    /// Whether a dictionary makes the chunk much shorter, as far as is known.
    pays: bool,
}

impl ValuesWriter {
    /// Begins a chunk: with a dictionary if the encoding has one, and `with_dictionary`.
    pub fn new(encoding: &ValuesEncoding, with_dictionary: bool) -> Self {
        let column = &encoding.column;
        let order = if encoding.is_unsigned { Order::Unsigned } else { Order::Signed };
        let values = match column.leaf.physical_type() {
            Type::INT32 => Values::Words(Numbers::new(order)),
            Type::FLOAT => Values::Words(Numbers::new(Order::Float)),
            Type::INT64 => Values::Longs(Numbers::new(order)),
            Type::DOUBLE => Values::Longs(Numbers::new(Order::Float)),
            _ => Values::Texts(Texts::new()),
        };
        let dictionary_bytes = if with_dictionary { column.dictionary_bytes } else { 0 };
        let chunk = Chunk {
            pages: ChunkPages::new(Arc::clone(column), dictionary_bytes > 0),
            dictionary_bytes,
            is_full: dictionary_bytes == 0,
            pays: true,
        };
        Self { values, chunk }
    }

    /// Adds rows.
    ///
    /// # Errors
    /// If they have another type than the column, or a row is null though the column is not optional.
    pub fn write(&mut self, rows: &ArrayRef) -> Result<()> {
        let chunk = &mut self.chunk;
        let nulls = rows.nulls().filter(|nulls| nulls.null_count() > 0);
        match &mut self.values {
            Values::Words(numbers) => {
                let values = words(rows)?;
                chunk.write(numbers, rows.len(), nulls, |row| values[row])
            }
            Values::Longs(numbers) => {
                let values = longs(rows)?;
                chunk.write(numbers, rows.len(), nulls, |row| values[row])
            }
            Values::Texts(texts) => {
                if !chunk.is_full {
                    texts.begin_array(rows.len());
                }
                macro_rules! write {
                    ($array:expr) => {{
                        let array = $array;
                        chunk.write(texts, rows.len(), nulls, |row| AsRef::<[u8]>::as_ref(array.value(row)))
                    }};
                }
                macro_rules! write_views {
                    ($array:expr) => {{
                        let array = $array;
                        chunk.write(texts, rows.len(), nulls, |row| ViewText { array, row })
                    }};
                }
                let written = match rows.data_type() {
                    DataType::Utf8View => write_views!(rows.as_string_view()),
                    DataType::BinaryView => write_views!(rows.as_binary_view()),
                    DataType::Utf8 => write!(rows.as_string::<i32>()),
                    DataType::LargeUtf8 => write!(rows.as_string::<i64>()),
                    DataType::Binary => write!(rows.as_binary::<i32>()),
                    DataType::LargeBinary => write!(rows.as_binary::<i64>()),
                    _ => Err(unexpected(rows)),
                };
                texts.end_array();
                written
            }
        }
    }

    /// Returns the memory in use, in bytes.
    pub fn memory(&self) -> usize {
        let dictionary = match &self.values {
            Values::Words(numbers) => numbers.memory(),
            Values::Longs(numbers) => numbers.memory(),
            Values::Texts(texts) => Dictionary::<&[u8]>::memory(texts),
        };
        dictionary + self.chunk.pages.memory()
    }

    /// Returns the approximate size in bytes that the chunk would have if it ended here.
    pub fn size_estimate(&self) -> usize {
        self.chunk.pages.size_estimate()
    }

    /// Ends the chunk. It has a dictionary, unless its values are shorter without one. Returns whether the dictionary
    /// pays: chunks of more such rows are hardly longer without one, if it does not, and written in less time.
    ///
    /// # Errors
    /// If a page cannot be compressed or written.
    pub fn finish(self) -> Result<(EncodedChunk, bool)> {
        match self.values {
            Values::Words(mut numbers) => self.chunk.finish(&mut numbers),
            Values::Longs(mut numbers) => self.chunk.finish(&mut numbers),
            Values::Texts(mut texts) => self.chunk.finish::<&[u8]>(&mut texts),
        }
    }
}

impl Chunk {
    /// Adds rows, the values of which are those that `value` returns for their numbers.
    fn write<V: Copy, D: Dictionary<V>>(
        &mut self,
        dictionary: &mut D,
        rows: usize,
        nulls: Option<&NullBuffer>,
        value: impl Fn(usize) -> V,
    ) -> Result<()> {
        let mut first = 0;
        if !self.is_full {
            first = self.write_codes(dictionary, rows, nulls, &value)?;
            if first < rows {
                self.end_codes(dictionary)?;
            }
        }
        while first < rows {
            let (most_rows, most_bytes) = self.pages.room();
            let is_valid = |row: usize| nulls.is_none_or(|nulls| nulls.is_valid(row));
            let (mut end, mut bytes) = (first, 0);
            while end < rows.min(first + most_rows) && bytes < most_bytes {
                bytes += if is_valid(end) { D::stored_length(value(end)) } else { 0 };
                end += 1;
            }
            let page_nulls = nulls.map(|nulls| nulls.slice(first, end - first));
            let has_ended = self.pages.add_rows(end - first, page_nulls, |open| match nulls {
                Some(_) => {
                    let valid = (first..end).filter(|&row| is_valid(row));
                    dictionary.append(valid.map(&value), bytes, &mut open.values);
                }
                None => dictionary.append((first..end).map(&value), bytes, &mut open.values),
            })?;
            if has_ended {
                self.pages.set_ends(dictionary.end_page());
            }
            first = end;
        }
        Ok(())
    }

    /// Adds rows as codes until the dictionary is full. Returns the number of rows.
    fn write_codes<V: Copy>(
        &mut self,
        dictionary: &mut impl Dictionary<V>,
        rows: usize,
        nulls: Option<&NullBuffer>,
        value: &impl Fn(usize) -> V,
    ) -> Result<usize> {
        let (mut codes, most) = (Vec::with_capacity(rows), self.dictionary_bytes);
        // Returns whether the row has no code.
        let mut is_without = |&row: &usize| match dictionary.code(value(row), most) {
            Some(code) => {
                codes.push(code);
                false
            }
            None => true,
        };
        let without = match nulls {
            Some(nulls) => nulls.valid_indices().find(is_without),
            None => (0..rows).find(&mut is_without),
        };
        let end = without.unwrap_or(rows);
        (self.pages.entries()..dictionary.len()).for_each(|code| self.pages.add_entry(dictionary.length(code)));
        let nulls = nulls.map(|nulls| nulls.slice(0, end));
        self.pages.add_codes(end, nulls.as_ref(), &codes)?;
        Ok(end)
    }

    /// Ends the rows that are written as codes.
    fn end_codes<V: Copy>(&mut self, dictionary: &mut impl Dictionary<V>) -> Result<()> {
        self.is_full = true;
        self.pages.end_open()?;
        // The number of the last page that had each entry.
        let (mut last, mut number) = (vec![0_u32; dictionary.len()], 0);
        self.pages.set_ends_of_codes(|codes| {
            number += 1;
            for &code in codes {
                if std::mem::replace(&mut last[code as usize], number) != number {
                    dictionary.add_entry_to_page(code as usize);
                }
            }
            dictionary.end_page()
        })?;
        // For the bounds of the chunk.
        (0..dictionary.len()).for_each(|code| dictionary.add_entry_to_page(code));
        dictionary.end_page();
        let share = dictionary.with_entries(|entries| self.pages.end_codes(|code| entries[code as usize]))?;
        self.pays = share < PAYING_SHARE;
        if share >= 1.0 {
            dictionary.clear();
        }
        Ok(())
    }

    fn finish<V: Copy>(mut self, dictionary: &mut impl Dictionary<V>) -> Result<(EncodedChunk, bool)> {
        if !self.is_full {
            self.end_codes(dictionary)?;
        } else if self.pages.end_open()? {
            self.pages.set_ends(dictionary.end_page());
        }
        let chunk = dictionary.with_entries(|entries| {
            let entries = (!entries.is_empty()).then_some(entries);
            dictionary.with_bounds(|bounds| self.pages.finish(entries, Some(bounds)))
        });
        Ok((chunk?, self.pays))
    }
}

/// Returns the numbers of a column of 32 bits in the format.
fn words(rows: &ArrayRef) -> Result<ScalarBuffer<u32>> {
    use DataType::*;
    // As the format has them: with their sign.
    macro_rules! extended {
        ($kind:ty) => {
            Ok(rows.as_primitive::<$kind>().values().iter().map(|&value| value as i32 as u32).collect())
        };
    }
    match rows.data_type() {
        Int32 | UInt32 | Date32 | Time32(_) | Float32 | Decimal32(..) => Ok(bits(rows)),
        Int8 => extended!(Int8Type),
        Int16 => extended!(Int16Type),
        UInt8 => extended!(UInt8Type),
        UInt16 => extended!(UInt16Type),
        Decimal128(..) => extended!(Decimal128Type),
        _ => Err(unexpected(rows)),
    }
}

/// Returns the numbers of a column of 64 bits in the format.
fn longs(rows: &ArrayRef) -> Result<ScalarBuffer<u64>> {
    use DataType::*;
    match rows.data_type() {
        Int64 | UInt64 | Timestamp(..) | Time64(_) | Duration(_) | Float64 | Decimal64(..) => Ok(bits(rows)),
        Decimal128(..) => {
            Ok(rows.as_primitive::<Decimal128Type>().values().iter().map(|&value| value as i64 as u64).collect())
        }
        _ => Err(unexpected(rows)),
    }
}

/// Returns the bits of numbers, which have as many as `T`.
fn bits<T: ArrowNativeType>(rows: &ArrayRef) -> ScalarBuffer<T> {
    let data = rows.to_data();
    ScalarBuffer::new(data.buffers()[0].clone(), data.offset(), data.len())
}

fn unexpected(rows: &ArrayRef) -> ParquetError {
    ParquetError::General(format!("values of type {} are not those of the column", rows.data_type()))
}
