//! Which columns this crate reads, and as which type.

use arrow::datatypes::DataType;
use parquet::{
    basic::{Encoding, Type},
    file::metadata::ColumnChunkMetaData,
    schema::types::ColumnDescriptor,
};

/// A flat column of a file, and the Arrow type that its values become.
#[derive(Debug, Clone)]
pub struct Column {
    pub(crate) index: usize,
    pub(crate) name: String,
    pub(crate) data_type: DataType,
    pub(crate) physical: Type,
    /// The bytes of a value of fixed length.
    pub(crate) length: usize,
    pub(crate) is_optional: bool,
}

impl Column {
    /// Returns leaf `index` of a file, whose values become `data_type`: the type that the `parquet` crate's
    /// reader would give it.
    ///
    /// # Errors
    /// If this crate cannot read it, the reason in words.
    pub fn try_new(index: usize, leaf: &ColumnDescriptor, data_type: &DataType) -> Result<Self, String> {
        let (name, physical) = (leaf.name(), leaf.physical_type());
        if leaf.max_rep_level() > 0 || leaf.max_def_level() > 1 || leaf.path().parts().len() > 1 {
            return Err(format!("column '{}' is nested", leaf.path().string()));
        }
        if !reads(physical, data_type) {
            return Err(format!("column '{name}' of type {data_type} is stored as {physical}"));
        }
        let length = usize::try_from(leaf.type_length()).unwrap_or_default();
        if physical == Type::FIXED_LEN_BYTE_ARRAY && !fits(length, data_type) {
            return Err(format!("column '{name}' of type {data_type} has values of {length} bytes"));
        }
        Ok(Self {
            index,
            name: name.to_owned(),
            data_type: data_type.clone(),
            physical,
            length,
            is_optional: leaf.max_def_level() == 1,
        })
    }

    /// Returns the place of the column among the leaves of the file.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Returns the type of the column's arrays.
    pub fn data_type(&self) -> &DataType {
        &self.data_type
    }

    /// Checks that this crate knows all encodings of a chunk.
    ///
    /// # Errors
    /// If it does not, the reason in words.
    pub fn check(&self, chunk: &ColumnChunkMetaData) -> Result<(), String> {
        match chunk.encodings().find(|&encoding| !self.decodes(encoding)) {
            Some(encoding) => Err(format!("column '{}' is encoded as {encoding}", self.name)),
            None => Ok(()),
        }
    }

    fn decodes(&self, encoding: Encoding) -> bool {
        match encoding {
            // Levels are RLE in most files, and some writers name both though they have none.
            #[expect(deprecated, reason = "old files have it")]
            Encoding::BIT_PACKED => true,
            Encoding::PLAIN | Encoding::RLE | Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY => true,
            Encoding::DELTA_BINARY_PACKED => matches!(self.physical, Type::INT32 | Type::INT64),
            Encoding::DELTA_LENGTH_BYTE_ARRAY => self.physical == Type::BYTE_ARRAY,
            Encoding::DELTA_BYTE_ARRAY => matches!(self.physical, Type::BYTE_ARRAY | Type::FIXED_LEN_BYTE_ARRAY),
            Encoding::BYTE_STREAM_SPLIT => !matches!(self.physical, Type::BOOLEAN | Type::BYTE_ARRAY | Type::INT96),
        }
    }

    /// Returns the bytes of a value in the format; `None` if they differ.
    pub(crate) fn fixed_width(&self) -> Option<usize> {
        match self.physical {
            Type::INT32 | Type::FLOAT => Some(4),
            Type::INT64 | Type::DOUBLE => Some(8),
            Type::FIXED_LEN_BYTE_ARRAY => Some(self.length),
            _ => None,
        }
    }

    /// Returns the type in which values are kept until a batch is complete.
    pub(crate) fn kept_type(&self) -> DataType {
        match self.data_type {
            DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
            DataType::Binary | DataType::LargeBinary => DataType::BinaryView,
            _ => self.data_type.clone(),
        }
    }
}

/// Returns whether stored values of a kind become a type here. What is left out is rare, and read by the
/// `parquet` crate.
fn reads(physical: Type, data_type: &DataType) -> bool {
    use DataType::*;
    match physical {
        Type::BOOLEAN => matches!(data_type, Boolean),
        Type::INT32 => {
            data_type.is_integer() && !matches!(data_type, Int64 | UInt64)
                || data_type.is_decimal()
                || matches!(data_type, Date32 | Time32(_))
        }
        Type::INT64 => {
            matches!(data_type, Int64 | UInt64 | Timestamp(..) | Time64(_) | Duration(_) | Date64)
                || matches!(data_type, Decimal64(..) | Decimal128(..) | Decimal256(..))
        }
        Type::INT96 => matches!(data_type, Timestamp(..)),
        Type::FLOAT => matches!(data_type, Float32),
        Type::DOUBLE => matches!(data_type, Float64),
        Type::BYTE_ARRAY => {
            matches!(data_type, Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView)
        }
        Type::FIXED_LEN_BYTE_ARRAY => {
            matches!(data_type, FixedSizeBinary(_) | Float16 | Decimal128(..) | Decimal256(..))
        }
    }
}

/// Returns whether values of `length` bytes become a type here.
fn fits(length: usize, data_type: &DataType) -> bool {
    match data_type {
        DataType::Decimal128(..) => (1..=16).contains(&length),
        DataType::Decimal256(..) => (1..=32).contains(&length),
        DataType::Float16 => length == 2,
        DataType::FixedSizeBinary(size) => length > 0 && *size as usize == length,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parquet::schema::{parser::parse_message_type, types::SchemaDescriptor};

    use super::*;

    fn leaf(index: usize, data_type: &DataType) -> Result<Column, String> {
        let message = "message m { required int32 a; optional group g { required int64 b; } repeated double c; \
                       optional int96 t; optional byte_array s (UTF8); \
                       required fixed_len_byte_array(17) d (DECIMAL(38, 2)); required fixed_len_byte_array(2) h; }";
        let schema = SchemaDescriptor::new(Arc::new(parse_message_type(message).unwrap()));
        Column::try_new(index, &schema.column(index), data_type)
    }

    #[test]
    fn what_cannot_be_read_is_said() {
        assert!(leaf(0, &DataType::Int32).is_ok());
        assert_eq!(leaf(0, &DataType::Float32).unwrap_err(), "column 'a' of type Float32 is stored as INT32");
        assert_eq!(leaf(1, &DataType::Int64).unwrap_err(), "column 'g.b' is nested");
        assert_eq!(leaf(2, &DataType::Float64).unwrap_err(), "column 'c' is nested");
        assert!(leaf(4, &DataType::Utf8View).is_ok_and(|column| column.is_optional));
        let wide = leaf(5, &DataType::Decimal128(38, 2)).unwrap_err();
        assert_eq!(wide, "column 'd' of type Decimal128(38, 2) has values of 17 bytes");
        assert!(leaf(5, &DataType::Decimal256(38, 2)).is_ok());
        assert!(leaf(6, &DataType::Float16).is_ok());
        assert!(leaf(6, &DataType::FixedSizeBinary(3)).is_err());
    }
}
