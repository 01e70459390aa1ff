//! Batches between stages, in as few bytes as their values need.
//!
//! A number is sent as its distance from the least one of its column, in the least whole number of bytes of which
//! that of the column can be had: a discount of two digits takes 1 byte instead of the 16 of its decimal. Both sides
//! spend less time on that than on copying the bytes that it saves.
//!
//! A batch becomes one value of a binary column. Its numbers are little-endian:
//!
//! ```text
//! batch   rows: u64, columns
//! column  validity: 0 (no nulls), or 1 and a bit for each row; values
//! values  integers: width in bytes (0, 1, 2, 4, 8), base: i128, a distance from the base for each row;
//!         or the width 16, and the values themselves
//!         booleans: a bit for each row
//!         texts and bytes: the lengths, as integers; then all bytes
//!         other types of fixed width: the values
//! ```
//!
//! The column's field has the schema of the batch. Batches with lists, structs and dictionaries are sent as they are.

use std::{io::Cursor, sync::Arc};

use base64::{Engine, prelude::BASE64_STANDARD};
use datafusion::{
    arrow::{
        array::{
            Array, ArrayData, ArrayRef, AsArray, BooleanArray, GenericByteArray, GenericByteViewArray,
            LargeBinaryArray, RecordBatch, RecordBatchOptions, builder::make_view, make_array, new_null_array,
        },
        buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer},
        datatypes::{
            ArrowNativeType, BinaryType, BinaryViewType, ByteArrayType, ByteViewType, DataType, Field, LargeBinaryType,
            LargeUtf8Type, Schema, SchemaRef, StringViewType, Utf8Type,
        },
        ipc::{reader::StreamReader, writer::StreamWriter},
    },
    common::{internal_datafusion_err, internal_err},
    error::Result,
};

/// The metadata key of the field of packed batches, whose value is their schema.
const PACKED: &str = "annulus.packed";

/// The width that stands for values instead of distances.
const RAW: u8 = 16;

/// The way in which values of a type are packed.
#[derive(Clone, Copy)]
enum PackingMethod {
    Null,
    Boolean,
    Integer(Integer),
    /// Values of this number of bytes.
    Fixed(usize),
    Bytes,
}

#[derive(Clone, Copy)]
enum Integer {
    I8,
    I16,
    I32,
    I64,
    I128,
    U8,
    U16,
    U32,
    U64,
}

impl PackingMethod {
    /// Returns how a type is packed; `None` if it is not.
    fn for_type(data_type: &DataType) -> Option<Self> {
        use DataType::*;
        Some(match data_type {
            Null => Self::Null,
            Boolean => Self::Boolean,
            Int8 => Self::Integer(Integer::I8),
            Int16 => Self::Integer(Integer::I16),
            Int32 | Date32 | Time32(_) | Decimal32(..) => Self::Integer(Integer::I32),
            Int64 | Date64 | Time64(_) | Timestamp(..) | Duration(_) | Decimal64(..) => Self::Integer(Integer::I64),
            Decimal128(..) => Self::Integer(Integer::I128),
            UInt8 => Self::Integer(Integer::U8),
            UInt16 => Self::Integer(Integer::U16),
            UInt32 => Self::Integer(Integer::U32),
            UInt64 => Self::Integer(Integer::U64),
            Float16 | Float32 | Float64 | Interval(_) | Decimal256(..) => Self::Fixed(data_type.primitive_width()?),
            FixedSizeBinary(width) => Self::Fixed(usize::try_from(*width).ok()?),
            Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView => Self::Bytes,
            _ => return None,
        })
    }
}

/// Returns the schema in which batches of `schema` are sent; `None` if they cannot be packed.
///
/// # Errors
/// If the schema cannot be written.
pub(super) fn packed_schema(schema: &Schema) -> Result<Option<SchemaRef>> {
    if schema.fields().iter().any(|field| PackingMethod::for_type(field.data_type()).is_none()) {
        return Ok(None);
    }
    let mut written = Vec::new();
    StreamWriter::try_new(&mut written, schema)?.finish()?;
    let metadata = [(PACKED.to_owned(), BASE64_STANDARD.encode(written))].into();
    let field = Field::new("packed", DataType::LargeBinary, false).with_metadata(metadata);
    Ok(Some(Arc::new(Schema::new(vec![field]))))
}

/// Returns the schema of the batches that are packed in batches of `schema`; `None` if it is not one of packed batches.
///
/// # Errors
/// If it cannot be read.
pub(super) fn unpacked_schema(schema: &Schema) -> Result<Option<SchemaRef>> {
    let [field] = &schema.fields()[..] else { return Ok(None) };
    let Some(written) = field.metadata().get(PACKED) else { return Ok(None) };
    let written = BASE64_STANDARD.decode(written).map_err(|error| internal_datafusion_err!("{error}"))?;
    Ok(Some(StreamReader::try_new(Cursor::new(written), None)?.schema()))
}

/// Returns the packed batch, of the schema that [`packed_schema`] returned. O(values), and O(bytes) of texts.
///
/// # Errors
/// If a column has a type that is not packed.
pub(super) fn pack(batch: &RecordBatch, packed: &SchemaRef) -> Result<RecordBatch> {
    let mut bytes = Vec::with_capacity(64 + batch.num_columns() * (32 + 4 * batch.num_rows()));
    bytes.extend_from_slice(&(batch.num_rows() as u64).to_le_bytes());
    for column in batch.columns() {
        pack_column(column, &mut bytes)?;
    }
    let column = LargeBinaryArray::from_iter_values([bytes]);
    Ok(RecordBatch::try_new(Arc::clone(packed), vec![Arc::new(column)])?)
}

/// Returns the batch of `schema` that was packed. O(values), and O(bytes) of texts.
///
/// # Errors
/// If the bytes are not a packed batch of the schema.
pub(super) fn unpack(packed: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let column = packed.columns().first().and_then(|column| column.as_binary_opt::<i64>());
    let Some(column) = column.filter(|column| column.len() == 1) else { return internal_err!("no packed batch") };
    let mut bytes = Bytes(column.value(0));
    let rows = bytes.length()?;
    let columns = schema.fields().iter().map(|field| unpack_column(field.data_type(), rows, &mut bytes));
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
}

fn pack_column(column: &ArrayRef, into: &mut Vec<u8>) -> Result<()> {
    let Some(packing) = PackingMethod::for_type(column.data_type()) else {
        return internal_err!("values of {} are not packed", column.data_type());
    };
    let nulls = column.nulls().filter(|nulls| nulls.null_count() > 0);
    into.push(u8::from(nulls.is_some()));
    if let Some(nulls) = nulls {
        put_bits(nulls.inner(), into);
    }
    match packing {
        PackingMethod::Null => {}
        PackingMethod::Boolean => put_bits(column.as_boolean().values(), into),
        PackingMethod::Integer(integer) => {
            let data = column.to_data();
            match integer {
                Integer::I8 => put_integers(values::<i8>(&data), nulls, into),
                Integer::I16 => put_integers(values::<i16>(&data), nulls, into),
                Integer::I32 => put_integers(values::<i32>(&data), nulls, into),
                Integer::I64 => put_integers(values::<i64>(&data), nulls, into),
                Integer::I128 => put_integers(values::<i128>(&data), nulls, into),
                Integer::U8 => put_integers(values::<u8>(&data), nulls, into),
                Integer::U16 => put_integers(values::<u16>(&data), nulls, into),
                Integer::U32 => put_integers(values::<u32>(&data), nulls, into),
                Integer::U64 => put_integers(values::<u64>(&data), nulls, into),
            }
        }
        PackingMethod::Fixed(width) => {
            let data = column.to_data();
            let start = data.offset() * width;
            into.extend_from_slice(&data.buffers()[0].as_slice()[start..start + data.len() * width]);
        }
        PackingMethod::Bytes => match column.data_type() {
            DataType::Utf8 => put_bytes(column.as_bytes::<Utf8Type>(), into),
            DataType::LargeUtf8 => put_bytes(column.as_bytes::<LargeUtf8Type>(), into),
            DataType::Binary => put_bytes(column.as_bytes::<BinaryType>(), into),
            DataType::LargeBinary => put_bytes(column.as_bytes::<LargeBinaryType>(), into),
            DataType::Utf8View => put_views(column.as_byte_view::<StringViewType>(), into),
            _ => put_views(column.as_byte_view::<BinaryViewType>(), into),
        },
    }
    Ok(())
}

fn unpack_column(data_type: &DataType, rows: usize, from: &mut Bytes<'_>) -> Result<ArrayRef> {
    let Some(packing) = PackingMethod::for_type(data_type) else {
        return internal_err!("values of {data_type} are not packed");
    };
    let nulls = match from.byte()? {
        0 => None,
        _ => Some(NullBuffer::new(from.bits(rows)?)),
    };
    let values = match packing {
        PackingMethod::Null => return Ok(new_null_array(data_type, rows)),
        PackingMethod::Boolean => return Ok(Arc::new(BooleanArray::new(from.bits(rows)?, nulls))),
        PackingMethod::Integer(integer) => match integer {
            Integer::I8 => Buffer::from_vec(from.integers::<i8>(rows)?),
            Integer::I16 => Buffer::from_vec(from.integers::<i16>(rows)?),
            Integer::I32 => Buffer::from_vec(from.integers::<i32>(rows)?),
            Integer::I64 => Buffer::from_vec(from.integers::<i64>(rows)?),
            Integer::I128 => Buffer::from_vec(from.integers::<i128>(rows)?),
            Integer::U8 => Buffer::from_vec(from.integers::<u8>(rows)?),
            Integer::U16 => Buffer::from_vec(from.integers::<u16>(rows)?),
            Integer::U32 => Buffer::from_vec(from.integers::<u32>(rows)?),
            Integer::U64 => Buffer::from_vec(from.integers::<u64>(rows)?),
        },
        PackingMethod::Fixed(width) => Buffer::from(from.items(rows, width)?),
        PackingMethod::Bytes => return from.texts(data_type, rows, nulls),
    };
    let data = ArrayData::builder(data_type.clone()).len(rows).add_buffer(values).nulls(nulls).build()?;
    Ok(make_array(data))
}

fn values<T: ArrowNativeType>(data: &ArrayData) -> &[T] {
    &data.buffer::<T>(0)[..data.len()]
}

/// An integer whose distance from a smaller one has at most 64 bits, or is too large.
trait Distance: ArrowNativeType + Ord {
    fn distance(self, base: Self) -> u64;
    fn with_distance(base: Self, distance: u64) -> Self;
    /// The distance in all its bits.
    fn span(self, base: Self) -> u128;
    fn widened(self) -> i128;
    fn narrowed(base: i128) -> Self;
}

macro_rules! distances {
    ($($integer:ty),+) => {$(
        impl Distance for $integer {
            fn distance(self, base: Self) -> u64 {
                (self as u64).wrapping_sub(base as u64)
            }

            fn with_distance(base: Self, distance: u64) -> Self {
                (base as u64).wrapping_add(distance) as Self
            }

            fn span(self, base: Self) -> u128 {
                self.distance(base).into()
            }

            fn widened(self) -> i128 {
                self.into()
            }

            fn narrowed(base: i128) -> Self {
                base as Self
            }
        }
    )+};
}

distances!(i8, i16, i32, i64, u8, u16, u32, u64);

impl Distance for i128 {
    fn distance(self, base: Self) -> u64 {
        self.wrapping_sub(base) as u64
    }

    fn with_distance(base: Self, distance: u64) -> Self {
        base.wrapping_add(distance.into())
    }

    fn span(self, base: Self) -> u128 {
        self.wrapping_sub(base) as u128
    }

    fn widened(self) -> i128 {
        self
    }

    fn narrowed(base: i128) -> Self {
        base
    }
}

/// Puts the distances of integers from the least one that is not null. What is at a null does not matter.
fn put_integers<T: Distance>(values: &[T], nulls: Option<&NullBuffer>, into: &mut Vec<u8>) {
    let (least, most) = match nulls {
        None => range(values.iter().copied()),
        Some(nulls) => range(nulls.valid_indices().map(|row| values[row])),
    };
    let span = most.span(least);
    let width = match span {
        0 => 0,
        1..0x100 => 1,
        0x100..0x1_0000 => 2,
        0x1_0000..0x1_0000_0000 => 4,
        0x1_0000_0000..0x1_0000_0000_0000_0000 => 8,
        _ => RAW,
    };
    into.push(width);
    if width == RAW {
        // Only of 128 bits.
        put_each(values, into, |value| value.widened().to_le_bytes());
        return;
    }
    into.extend_from_slice(&least.widened().to_le_bytes());
    match width {
        1 => put_each(values, into, |value| (value.distance(least) as u8).to_le_bytes()),
        2 => put_each(values, into, |value| (value.distance(least) as u16).to_le_bytes()),
        4 => put_each(values, into, |value| (value.distance(least) as u32).to_le_bytes()),
        8 => put_each(values, into, |value| value.distance(least).to_le_bytes()),
        _ => {}
    }
}

/// Returns the least and the largest value; zeros of none.
fn range<T: Distance>(values: impl Iterator<Item = T>) -> (T, T) {
    let mut values = values;
    let Some(first) = values.next() else { return (T::default(), T::default()) };
    values.fold((first, first), |(least, most), value| (least.min(value), most.max(value)))
}

fn put_each<T: Copy, const N: usize>(values: &[T], into: &mut Vec<u8>, bytes: impl Fn(T) -> [u8; N]) {
    let start = into.len();
    into.resize(start + values.len() * N, 0);
    let (places, _) = into[start..].as_chunks_mut::<N>();
    for (place, value) in places.iter_mut().zip(values) {
        *place = bytes(*value);
    }
}

fn put_bits(bits: &BooleanBuffer, into: &mut Vec<u8>) {
    into.extend_from_slice(&bits.sliced().as_slice()[..bits.len().div_ceil(8)]);
}

fn put_bytes<T: ByteArrayType>(texts: &GenericByteArray<T>, into: &mut Vec<u8>) {
    let offsets = texts.value_offsets();
    let lengths: Vec<u64> = offsets.windows(2).map(|two| (two[1].as_usize() - two[0].as_usize()) as u64).collect();
    put_integers(&lengths, None, into);
    let (start, end) = (offsets[0].as_usize(), offsets[texts.len()].as_usize());
    into.extend_from_slice(&texts.value_data()[start..end]);
}

fn put_views<T: ByteViewType>(texts: &GenericByteViewArray<T>, into: &mut Vec<u8>) {
    // The first four bytes of a view are the length. At a null, it may be any.
    let is_null = |row| texts.is_null(row);
    let length = |(row, view): (usize, &u128)| if is_null(row) { 0 } else { u64::from(*view as u32) };
    let lengths: Vec<u64> = texts.views().iter().enumerate().map(length).collect();
    put_integers(&lengths, None, into);
    for row in (0..texts.len()).filter(|row| !is_null(*row)) {
        let text: &T::Native = texts.value(row);
        into.extend_from_slice(text.as_ref());
    }
}

/// The bytes that are yet to be unpacked.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, bytes: usize) -> Result<&'a [u8]> {
        let Some((taken, rest)) = self.0.split_at_checked(bytes) else {
            return internal_err!("a packed batch ends too early");
        };
        self.0 = rest;
        Ok(taken)
    }

    fn items(&mut self, items: usize, width: usize) -> Result<&'a [u8]> {
        // More than there can be, so that it ends too early.
        self.take(items.saturating_mul(width))
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    fn byte(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    fn length(&mut self) -> Result<usize> {
        usize::try_from(u64::from_le_bytes(self.array()?)).map_err(|error| internal_datafusion_err!("{error}"))
    }

    fn bits(&mut self, rows: usize) -> Result<BooleanBuffer> {
        Ok(BooleanBuffer::new(Buffer::from(self.take(rows.div_ceil(8))?), 0, rows))
    }

    fn integers<T: Distance>(&mut self, rows: usize) -> Result<Vec<T>> {
        let width = self.byte()?;
        if width == RAW {
            return self.each(rows, |bytes: [u8; 16]| T::narrowed(i128::from_le_bytes(bytes)));
        }
        let base = T::narrowed(i128::from_le_bytes(self.array()?));
        match width {
            0 => {
                let mut values = Vec::new();
                // Nothing in the bytes bounds the number of rows.
                values.try_reserve_exact(rows).map_err(|error| internal_datafusion_err!("{error}"))?;
                values.resize(rows, base);
                Ok(values)
            }
            1 => self.each(rows, |bytes| T::with_distance(base, u8::from_le_bytes(bytes).into())),
            2 => self.each(rows, |bytes| T::with_distance(base, u16::from_le_bytes(bytes).into())),
            4 => self.each(rows, |bytes| T::with_distance(base, u32::from_le_bytes(bytes).into())),
            8 => self.each(rows, |bytes| T::with_distance(base, u64::from_le_bytes(bytes))),
            _ => internal_err!("a packed integer has {width} bytes"),
        }
    }

    fn each<T, const N: usize>(&mut self, rows: usize, value: impl Fn([u8; N]) -> T) -> Result<Vec<T>> {
        let (items, _) = self.items(rows, N)?.as_chunks::<N>();
        Ok(items.iter().map(|bytes| value(*bytes)).collect())
    }

    fn texts(&mut self, data_type: &DataType, rows: usize, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
        let lengths: Vec<u64> = self.integers(rows)?;
        let all = lengths.iter().try_fold(0_usize, |sum, &length| sum.checked_add(usize::try_from(length).ok()?));
        let Some(all) = all else { return internal_err!("a packed batch has too many bytes of texts") };
        let bytes = self.take(all)?;
        Ok(match data_type {
            DataType::Utf8 => Arc::new(byte_array::<Utf8Type>(&lengths, bytes, nulls)?),
            DataType::LargeUtf8 => Arc::new(byte_array::<LargeUtf8Type>(&lengths, bytes, nulls)?),
            DataType::Binary => Arc::new(byte_array::<BinaryType>(&lengths, bytes, nulls)?),
            DataType::LargeBinary => Arc::new(byte_array::<LargeBinaryType>(&lengths, bytes, nulls)?),
            DataType::Utf8View => Arc::new(byte_views::<StringViewType>(&lengths, bytes, nulls)?),
            _ => Arc::new(byte_views::<BinaryViewType>(&lengths, bytes, nulls)?),
        })
    }
}

fn byte_array<T: ByteArrayType>(
    lengths: &[u64],
    bytes: &[u8],
    nulls: Option<NullBuffer>,
) -> Result<GenericByteArray<T>> {
    let Some(_) = T::Offset::from_usize(bytes.len()) else {
        return internal_err!("a packed batch has too many bytes of texts");
    };
    // Their sum, the number of bytes, is an offset.
    let offsets = OffsetBuffer::from_lengths(lengths.iter().map(|&length| length as usize));
    Ok(GenericByteArray::try_new(offsets, Buffer::from(bytes), nulls)?)
}

fn byte_views<T: ByteViewType>(
    lengths: &[u64],
    bytes: &[u8],
    nulls: Option<NullBuffer>,
) -> Result<GenericByteViewArray<T>> {
    let (mut views, mut buffers) = (Vec::with_capacity(lengths.len()), Vec::new());
    let (mut first, mut end) = (0, 0);
    for &length in lengths {
        let (start, next) = (end, end + length as usize);
        end = next;
        // Views have offsets of 32 bits.
        let offset = match u32::try_from(end - first) {
            Ok(_) => start - first,
            Err(_) => {
                buffers.push(Buffer::from(&bytes[first..start]));
                first = start;
                0
            }
        };
        views.push(make_view(&bytes[start..end], buffers.len() as u32, offset as u32));
    }
    if first < end {
        buffers.push(Buffer::from(&bytes[first..end]));
    }
    Ok(GenericByteViewArray::try_new(views.into(), buffers, nulls)?)
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::{
        array::{
            Date32Array, Decimal128Array, Float64Array, Int8Array, Int32Array, Int64Array, LargeStringArray, NullArray,
            StringArray, StringViewArray, StructArray, UInt64Array,
        },
        datatypes::{TimeUnit, i256},
    };
    use rand::{Rng, SeedableRng, rngs::StdRng};

    use super::*;

    fn batch(columns: Vec<ArrayRef>) -> RecordBatch {
        let named = columns.into_iter().enumerate().map(|(place, column)| (format!("c{place}"), column, true));
        RecordBatch::try_from_iter_with_nullable(named).unwrap()
    }

    fn sent(batch: &RecordBatch) -> RecordBatch {
        pack(batch, &packed_schema(batch.schema_ref()).unwrap().unwrap()).unwrap()
    }

    fn received(packed: &RecordBatch) -> Result<RecordBatch> {
        unpack(packed, &unpacked_schema(packed.schema_ref())?.unwrap())
    }

    fn bytes_of(packed: &RecordBatch) -> &[u8] {
        packed.column(0).as_binary::<i64>().value(0)
    }

    /// Columns of all packed types, with nulls and values of all lengths and sizes.
    fn columns(random: &mut StdRng, rows: usize) -> Vec<ArrayRef> {
        let mut optional = |bits: u32| -> Vec<Option<i128>> {
            let any = |random: &mut StdRng| random.random::<i128>() >> (128 - bits);
            (0..rows).map(|_| random.random_bool(0.8).then(|| any(random))).collect()
        };
        let (small, large, wide) = (optional(7), optional(63), optional(120));
        let text = |value: &Option<i128>| value.map(|value| "é".repeat(value.unsigned_abs() as usize % 30));
        let texts: Vec<_> = small.iter().map(text).collect();
        let of_type = |data_type: &DataType| {
            let numbers: ArrayRef = Arc::new(Int64Array::from_iter(large.iter().map(|value| value.map(|v| v as i64))));
            datafusion::arrow::compute::cast(&numbers, data_type).unwrap()
        };
        let mut columns: Vec<ArrayRef> = vec![
            Arc::new(Int8Array::from_iter(small.iter().map(|value| value.map(|v| v as i8)))),
            Arc::new(Int32Array::from_iter(small.iter().map(|value| value.map(|v| v as i32 + 1_000_000)))),
            Arc::new(UInt64Array::from_iter(large.iter().map(|value| value.map(|v| (v as u64) << 1)))),
            Arc::new(Decimal128Array::from_iter(wide.iter().copied())),
            Arc::new(Decimal128Array::from_iter(small.iter().copied()).with_precision_and_scale(15, 2).unwrap()),
            Arc::new(BooleanArray::from_iter(small.iter().map(|value| value.map(|v| v > 0)))),
            Arc::new(Date32Array::from_iter(small.iter().map(|value| value.map(|v| v as i32)))),
            Arc::new(StringArray::from_iter(&texts)),
            Arc::new(LargeStringArray::from_iter(&texts)),
            Arc::new(StringViewArray::from_iter(&texts)),
            Arc::new(NullArray::new(rows)),
        ];
        columns.extend([DataType::Int64, DataType::Float64, DataType::Duration(TimeUnit::Second)].iter().map(of_type));
        let binary = [DataType::Binary, DataType::LargeBinary, DataType::BinaryView];
        let texts = Arc::clone(&columns[7]);
        columns.extend(binary.iter().map(|to| datafusion::arrow::compute::cast(&texts, to).unwrap()));
        columns
    }

    #[test]
    fn batches_come_back_as_they_were() {
        let mut random = StdRng::seed_from_u64(1);
        for rows in [0, 1, 7, 8, 100, 1000] {
            let all = batch(columns(&mut random, rows));
            for _ in 0..10 {
                let start = random.random_range(0..=rows);
                let part = all.slice(start, random.random_range(0..=rows - start));
                let back = received(&sent(&part)).unwrap();
                assert_eq!(back, part);
                back.columns().iter().for_each(|column| column.to_data().validate_full().unwrap());
            }
        }
    }

    #[test]
    fn extremes_come_back_as_they_were() {
        let ends: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from(vec![i64::MIN, i64::MAX, 0])),
            Arc::new(UInt64Array::from(vec![0, u64::MAX, 1])),
            Arc::new(Int8Array::from(vec![i8::MIN, i8::MAX, -1])),
            Arc::new(Decimal128Array::from(vec![i128::MIN, i128::MAX, 0])),
            Arc::new(Decimal128Array::from(vec![-1, i128::from(u64::MAX) - 1, 5])),
            Arc::new(Decimal128Array::from(vec![-1, i128::from(u64::MAX), 5])),
            Arc::new(Float64Array::from(vec![f64::NAN, -0.0, f64::INFINITY])),
            Arc::new(Int32Array::from(vec![None, None, None])),
            Arc::new(datafusion::arrow::array::Decimal256Array::from(vec![i256::MIN, i256::MAX, i256::ZERO])),
        ];
        let ends = batch(ends);
        assert_eq!(format!("{:?}", received(&sent(&ends)).unwrap()), format!("{ends:?}"));
    }

    #[test]
    fn a_batch_without_columns_keeps_its_rows() {
        let options = RecordBatchOptions::new().with_row_count(Some(5));
        let rows = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &options).unwrap();
        assert_eq!(received(&sent(&rows)).unwrap().num_rows(), 5);
    }

    #[test]
    fn values_take_the_bytes_that_they_need() {
        let bytes = |column: ArrayRef| bytes_of(&sent(&batch(vec![column]))).len();
        let discounts = Decimal128Array::from_iter_values((0..1000).map(|row| row % 11));
        assert!(bytes(Arc::new(discounts)) < 1000 + 32);
        assert!(bytes(Arc::new(Int64Array::from_iter_values(5_000_000..5_001_000))) < 2000 + 32);
        assert!(bytes(Arc::new(Int64Array::from_iter_values([7; 1000]))) < 32);
        assert!(bytes(Arc::new(StringViewArray::from_iter_values(["ab"; 1000]))) < 2000 + 32);
    }

    #[test]
    fn what_is_cut_or_changed_is_an_error() {
        let mut random = StdRng::seed_from_u64(2);
        let whole = sent(&batch(columns(&mut random, 50)));
        let bytes = bytes_of(&whole);
        let with = |bytes: &[u8]| {
            let column = Arc::new(LargeBinaryArray::from_iter_values([bytes]));
            received(&RecordBatch::try_new(whole.schema(), vec![column]).unwrap())
        };
        for end in 0..bytes.len() {
            assert!(with(&bytes[..end]).is_err(), "{end} of {} bytes", bytes.len());
        }
        for _ in 0..2000 {
            let mut changed = bytes.to_vec();
            // Not the number of rows: of constants, any is possible.
            let place = random.random_range(8..changed.len());
            changed[place] = random.random();
            // It may be another batch.
            with(&changed).ok();
        }
    }

    #[test]
    fn nested_types_are_not_packed() {
        let nested: ArrayRef = Arc::new(StructArray::new_empty_fields(2, None));
        assert_eq!(packed_schema(batch(vec![nested]).schema_ref()).unwrap(), None);
        let plain = batch(vec![Arc::new(Int32Array::from(vec![1]))]);
        assert_eq!(unpacked_schema(plain.schema_ref()).unwrap(), None);
    }
}
