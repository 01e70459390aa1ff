//! Random arrays of any type.

use std::sync::Arc;

use arrow::datatypes::{BinaryType, LargeBinaryType, LargeUtf8Type, Utf8Type};
use arrow::{
    array::{
        Array, ArrayData, ArrayRef, BinaryViewArray, BooleanArray, DictionaryArray, FixedSizeListArray,
        GenericByteArray, GenericListArray, GenericListViewArray, MapArray, NullArray, OffsetSizeTrait, PrimitiveArray,
        RunArray, StringViewArray, StructArray, UnionArray, make_array,
    },
    buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer},
    datatypes::{
        ArrowDictionaryKeyType, ByteArrayType, DataType, Field, FieldRef, Fields, Int8Type, Int32Type, IntervalUnit,
        TimeUnit, UInt16Type, UnionFields, UnionMode,
    },
};
use proptest::prelude::*;
use rand::{Rng, rngs::StdRng};

/// Generates any type that the exchange must carry.
pub fn any_type() -> impl Strategy<Value = DataType> {
    let nullable = |data_type| Arc::new(Field::new("item", data_type, true));
    leaf_type().prop_recursive(2, 6, 3, move |inner| {
        let field = inner.clone().prop_map(nullable);
        let fields = prop::collection::vec(inner, 1..3);
        prop_oneof![
            field.clone().prop_map(DataType::List),
            field.clone().prop_map(DataType::LargeList),
            field.clone().prop_map(DataType::ListView),
            field.clone().prop_map(DataType::LargeListView),
            (field.clone(), 1..4i32).prop_map(|(field, len)| DataType::FixedSizeList(field, len)),
            field.clone().prop_map(|field| DataType::RunEndEncoded(run_ends(), run_values(&field))),
            field.prop_map(|value| DataType::Map(map_entries(value), false)),
            fields.clone().prop_map(|types| DataType::Struct(named(types))),
            (fields, any::<bool>()).prop_map(|(types, dense)| {
                let mode = if dense { UnionMode::Dense } else { UnionMode::Sparse };
                DataType::Union((0..).zip(named(types).iter().cloned()).collect::<UnionFields>(), mode)
            }),
        ]
    })
}

fn leaf_type() -> impl Strategy<Value = DataType> {
    let dictionary = |keys: DataType, values: DataType| DataType::Dictionary(Box::new(keys), Box::new(values));
    prop::sample::select(vec![
        DataType::Null,
        DataType::Boolean,
        DataType::Int8,
        DataType::UInt16,
        DataType::Int32,
        DataType::Int64,
        DataType::Float16,
        DataType::Float64,
        DataType::Date32,
        DataType::Date64,
        DataType::Time32(TimeUnit::Second),
        DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into())),
        DataType::Duration(TimeUnit::Millisecond),
        DataType::Interval(IntervalUnit::YearMonth),
        DataType::Interval(IntervalUnit::DayTime),
        DataType::Interval(IntervalUnit::MonthDayNano),
        DataType::Decimal32(7, 2),
        DataType::Decimal64(12, 2),
        DataType::Decimal128(20, 2),
        DataType::Decimal256(40, 2),
        DataType::FixedSizeBinary(5),
        DataType::FixedSizeBinary(16),
        DataType::Utf8,
        DataType::LargeUtf8,
        DataType::Binary,
        DataType::LargeBinary,
        DataType::Utf8View,
        DataType::BinaryView,
        dictionary(DataType::Int32, DataType::Utf8),
        dictionary(DataType::UInt16, DataType::Int64),
        dictionary(DataType::Int32, DataType::Utf8View),
    ])
}

fn run_ends() -> FieldRef {
    Arc::new(Field::new("run_ends", DataType::Int32, false))
}

fn run_values(field: &Field) -> FieldRef {
    Arc::new(field.clone().with_name("values"))
}

fn map_entries(value: FieldRef) -> FieldRef {
    let key = Arc::new(Field::new("keys", DataType::Int32, false));
    Arc::new(Field::new("entries", DataType::Struct(Fields::from(vec![key, value])), false))
}

fn named(types: Vec<DataType>) -> Fields {
    types.into_iter().enumerate().map(|(i, data_type)| Field::new(format!("f{i}"), data_type, true)).collect()
}

/// Returns a random array that is a slice of a longer one.
pub fn sliced_array(rng: &mut StdRng, data_type: &DataType, len: usize) -> ArrayRef {
    let (before, after) = (rng.random_range(0..70), rng.random_range(0..9));
    random_array(rng, data_type, before + len + after, true).slice(before, len)
}

/// Returns a random array. A third of such arrays have no nulls.
pub fn random_array(rng: &mut StdRng, data_type: &DataType, len: usize, nullable: bool) -> ArrayRef {
    let nulls = (nullable && rng.random_range(0..3) > 0).then(|| {
        let share = [0.1, 0.9][rng.random_range(0..2)];
        NullBuffer::from_iter((0..len).map(|_| !rng.random_bool(share)))
    });
    match data_type {
        DataType::Null => Arc::new(NullArray::new(len)),
        DataType::Boolean => Arc::new(BooleanArray::new((0..len).map(|_| rng.random_bool(0.5)).collect(), nulls)),
        DataType::Utf8 => byte_array::<Utf8Type>(rng, len, nulls),
        DataType::LargeUtf8 => byte_array::<LargeUtf8Type>(rng, len, nulls),
        DataType::Binary => byte_array::<BinaryType>(rng, len, nulls),
        DataType::LargeBinary => byte_array::<LargeBinaryType>(rng, len, nulls),
        DataType::Utf8View => Arc::new(StringViewArray::from_iter(optional_texts(rng, len, nulls.as_ref()))),
        DataType::BinaryView => Arc::new(BinaryViewArray::from_iter(optional_texts(rng, len, nulls.as_ref()))),
        DataType::Dictionary(keys, values) => match keys.as_ref() {
            DataType::Int8 => dictionary::<Int8Type>(rng, values, len, nulls),
            DataType::UInt16 => dictionary::<UInt16Type>(rng, values, len, nulls),
            _ => dictionary::<Int32Type>(rng, values, len, nulls),
        },
        DataType::List(field) => list::<i32>(rng, field, len, nulls),
        DataType::LargeList(field) => list::<i64>(rng, field, len, nulls),
        DataType::ListView(field) => list_view::<i32>(rng, field, len, nulls),
        DataType::LargeListView(field) => list_view::<i64>(rng, field, len, nulls),
        DataType::FixedSizeList(field, size) => {
            let values = random_array(rng, field.data_type(), len * *size as usize, true);
            Arc::new(FixedSizeListArray::try_new_with_length(Arc::clone(field), *size, values, nulls, len).unwrap())
        }
        DataType::Map(field, _) => {
            let offsets = offsets::<i32>(rng, len);
            let entries = random_array(rng, field.data_type(), *offsets.last().unwrap() as usize, false);
            let entries = StructArray::from(entries.to_data());
            Arc::new(MapArray::new(Arc::clone(field), offsets, entries, nulls, false))
        }
        DataType::Struct(fields) => {
            let columns = fields.iter().map(|field| random_array(rng, field.data_type(), len, field.is_nullable()));
            Arc::new(StructArray::try_new_with_length(fields.clone(), columns.collect(), nulls, len).unwrap())
        }
        DataType::Union(fields, mode) => union(rng, fields, *mode, len),
        DataType::RunEndEncoded(_, values) => run_array(rng, values.data_type(), len),
        _ => fixed_width(rng, data_type, len, nulls),
    }
}

/// Returns small non-negative numbers, which are valid for every type. The lowest two bytes differ.
fn fixed_width(rng: &mut StdRng, data_type: &DataType, len: usize, nulls: Option<NullBuffer>) -> ArrayRef {
    let width = match data_type {
        DataType::FixedSizeBinary(width) => *width as usize,
        _ => data_type.primitive_width().unwrap(),
    };
    let mut bytes = vec![0; len * width];
    for value in bytes.chunks_exact_mut(width.max(1)) {
        let random = rng.random::<u16>() & 0x7fff;
        value.iter_mut().zip(random.to_le_bytes()).for_each(|(to, from)| *to = from);
    }
    let values = Buffer::from_slice_ref(&bytes);
    make_array(ArrayData::builder(data_type.clone()).len(len).nulls(nulls).add_buffer(values).build().unwrap())
}

fn text(rng: &mut StdRng) -> String {
    let len = [0, 3, 12, 13, 40, 200][rng.random_range(0..6)];
    (0..len).map(|_| rng.random_range('a'..='z')).collect()
}

fn optional_texts(rng: &mut StdRng, len: usize, nulls: Option<&NullBuffer>) -> Vec<Option<String>> {
    (0..len).map(|row| nulls.is_none_or(|nulls| nulls.is_valid(row)).then(|| text(rng))).collect()
}

/// Returns strings or binary values. Null rows have bytes too.
fn byte_array<T: ByteArrayType>(rng: &mut StdRng, len: usize, nulls: Option<NullBuffer>) -> ArrayRef {
    let texts: Vec<String> = (0..len).map(|_| text(rng)).collect();
    let offsets = OffsetBuffer::from_lengths(texts.iter().map(String::len));
    Arc::new(GenericByteArray::<T>::new(offsets, texts.concat().into_bytes().into(), nulls))
}

fn dictionary<K: ArrowDictionaryKeyType>(
    rng: &mut StdRng,
    values: &DataType,
    len: usize,
    nulls: Option<NullBuffer>,
) -> ArrayRef {
    let distinct = rng.random_range(1..12);
    let key = |_| K::Native::usize_as(rng.random_range(0..distinct));
    let keys = PrimitiveArray::<K>::new((0..len).map(key).collect(), nulls);
    let values = random_array(rng, values, distinct, true);
    Arc::new(DictionaryArray::new(keys, values))
}

use arrow::datatypes::ArrowNativeType;

fn offsets<O: OffsetSizeTrait>(rng: &mut StdRng, len: usize) -> OffsetBuffer<O> {
    OffsetBuffer::from_lengths((0..len).map(|_| rng.random_range(0..4)))
}

fn list<O: OffsetSizeTrait>(rng: &mut StdRng, field: &FieldRef, len: usize, nulls: Option<NullBuffer>) -> ArrayRef {
    let offsets = offsets::<O>(rng, len);
    let values = random_array(rng, field.data_type(), offsets.last().unwrap().as_usize(), true);
    Arc::new(GenericListArray::<O>::new(Arc::clone(field), offsets, values, nulls))
}

/// Returns lists that overlap and are out of order.
fn list_view<O: OffsetSizeTrait>(
    rng: &mut StdRng,
    field: &FieldRef,
    len: usize,
    nulls: Option<NullBuffer>,
) -> ArrayRef {
    let total = rng.random_range(4..20);
    let values = random_array(rng, field.data_type(), total, true);
    let offsets: ScalarBuffer<O> = (0..len).map(|_| O::usize_as(rng.random_range(0..total - 3))).collect();
    let sizes: ScalarBuffer<O> = (0..len).map(|_| O::usize_as(rng.random_range(0..4))).collect();
    Arc::new(GenericListViewArray::<O>::new(Arc::clone(field), offsets, sizes, values, nulls))
}

fn union(rng: &mut StdRng, fields: &UnionFields, mode: UnionMode, len: usize) -> ArrayRef {
    let kinds = fields.len() as i8;
    let type_ids: ScalarBuffer<i8> = (0..len).map(|_| rng.random_range(0..kinds)).collect();
    let mut used = vec![0i32; fields.len()];
    let offsets = type_ids.iter().map(|&id| {
        used[id as usize] += 1;
        used[id as usize] - 1
    });
    let offsets: ScalarBuffer<i32> = offsets.collect();
    let child_len = |id: i8| if mode == UnionMode::Dense { used[id as usize] as usize } else { len };
    let children = fields.iter().map(|(id, field)| random_array(rng, field.data_type(), child_len(id), true)).collect();
    let offsets = (mode == UnionMode::Dense).then_some(offsets);
    Arc::new(UnionArray::try_new(fields.clone(), type_ids, offsets, children).unwrap())
}

fn run_array(rng: &mut StdRng, values: &DataType, len: usize) -> ArrayRef {
    let mut ends = Vec::new();
    while ends.last().copied().unwrap_or(0) < len as i32 {
        let end = ends.last().copied().unwrap_or(0) + rng.random_range(1..5);
        ends.push(end.min(len as i32));
    }
    let values = random_array(rng, values, ends.len(), true);
    let ends = PrimitiveArray::<Int32Type>::from(ends);
    Arc::new(RunArray::<Int32Type>::try_new(&ends, &values).unwrap())
}
