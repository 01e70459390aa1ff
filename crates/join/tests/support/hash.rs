//! Random joins, and their rows as values that can be compared.

use std::{collections::HashMap, sync::Arc};

use annulus_join::{BuildSide, Fragment, JoinError, PairSink};
use arrow::{
    array::{
        Array, ArrayData, ArrayRef, AsArray, BooleanArray, BufferSpec, Date32Array, Decimal128Array, Decimal256Array,
        DictionaryArray, FixedSizeBinaryArray, Float16Array, Float32Array, Float64Array, Int8Array, Int16Array,
        Int32Array, Int64Array, IntervalDayTimeArray, IntervalMonthDayNanoArray, LargeBinaryArray, LargeListArray,
        LargeStringArray, ListArray, NullArray, RecordBatch, RecordBatchOptions, StringArray, StringViewArray,
        StructArray, TimestampMicrosecondArray, UInt8Array, UInt64Array, layout, make_array,
    },
    buffer::{Buffer, MutableBuffer},
    datatypes::{
        DataType, Float16Type, Float32Type, Float64Type, Int8Type, Int32Type, IntervalDayTime, IntervalMonthDayNano,
        i256,
    },
    util::display::{ArrayFormatter, FormatOptions},
};
use proptest::{collection::vec, prelude::*};

/// A row's values as strings that are equal if SQL treats the values as equal.
pub type Row = Vec<Option<String>>;

/// A join of two sides.
#[derive(Clone, Debug)]
pub struct Case {
    pub build: RecordBatch,
    pub probe: RecordBatch,
    pub build_keys: Vec<usize>,
    pub probe_keys: Vec<usize>,
    pub nulls_equal: bool,
    pub partitions: usize,
    pub threads: usize,
    pub batch_rows: usize,
    pub max_bytes: usize,
    pub dense: bool,
}

/// A sink that collects all pairs.
#[derive(Debug, Default)]
pub struct Collect {
    pub pairs: Vec<(u32, u32)>,
}

impl PairSink for Collect {
    fn pairs(&mut self, build: &[u32], probe: &[u32]) -> Result<(), JoinError> {
        assert!(!build.is_empty() && build.len() <= annulus_join::MOST_PAIRS && build.len() == probe.len());
        self.pairs.extend(build.iter().copied().zip(probe.iter().copied()));
        Ok(())
    }
}

/// Adds the pairs of rows that the fragment yields.
pub fn join(build: &BuildSide, fragment: &Fragment, threads: usize, pairs: &mut HashMap<(Row, Row), usize>) {
    let mut sink = Collect::default();
    for morsel in fragment.morsels(threads) {
        build.probe(fragment, &morsel, &mut sink).unwrap();
    }
    let (build, probe) = (rows_of(build.batch()), rows_of(fragment.batch()));
    for (b, p) in sink.pairs {
        *pairs.entry((build[b as usize].clone(), probe[p as usize].clone())).or_insert(0) += 1;
    }
}

/// Returns the rows as strings.
pub fn rows_of(batch: &RecordBatch) -> Vec<Row> {
    let options = FormatOptions::new();
    let columns: Vec<_> =
        batch.columns().iter().map(|column| ArrayFormatter::try_new(column.as_ref(), &options).unwrap()).collect();
    let nulls: Vec<_> = batch.columns().iter().map(|column| column.logical_nulls()).collect();
    let value = |column: usize, row: usize| {
        let text = words(batch.column(column), row).unwrap_or_else(|| columns[column].value(row).to_string());
        (!nulls[column].as_ref().is_some_and(|nulls| nulls.is_null(row))).then_some(text)
    };
    (0..batch.num_rows()).map(|row| (0..columns.len()).map(|column| value(column, row)).collect()).collect()
}

/// Returns a string that identifies a float, or a list of floats, by all its bits. The sign of a
/// zero is ignored unless it is in a list.
fn words(column: &ArrayRef, row: usize) -> Option<String> {
    macro_rules! bits {
        ($type:ty) => {{
            let bits = column.as_primitive::<$type>().value(row).to_bits();
            format!("{:x}", if bits << 1 == 0 { 0 } else { bits })
        }};
    }
    match column.data_type() {
        DataType::Float16 => Some(bits!(Float16Type)),
        DataType::Float32 => Some(bits!(Float32Type)),
        DataType::Float64 => Some(bits!(Float64Type)),
        DataType::List(item) if item.data_type().is_floating() => Some(list_words(&column.as_list::<i32>().value(row))),
        DataType::LargeList(item) if item.data_type().is_floating() => {
            Some(list_words(&column.as_list::<i64>().value(row)))
        }
        _ => None,
    }
}

fn list_words(floats: &ArrayRef) -> String {
    let bits = floats.as_primitive::<Float64Type>().values().iter().map(|value| value.to_bits());
    format!("{:x?}", bits.collect::<Vec<_>>())
}

/// Returns a column of the given kind made from small numbers, so that many values are equal. Its
/// memory is aligned as Arrow requires for its type, and no more.
fn column(kind: usize, numbers: &[Option<i8>]) -> ArrayRef {
    // A slice, so that values do not begin at the column's buffers.
    let with_more: Vec<_> = [Some(0), None, Some(7)].iter().chain(numbers).copied().collect();
    make_array(barely_aligned(&values(kind, &with_more).to_data())).slice(3, numbers.len())
}

/// Returns the data in buffers that are not aligned to more than their types require.
fn barely_aligned(data: &ArrayData) -> ArrayData {
    let specs = layout(data.data_type()).buffers;
    let moved = |(index, buffer): (usize, &Buffer)| {
        let alignment = match specs.get(index) {
            Some(BufferSpec::FixedWidth { alignment, .. }) => *alignment,
            _ => 1,
        };
        let mut memory = MutableBuffer::from_len_zeroed(alignment);
        memory.extend_from_slice(buffer.as_slice());
        Buffer::from(memory).slice(alignment)
    };
    ArrayData::builder(data.data_type().clone())
        .len(data.len())
        .offset(data.offset())
        .nulls(data.nulls().cloned())
        .buffers(data.buffers().iter().enumerate().map(moved).collect())
        .child_data(data.child_data().iter().map(barely_aligned).collect())
        .build()
        .unwrap()
}

fn values(kind: usize, numbers: &[Option<i8>]) -> ArrayRef {
    let numbers = numbers.iter().copied();
    let texts =
        numbers.clone().map(|n| n.map(|n| if n > 60 { format!("a value of some length {n}") } else { n.to_string() }));
    let floats = numbers.clone().map(|n| {
        n.map(|n| match n {
            0 => -0.0,
            1 => 0.0,
            2 => f64::NAN,
            3 => f64::from_bits(f64::NAN.to_bits() | 5),
            4 => -f64::NAN,
            n => f64::from(n) / 4.0,
        })
    });
    let wide = |n: i8| i64::from(n) << 40;
    match kind {
        0 => Arc::new(numbers.collect::<Int8Array>()),
        1 => Arc::new(numbers.map(|n| n.map(i16::from)).collect::<Int16Array>()),
        2 => Arc::new(numbers.map(|n| n.map(i32::from)).collect::<Int32Array>()),
        3 => Arc::new(numbers.map(|n| n.map(wide)).collect::<Int64Array>()),
        4 => Arc::new(numbers.map(|n| n.map(|n| n as u8)).collect::<UInt8Array>()),
        5 => Arc::new(numbers.map(|n| n.map(|n| n as u64)).collect::<UInt64Array>()),
        6 => Arc::new(numbers.map(|n| n.map(i32::from)).collect::<Date32Array>()),
        7 => Arc::new(numbers.map(|n| n.map(wide)).collect::<TimestampMicrosecondArray>()),
        8 => Arc::new(numbers.map(|n| n.map(|n| n > 0)).collect::<BooleanArray>()),
        9 => Arc::new(floats.map(|f| f.map(|f| f as f32)).collect::<Float32Array>()),
        10 => Arc::new(floats.collect::<Float64Array>()),
        11 => Arc::new(
            floats
                .map(|f| f.map(<Float16Type as arrow::datatypes::ArrowPrimitiveType>::Native::from_f64))
                .collect::<Float16Array>(),
        ),
        12 => Arc::new(numbers.map(|n| n.map(i128::from)).collect::<Decimal128Array>()),
        13 => Arc::new(texts.collect::<StringArray>()),
        14 => Arc::new(texts.collect::<StringViewArray>()),
        15 => Arc::new(
            texts.collect::<Vec<_>>().iter().map(|text| text.as_deref()).collect::<DictionaryArray<Int32Type>>(),
        ),
        16 => Arc::new(NullArray::new(numbers.count())),
        17 => Arc::new(texts.collect::<LargeStringArray>()),
        18 => {
            let bytes: Vec<Option<[u8; 3]>> = numbers.map(|n| n.map(|n| [n as u8; 3])).collect();
            Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(bytes.into_iter(), 3).unwrap())
        }
        19 => {
            let [floats, texts]: [ArrayRef; 2] =
                [Arc::new(floats.collect::<Float64Array>()), Arc::new(texts.collect::<StringArray>())];
            Arc::new(StructArray::from(
                RecordBatch::try_from_iter_with_nullable([("f", floats, true), ("t", texts, true)]).unwrap(),
            ))
        }
        20 => {
            let lists = floats.map(|f| f.map(|f| vec![Some(f)]));
            Arc::new(ListArray::from_iter_primitive::<Float64Type, _, _>(lists))
        }
        21 => Arc::new(numbers.map(|n| n.map(|n| IntervalDayTime::new(n.into(), 1))).collect::<IntervalDayTimeArray>()),
        22 => {
            let intervals = numbers.map(|n| n.map(|n| IntervalMonthDayNano::new(n.into(), 1, -2)));
            Arc::new(intervals.collect::<IntervalMonthDayNanoArray>())
        }
        23 => {
            let bytes: Vec<Option<[u8; 16]>> = numbers.map(|n| n.map(|n| [n as u8; 16])).collect();
            Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(bytes.into_iter(), 16).unwrap())
        }
        24 => Arc::new(numbers.map(|n| n.map(|n| i256::from_i128(n.into()))).collect::<Decimal256Array>()),
        25 => Arc::new(texts.map(|text| text.map(String::into_bytes)).collect::<LargeBinaryArray>()),
        26 => {
            let lists = floats.map(|f| f.map(|f| vec![Some(f)]));
            Arc::new(LargeListArray::from_iter_primitive::<Float64Type, _, _>(lists))
        }
        _ => {
            let lists = numbers.map(|n| n.map(|n| (0..n % 3).map(Some).collect::<Vec<_>>()));
            Arc::new(ListArray::from_iter_primitive::<Int8Type, _, _>(lists))
        }
    }
}

/// The number of kinds of columns.
pub const KINDS: usize = 28;

/// Returns columns of these kinds, made from small numbers.
pub fn side(kinds: &[usize], rows: &[Vec<Option<i8>>]) -> RecordBatch {
    let numbers = |column: usize| rows.iter().map(|row| row[column]).collect::<Vec<_>>();
    let columns = kinds.iter().enumerate().map(|(at, &kind)| (format!("c{at}"), column(kind, &numbers(at)), true));
    let columns: Vec<_> = columns.collect();
    let fields: Vec<_> = columns
        .iter()
        .map(|(name, array, nullable)| arrow::datatypes::Field::new(name, array.data_type().clone(), *nullable))
        .collect();
    let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
    let arrays = columns.into_iter().map(|(_, array, _)| array).collect();
    RecordBatch::try_new_with_options(Arc::new(arrow::datatypes::Schema::new(fields)), arrays, &options).unwrap()
}

/// Generates rows of `columns` numbers: some null, some very frequent.
fn arb_rows(columns: usize, most: usize) -> impl Strategy<Value = Vec<Vec<Option<i8>>>> {
    let (few, all) = ((-5i8..5).prop_map(Some), any::<i8>().prop_map(Some));
    let number = prop_oneof![4 => few, 2 => all, 1 => Just(None), 3 => Just(Some(3))];
    vec(vec(number, columns), 0..most)
}

pub fn arb_case() -> impl Strategy<Value = Case> {
    let shape = (vec(0..KINDS, 1..3), vec(0..KINDS, 0..3), vec(0..KINDS, 0..3));
    let settings = (
        any::<[bool; 2]>(),
        prop_oneof![Just(1usize), 2..64usize, Just(5000)],
        1..4usize,
        1..200usize,
        4096..16384usize,
    );
    (shape, settings).prop_flat_map(|((keys, build, probe), settings)| {
        let build_kinds = [&build[..], &keys].concat();
        let probe_kinds = [&keys[..], &probe].concat();
        (arb_rows(build_kinds.len(), 80), arb_rows(probe_kinds.len(), 80)).prop_map(move |(build_rows, probe_rows)| {
            let ([nulls_equal, dense], partitions, threads, batch_rows, max_bytes) = settings;
            Case {
                build: side(&build_kinds, &build_rows),
                probe: side(&probe_kinds, &probe_rows),
                build_keys: (build.len()..build_kinds.len()).collect(),
                probe_keys: (0..keys.len()).collect(),
                nulls_equal,
                partitions,
                threads,
                batch_rows,
                max_bytes,
                dense,
            }
        })
    })
}
