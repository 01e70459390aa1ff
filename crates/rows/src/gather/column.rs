//! The builder of one output column, with the kernel of its type.

use arrow::{
    array::{ArrayRef, NullArray},
    datatypes::DataType,
    error::ArrowError,
};

use super::{
    bits::{BooleanBuilder, bitmap_bytes},
    blocks::block_sizes,
    bytes::BytesBuilder,
    dictionary::DictionaryBuilder,
    fallback::FallbackBuilder,
    fixed::FixedBuilder,
    source::{Select, SourceColumn, Space},
    views::{VIEW_BYTES, ViewBuilder},
};

/// A column being built. The builders of rarer types are boxed, since an exchange with many
/// consumers has very many columns.
#[derive(Debug)]
pub(super) enum ColumnBuilder {
    Null,
    Fixed(FixedBuilder),
    Boolean(BooleanBuilder),
    Bytes32(Box<BytesBuilder>),
    Bytes64(Box<BytesBuilder>),
    View(Box<ViewBuilder>),
    Dictionary(Box<DictionaryBuilder>),
    Fallback(Box<FallbackBuilder>),
}

impl ColumnBuilder {
    pub(super) fn new(data_type: &DataType) -> Self {
        match data_type {
            DataType::Null => Self::Null,
            DataType::Boolean => Self::Boolean(BooleanBuilder::default()),
            DataType::Utf8 | DataType::Binary => Self::Bytes32(Box::default()),
            DataType::LargeUtf8 | DataType::LargeBinary => Self::Bytes64(Box::default()),
            DataType::Utf8View | DataType::BinaryView => Self::View(Box::default()),
            DataType::Dictionary(keys, _) => Self::Dictionary(Box::new(DictionaryBuilder::new(keys))),
            _ => match fixed_width(data_type) {
                Some(width) => Self::Fixed(FixedBuilder::new(width)),
                None => Self::Fallback(Box::new(FallbackBuilder::new(data_type))),
            },
        }
    }

    /// Returns whether this column takes any number of rows.
    pub(super) fn is_unbounded(&self) -> bool {
        !matches!(self, Self::Bytes32(_) | Self::Dictionary(_) | Self::Fallback(_))
    }

    /// Returns the number of the selected rows that fit: at least one in an empty builder.
    ///
    /// # Safety
    /// `select` is within `source`, a column of this type.
    pub(super) unsafe fn room(&self, source: &SourceColumn, select: Select<'_>) -> usize {
        match self {
            // SAFETY: passed on.
            Self::Bytes32(column) => unsafe { column.room::<i32>(source, select) },
            Self::Dictionary(column) => column.room(source, select),
            Self::Fallback(column) => column.room(select),
            _ => select.len(),
        }
    }

    /// Appends the selected rows, at least one, and returns the bytes copied.
    ///
    /// # Errors
    /// If an Arrow kernel fails. The column must not be used again.
    ///
    /// # Safety
    /// `select` is within `source`, a column of this type, and `room` has allowed it. `space` has
    /// room for its rows, and its first `at` rows were appended here since the last `finish`.
    #[inline]
    pub(super) unsafe fn append(
        &mut self,
        source: &SourceColumn,
        select: Select<'_>,
        space: Space<'_>,
    ) -> Result<usize, ArrowError> {
        // SAFETY: passed on.
        unsafe {
            Ok(match self {
                Self::Null => 0,
                Self::Fixed(column) => column.append(source, select, space),
                Self::Boolean(column) => column.append(source, select, space),
                Self::Bytes32(column) => column.append::<i32>(source, select, space),
                Self::Bytes64(column) => {
                    // Not in `room`, since only a value that is repeated very often gets here.
                    if column.room::<i64>(source, select) < select.len() {
                        return Err(ArrowError::OffsetOverflowError(usize::MAX));
                    }
                    column.append::<i64>(source, select, space)
                }
                Self::View(column) => column.append(source, select, space),
                Self::Dictionary(column) => column.append(source.data.data_type(), source, select, space),
                Self::Fallback(column) => column.append(source, select)?,
            })
        }
    }

    /// Returns the bytes of memory that this column has taken since the last `finish`.
    pub(super) fn allocated_bytes(&self) -> usize {
        match self {
            Self::Null => 0,
            Self::Fixed(column) => column.allocated_bytes(),
            Self::Boolean(column) => column.allocated_bytes(),
            Self::Bytes32(column) | Self::Bytes64(column) => column.allocated_bytes(),
            Self::View(column) => column.allocated_bytes(),
            Self::Dictionary(column) => column.allocated_bytes(),
            Self::Fallback(column) => column.allocated_bytes(),
        }
    }

    /// Returns the `len` appended rows, at least one, as an array of `data_type`.
    ///
    /// # Errors
    /// If an Arrow kernel fails.
    ///
    /// # Safety
    /// `len` rows were appended since the last `finish`, and `data_type` is this column's.
    pub(super) unsafe fn finish(&mut self, data_type: &DataType, len: usize) -> Result<ArrayRef, ArrowError> {
        // SAFETY: passed on.
        unsafe {
            Ok(match self {
                Self::Null => std::sync::Arc::new(NullArray::new(len)),
                Self::Fixed(column) => column.finish(data_type, len),
                Self::Boolean(column) => column.finish(len),
                Self::Bytes32(column) => column.finish::<i32>(data_type, len),
                Self::Bytes64(column) => column.finish::<i64>(data_type, len),
                Self::View(column) => column.finish(data_type, len),
                Self::Dictionary(column) => column.finish(data_type, len)?,
                Self::Fallback(column) => column.finish()?,
            })
        }
    }
}

/// Returns the bytes of a value, for types whose values all have the same number of bytes in one
/// buffer.
fn fixed_width(data_type: &DataType) -> Option<usize> {
    match data_type {
        DataType::FixedSizeBinary(width) => usize::try_from(*width).ok(),
        _ => data_type.primitive_width(),
    }
}

/// Returns the sizes of the buffers that a column of this type uses, validity included.
pub(super) fn buffer_sizes(data_type: &DataType, rows: usize) -> Vec<usize> {
    let mut sizes = vec![bitmap_bytes(rows)];
    match data_type {
        DataType::Utf8 | DataType::Binary => sizes.push((rows + 1) * size_of::<i32>()),
        DataType::LargeUtf8 | DataType::LargeBinary => sizes.push((rows + 1) * size_of::<i64>()),
        DataType::Utf8View | DataType::BinaryView => sizes.push(rows * VIEW_BYTES),
        DataType::Dictionary(keys, _) => sizes.extend(fixed_width(keys).map(|width| rows * width)),
        _ => sizes.extend(fixed_width(data_type).map(|width| rows * width)),
    }
    let has_blocks = !matches!(data_type, DataType::Dictionary(..)) && (data_type.is_string() || data_type.is_binary());
    if has_blocks {
        sizes.extend(block_sizes());
    }
    sizes
}
