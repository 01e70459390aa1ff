//! A dictionary that grows with those of the chunks that are read.

use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use arrow::{array::ArrayRef, compute::cast, datatypes::DataType};
use bytes::Bytes;
use parquet::{
    basic::{Encoding, Type},
    schema::types::{ColumnDescPtr, ColumnDescriptor},
};

use super::Entries;
use crate::{
    column::Column,
    error::{PageError, ScanError},
    values,
};

/// The most entries of a dictionary: codes have 16 bits, and the greatest of them is none.
const MOST_ENTRIES: usize = u16::MAX as usize;

/// A dictionary of the values that a column has had, with those of all chunks that were merged into it.
/// Codes stay what they are when it grows. Threads may share it.
#[derive(Debug)]
pub struct SharedDictionary {
    /// The column that is written.
    column: Column,
    most_entries: usize,
    most_bytes: usize,
    page_bytes: usize,
    contents: RwLock<Contents>,
}

#[derive(Debug)]
struct Contents {
    entries: Entries,
    is_stopped: bool,
}

impl SharedDictionary {
    /// Returns an empty dictionary for a column that is written as `leaf`, of values of `data_type`. It takes up
    /// to `most_entries` entries, and about `most_bytes` bytes of memory.
    ///
    /// # Errors
    /// If values of the type are not written as codes, the reason in words.
    pub fn try_new(
        leaf: &ColumnDescPtr,
        data_type: &DataType,
        most_entries: usize,
        most_bytes: usize,
    ) -> Result<Self, String> {
        let column = Column::try_new(0, leaf, data_type)?;
        if !is_exact(&column) {
            return Err(format!("values of type {data_type} are not written as codes"));
        }
        let contents = RwLock::new(Contents { entries: Entries::new(column.fixed_width()), is_stopped: false });
        Ok(Self { column, most_entries: most_entries.min(MOST_ENTRIES), most_bytes, page_bytes: usize::MAX, contents })
    }

    /// Returns the dictionary with a limit on the bytes of all its values, as a page has them.
    #[must_use]
    pub(crate) fn with_page_bytes(self, page_bytes: usize) -> Self {
        Self { page_bytes, ..self }
    }

    /// Returns whether the dictionaries of a column of a file can be merged into this one: its values are
    /// those that are written, bit for bit.
    pub fn takes(&self, column: &Column, leaf: &ColumnDescriptor) -> bool {
        let (own, other) = (&self.column, column);
        let is_integer = |physical| matches!(physical, Type::INT32 | Type::INT64);
        let is_same = own.physical == other.physical && own.length == other.length;
        // Writers store decimals of few digits in any of these.
        let is_decimal = own.data_type.is_decimal()
            && is_integer(own.physical)
            && (is_integer(other.physical) || other.physical == Type::FIXED_LEN_BYTE_ARRAY);
        own.data_type == other.data_type && leaf.max_rep_level() == 0 && (is_same || is_decimal)
    }

    /// Adds those of `count` entries of a chunk's dictionary page that are new. Returns the code of each; `None`
    /// if the dictionary does not take more, now or since an earlier call.
    ///
    /// # Errors
    /// If the bytes are not such values.
    pub(crate) fn merge(&self, other: &Column, page: &[u8], count: usize) -> Result<Option<Vec<u16>>, PageError> {
        let mut codes = Vec::with_capacity(count.min(page.len()));
        let mut values = Values { rest: page, width: other.fixed_width() };
        let mut contents = self.contents.write().unwrap_or_else(PoisonError::into_inner);
        if contents.is_stopped {
            return Ok(None);
        }
        let converts = (self.column.physical, self.column.length) != (other.physical, other.length);
        for _ in 0..count {
            let value = values.next().ok_or(PageError::Short)?;
            let mut integer = [0; 8];
            let value = match (converts, self.column.physical) {
                (false, _) => value,
                (true, physical) => match converted(value, other.physical, physical, &mut integer) {
                    Some(converted) => converted,
                    None => return Ok(contents.stop()),
                },
            };
            let entries = &mut contents.entries;
            let hash = entries.hash(value);
            let code = match entries.find(hash, value) {
                Some(code) => code,
                None if !self.has_room(entries, value) => return Ok(contents.stop()),
                None => {
                    self.check(value)?;
                    entries.add(hash, value)
                }
            };
            codes.push(code as u16);
        }
        Ok(Some(codes))
    }

    fn has_room(&self, entries: &Entries, value: &[u8]) -> bool {
        entries.len() < self.most_entries
            && entries.memory() + value.len() <= self.most_bytes
            && entries.plain_with(value) <= self.page_bytes
    }

    /// Checks a value that is new.
    fn check(&self, value: &[u8]) -> Result<(), PageError> {
        let is_text = matches!(self.column.data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
        if is_text && std::str::from_utf8(value).is_err() { Err(PageError::Utf8) } else { Ok(()) }
    }

    /// Returns all values, in the order of their codes.
    ///
    /// # Errors
    /// If they do not fit their type.
    pub fn to_array(&self) -> Result<ArrayRef, ScanError> {
        let contents = self.read();
        let plain = Bytes::copy_from_slice(contents.entries.plain());
        let array = values::decode(&self.column, Encoding::PLAIN, plain, contents.entries.len())?;
        let data_type = &self.column.data_type;
        if array.data_type() == data_type { Ok(array) } else { Ok(cast(&array, data_type)?) }
    }

    /// Returns whether the dictionary does not take any more, so that values are read from now on.
    pub fn is_stopped(&self) -> bool {
        self.read().is_stopped
    }

    /// Calls a function with the values.
    pub(crate) fn with_entries<T>(&self, function: impl FnOnce(&Entries) -> T) -> T {
        function(&self.read().entries)
    }

    fn read(&self) -> RwLockReadGuard<'_, Contents> {
        self.contents.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Contents {
    /// Takes no more. What it has is still asked for.
    fn stop<T>(&mut self) -> Option<T> {
        self.is_stopped = true;
        None
    }
}

/// The values of a dictionary page.
struct Values<'a> {
    rest: &'a [u8],
    width: Option<usize>,
}

impl<'a> Values<'a> {
    /// Returns the next value; `None` if the page ends.
    fn next(&mut self) -> Option<&'a [u8]> {
        let width = match self.width {
            Some(width) => width,
            None => {
                let (length, rest) = self.rest.split_first_chunk()?;
                self.rest = rest;
                u32::from_le_bytes(*length) as usize
            }
        };
        let (value, rest) = self.rest.split_at_checked(width)?;
        self.rest = rest;
        Some(value)
    }
}

/// Returns an integer, the digits of a decimal, as another physical type has it; `None` if it has not.
fn converted<'a>(value: &[u8], from: Type, to: Type, out: &'a mut [u8; 8]) -> Option<&'a [u8]> {
    let integer = match from {
        Type::INT32 => i64::from(i32::from_le_bytes(*value.first_chunk()?)),
        Type::INT64 => i64::from_le_bytes(*value.first_chunk()?),
        // Of two's complement, the highest byte first.
        _ => {
            let sign = i128::from((*value.first()? as i8) >> 7);
            let wide = value.iter().try_fold(sign, |wide, &byte| Some(wide.checked_mul(256)? | i128::from(byte)))?;
            i64::try_from(wide).ok()?
        }
    };
    if to == Type::INT64 {
        *out = integer.to_le_bytes();
        return Some(&*out);
    }
    out[..4].copy_from_slice(&i32::try_from(integer).ok()?.to_le_bytes());
    Some(&out[..4])
}

/// Returns whether each stored value of a column is one value of its type, and each value is stored like
/// that. Integers of fewer bits than they are stored in are not: what is stored may be none.
fn is_exact(column: &Column) -> bool {
    use DataType::*;
    match &column.data_type {
        Int32 | Int64 | UInt32 | UInt64 | Float16 | Float32 | Float64 | Date32 => true,
        Time32(_) | Time64(_) | Timestamp(..) | Duration(_) => column.physical != Type::INT96,
        Decimal128(..) | Decimal256(..) => true,
        Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView | FixedSizeBinary(_) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{AsArray, StringArray};
    use parquet::schema::{parser::parse_message_type, types::SchemaDescriptor};

    use super::*;

    fn leaf(column: &str) -> ColumnDescPtr {
        let message = Arc::new(parse_message_type(&format!("message m {{ {column}; }}")).unwrap());
        SchemaDescriptor::new(message).column(0)
    }

    fn column(text: &str, data_type: &DataType) -> Column {
        Column::try_new(0, &leaf(text), data_type).unwrap()
    }

    #[test]
    fn codes_stay_when_the_dictionary_grows() {
        let text = "optional binary a (STRING)";
        let (leaf, column) = (leaf(text), column(text, &DataType::Utf8));
        let shared = SharedDictionary::try_new(&leaf, &DataType::Utf8, 3, 1 << 20).unwrap();
        assert!(shared.takes(&column, &leaf));
        let page = |values: &[&str]| {
            values.iter().flat_map(|v| [&(v.len() as u32).to_le_bytes(), v.as_bytes()].concat()).collect::<Vec<_>>()
        };
        assert_eq!(shared.merge(&column, &page(&["x", "", "long"]), 3), Ok(Some(vec![0, 1, 2])));
        assert_eq!(shared.merge(&column, &page(&["long", "x"]), 2), Ok(Some(vec![2, 0])));
        assert_eq!(shared.to_array().unwrap().as_string::<i32>(), &StringArray::from(vec!["x", "", "long"]));
        assert_eq!(shared.merge(&column, &page(&["x"]), 2), Err(PageError::Short));
        assert_eq!(shared.merge(&column, &page(&["new"]), 1), Ok(None));
        assert_eq!(shared.merge(&column, &page(&["x"]), 1), Ok(None));
        let other = SharedDictionary::try_new(&leaf, &DataType::Utf8, 3, 1 << 20).unwrap();
        assert_eq!(other.merge(&column, &[1, 0, 0, 0, 0xff], 1), Err(PageError::Utf8));
    }

    #[test]
    fn decimals_have_the_same_digits() {
        let data_type = DataType::Decimal128(9, 2);
        let own = leaf("required int32 a (DECIMAL(9, 2))");
        let shared = SharedDictionary::try_new(&own, &data_type, 100, 1 << 20).unwrap();
        let other = "required fixed_len_byte_array(5) a (DECIMAL(9, 2))";
        let (other_leaf, other) = (leaf(other), column(other, &data_type));
        assert!(shared.takes(&other, &other_leaf));
        let page = [[0, 0, 0, 1, 2], [0xff, 0xff, 0xff, 0xff, 0xfe]].concat();
        assert_eq!(shared.merge(&other, &page, 2), Ok(Some(vec![0, 1])));
        assert_eq!(shared.read().entries.plain(), [258_i32.to_le_bytes(), (-2_i32).to_le_bytes()].concat());
        assert_eq!(shared.merge(&other, &[1, 0, 0, 0, 0], 1), Ok(None));
    }
}
