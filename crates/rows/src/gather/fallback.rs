//! The types without kernels here, which use Arrow's.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, UInt32Array, make_array},
    buffer::ScalarBuffer,
    compute::{cast, concat, take},
    datatypes::DataType,
    error::ArrowError,
};

use super::source::{Select, SourceColumn};

/// The bytes from which pieces are not joined, since their offsets might not fit in 32 bits.
const MAX_BYTES: usize = 1 << 30;

/// The builder of a column of any type. It takes rows from each source, and concatenates the pieces
/// at the end.
#[derive(Debug)]
pub(super) struct FallbackBuilder {
    pieces: Vec<ArrayRef>,
    bytes: usize,
    shares: bool,
}

impl FallbackBuilder {
    pub(super) fn new(data_type: &DataType) -> Self {
        Self { pieces: Vec::new(), bytes: 0, shares: take_shares_memory(data_type) }
    }

    /// Returns the number of the selected rows that fit: none if the builder holds too many bytes
    /// already.
    pub(super) fn room(&self, select: Select<'_>) -> usize {
        if self.bytes > MAX_BYTES { 0 } else { select.len() }
    }

    /// Appends the selected rows and returns the bytes copied.
    ///
    /// # Errors
    /// If Arrow cannot take rows of this type.
    pub(super) fn append(&mut self, source: &SourceColumn, select: Select<'_>) -> Result<usize, ArrowError> {
        let mut rows = Vec::with_capacity(select.len());
        if select.len() > 0 && u32::try_from(select.bound() - 1).is_err() {
            let message =
                format!("row {} of a batch: rows of nested types are numbered with 32 bits", select.bound() - 1);
            return Err(ArrowError::InvalidArgumentError(message));
        }
        select.for_each(|row| rows.push(row as u32));
        let rows = UInt32Array::new(ScalarBuffer::from(rows), None);
        let mut piece = take(&source.array, &rows, None)?;
        if self.shares {
            piece = unshare(&piece)?;
        }
        let bytes = piece.get_buffer_memory_size();
        self.bytes += bytes;
        self.pieces.push(piece);
        Ok(bytes)
    }

    /// Returns the bytes of memory that this column has taken since the last `finish`.
    pub(super) fn allocated_bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the appended rows, at least one.
    ///
    /// # Errors
    /// If Arrow cannot concatenate arrays of this type, or dictionaries within it outgrow their
    /// keys.
    pub(super) fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        self.bytes = 0;
        let pieces = std::mem::take(&mut self.pieces);
        let pieces: Vec<&dyn Array> = pieces.iter().map(AsRef::as_ref).collect();
        concat(&pieces)
    }
}

/// Returns whether rows taken from an array of this type refer to the whole array's memory. A
/// dictionary is shared on purpose.
fn take_shares_memory(data_type: &DataType) -> bool {
    match data_type {
        DataType::Utf8View | DataType::BinaryView | DataType::ListView(_) | DataType::LargeListView(_) => true,
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _)
        | DataType::RunEndEncoded(_, field) => take_shares_memory(field.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| take_shares_memory(field.data_type())),
        DataType::Union(fields, _) => fields.iter().any(|(_, field)| take_shares_memory(field.data_type())),
        _ => false,
    }
}

/// Returns the same rows in memory of their own, down to the last child.
fn unshare(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let data_type = array.data_type();
    match data_type {
        DataType::Utf8View => Ok(Arc::new(array.as_string_view().gc())),
        DataType::BinaryView => Ok(Arc::new(array.as_binary_view().gc())),
        // Lists have their values in order and without gaps, so a cast there and back copies only the values in
        // use.
        DataType::ListView(field) => cast(&unshare(&cast(array, &DataType::List(Arc::clone(field)))?)?, data_type),
        DataType::LargeListView(field) => {
            cast(&unshare(&cast(array, &DataType::LargeList(Arc::clone(field)))?)?, data_type)
        }
        _ if !take_shares_memory(data_type) => Ok(Arc::clone(array)),
        _ => {
            let data = array.to_data();
            let children: Result<Vec<_>, ArrowError> =
                data.child_data().iter().map(|child| Ok(unshare(&make_array(child.clone()))?.to_data())).collect();
            Ok(make_array(data.into_builder().child_data(children?).build()?))
        }
    }
}
