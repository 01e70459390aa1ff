//! Any bytes are refused as rows of any schema, or give a valid batch.
#![no_main]

use std::sync::Arc;

use annulus_pages::codec::RowCodec;
use arrow::{
    array::Array,
    datatypes::{DataType, Field, Fields, Schema, TimeUnit, UnionFields, UnionMode},
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut bytes = Bytes(bytes);
    let fields: Vec<Field> = (0..1 + bytes.next() % 4).map(|_| field(&mut bytes, 3)).collect();
    let Ok(codec) = RowCodec::new(Arc::new(Schema::new(fields))) else { return };
    let mut rows = Vec::new();
    while !bytes.0.is_empty() {
        let len = usize::from(bytes.next()).min(bytes.0.len());
        let (row, rest) = bytes.0.split_at(len);
        rows.push(row);
        bytes.0 = rest;
    }
    if let Ok(batch) = codec.decode(&rows) {
        assert_eq!(batch.num_rows(), rows.len());
        batch.columns().iter().for_each(|column| column.to_data().validate_full().unwrap());
    }
});

struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    /// Returns the next byte, or 0.
    fn next(&mut self) -> u8 {
        let Some((&byte, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        byte
    }
}

fn field(bytes: &mut Bytes<'_>, depth: u8) -> Field {
    let byte = bytes.next();
    Field::new("c", data_type(bytes, byte & 0x7F, depth), byte & 0x80 == 0)
}

fn data_type(bytes: &mut Bytes<'_>, kind: u8, depth: u8) -> DataType {
    let leaves = [
        DataType::Int32,
        DataType::Null,
        DataType::Boolean,
        DataType::Int8,
        DataType::UInt16,
        DataType::Float64,
        DataType::Decimal128(38, 2),
        DataType::Decimal256(70, 2),
        DataType::Timestamp(TimeUnit::Second, None),
        DataType::Utf8,
        DataType::LargeUtf8,
        DataType::Utf8View,
        DataType::Binary,
        DataType::LargeBinary,
        DataType::BinaryView,
        DataType::FixedSizeBinary(i32::from(kind % 5)),
    ];
    if depth == 0 {
        return leaves[usize::from(kind) % leaves.len()].clone();
    }
    let child = |bytes: &mut Bytes<'_>| Arc::new(field(bytes, depth - 1));
    match kind {
        16 => DataType::List(child(bytes)),
        17 => DataType::LargeList(child(bytes)),
        18 => DataType::ListView(child(bytes)),
        19 => DataType::LargeListView(child(bytes)),
        20..=23 => DataType::FixedSizeList(child(bytes), i32::from(kind - 20)),
        24 => {
            let entries = Fields::from(vec![field(bytes, 0).with_nullable(false), field(bytes, depth - 1)]);
            DataType::Map(Arc::new(Field::new("entries", DataType::Struct(entries), false)), false)
        }
        25..=27 => DataType::Struct((0..kind - 25).map(|_| field(bytes, depth - 1)).collect()),
        28 | 29 => {
            let fields: UnionFields = (0..1 + (bytes.next() % 3) as i8).map(|id| (2 * id, child(bytes))).collect();
            DataType::Union(fields, if kind == 28 { UnionMode::Dense } else { UnionMode::Sparse })
        }
        30 => DataType::Dictionary(Box::new(DataType::Int8), Box::new(data_type(bytes, 9, 0))),
        31 => DataType::Dictionary(Box::new(DataType::UInt32), Box::new(field(bytes, depth - 1).data_type().clone())),
        32 => {
            let ends = Arc::new(Field::new("run_ends", DataType::Int16, false));
            DataType::RunEndEncoded(ends, child(bytes))
        }
        _ => leaves[usize::from(kind) % leaves.len()].clone(),
    }
}
