//! Values that rows of a window refer to: a dictionary, or what a page has without one.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, UInt8Array, new_null_array},
    buffer::Buffer,
    datatypes::DataType,
};

use crate::values::is_view;

/// Values without nulls, at least one.
#[derive(Debug)]
pub(crate) struct Source {
    /// The values as their type has them.
    pub array: ArrayRef,
    /// Whether they are a dictionary.
    pub is_dictionary: bool,
    /// The values, or their views; truth values as a byte each.
    pub values: Buffer,
    /// The bytes that views refer to.
    pub texts: Vec<Buffer>,
}

impl Source {
    pub fn new(array: ArrayRef, is_dictionary: bool) -> Arc<Self> {
        // Rows that are null refer to the first value, and there may be such rows only.
        let array = if array.is_empty() { new_null_array(array.data_type(), 1) } else { array };
        if let Some(bits) = array.as_boolean_opt() {
            let bytes: UInt8Array = bits.values().iter().map(u8::from).collect::<Vec<_>>().into();
            return Arc::new(Self { array, is_dictionary, values: bytes.values().inner().clone(), texts: Vec::new() });
        }
        let data = array.to_data();
        let width = width(array.data_type());
        let values = data.buffers()[0].slice_with_length(data.offset() * width, data.len() * width);
        let texts = if is_view(array.data_type()) { data.buffers()[1..].to_vec() } else { Vec::new() };
        Arc::new(Self { array, is_dictionary, values, texts })
    }

    pub fn len(&self) -> usize {
        self.array.len()
    }
}

/// Returns the bytes of a value, or of its view; those of a truth value, which is kept in a byte.
pub(crate) fn width(data_type: &DataType) -> usize {
    match data_type {
        DataType::Boolean => 1,
        DataType::Utf8View | DataType::BinaryView => 16,
        DataType::FixedSizeBinary(length) => *length as usize,
        _ => data_type.primitive_width().unwrap_or(1),
    }
}
