//! Rows decode to the encoded values, for any schema. Bytes that are not rows give an error.

#[path = "../../rows/tests/support/mod.rs"]
mod support;

use std::sync::Arc;

use annulus_pages::{
    codec::{CodecError, RowCodec},
    page::PayloadSize,
    tuples::TupleBatch,
};
use arrow::{
    array::{
        AnyDictionaryArray, Array, ArrayRef, AsArray, DictionaryArray, FixedSizeBinaryArray, FixedSizeListArray,
        Float64Array, Int8Array, Int32Array, NullArray, RecordBatch, RecordBatchOptions, StringArray, StructArray,
        UInt32Array, new_empty_array,
    },
    buffer::NullBuffer,
    compute::take,
    datatypes::{DataType, Field, Fields, Schema, UnionMode},
    row::{RowConverter, SortField},
};
use proptest::{prelude::*, sample::Index};
use rand::{Rng, SeedableRng, rngs::StdRng};
use support::{any_type, random_array, sliced_array};

fn batch_of(fields: Vec<Field>, columns: Vec<ArrayRef>, rows: usize) -> RecordBatch {
    let metadata = [("made by".to_owned(), "a test".to_owned())].into();
    let schema = Arc::new(Schema::new_with_metadata(fields, metadata));
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(schema, columns, &options).unwrap()
}

/// Returns columns of these types; one in four fields has no nulls.
fn random_batch(rng: &mut StdRng, types: &[DataType]) -> RecordBatch {
    let rows = [0, 1, 63, 64, 300][rng.random_range(0..5)];
    let (mut fields, mut columns) = (Vec::new(), Vec::new());
    for (i, data_type) in types.iter().enumerate() {
        let column = if rng.random_bool(0.25) {
            random_array(rng, data_type, rows, false)
        } else {
            sliced_array(rng, data_type, rows)
        };
        let own_nulls = matches!(data_type, DataType::Null | DataType::Union(..) | DataType::RunEndEncoded(..));
        let nullable = own_nulls || column.logical_null_count() > 0 || rng.random_bool(0.3);
        fields.push(Field::new(format!("c{i}"), data_type.clone(), nullable));
        columns.push(column);
    }
    batch_of(fields, columns, rows)
}

/// Returns no rows, all rows, or some rows, in any order and more than once.
fn random_selection(rng: &mut StdRng, rows: usize) -> Option<Vec<u32>> {
    match rng.random_range(0..3) {
        0 => None,
        _ if rows == 0 => Some(vec![]),
        _ => Some((0..rng.random_range(0..2 * rows)).map(|_| rng.random_range(0..rows as u32)).collect()),
    }
}

fn payloads<'a>(codec: &RowCodec, tuples: &'a TupleBatch) -> Vec<&'a [u8]> {
    let tuples = tuples.tuples(codec.payload_size()).unwrap();
    (0..tuples.len()).map(|i| tuples.payload(i)).collect()
}

fn encoded(codec: &RowCodec, batch: &RecordBatch, rows: Option<&[u32]>, tuples: &mut TupleBatch) {
    codec.encode(batch, rows, tuples).unwrap();
    tuples.keys.resize(rows.map_or(batch.num_rows(), <[u32]>::len), 0);
}

/// Returns whether Arrow's `==` compares only values, and not their representation.
fn is_plain(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(..) | DataType::RunEndEncoded(..) | DataType::Union(..) => false,
        DataType::ListView(_) | DataType::LargeListView(_) => false,
        DataType::List(field) | DataType::LargeList(field) | DataType::FixedSizeList(field, _) => {
            is_plain(field.data_type())
        }
        DataType::Map(field, _) => is_plain(field.data_type()),
        DataType::Struct(fields) => fields.iter().all(|field| is_plain(field.data_type())),
        _ => true,
    }
}

/// Checks that both columns have the same values: by Arrow's own rows, and by its `==` if that
/// compares values.
fn expect_equal(found: &ArrayRef, expected: &ArrayRef) {
    assert_eq!(found.data_type(), expected.data_type());
    assert_eq!(found.len(), expected.len());
    found.to_data().validate_full().unwrap();
    if is_plain(found.data_type()) {
        assert_eq!(found, expected);
    }
    if let (Some(found), Some(expected)) = (found.as_any_dictionary_opt(), expected.as_any_dictionary_opt()) {
        // Arrow has no rows of dictionaries of nested values.
        return expect_equal(&values_of(found), &values_of(expected));
    }
    let converter = RowConverter::new(vec![SortField::new(found.data_type().clone())]).unwrap();
    let found_rows = converter.convert_columns(&[Arc::clone(found)]).unwrap();
    let expected_rows = converter.convert_columns(&[Arc::clone(expected)]).unwrap();
    for (row, (f, e)) in found_rows.iter().zip(&expected_rows).enumerate() {
        assert_eq!(f, e, "row {row}: found {found:?}, expected {expected:?}");
    }
}

fn values_of(dictionary: &dyn AnyDictionaryArray) -> ArrayRef {
    take(dictionary.values(), dictionary.keys(), None).unwrap()
}

fn expect_round_trip(batch: &RecordBatch, selection: Option<&[u32]>) {
    let codec = RowCodec::new(batch.schema()).unwrap();
    // Earlier contents do not matter.
    let mut tuples = TupleBatch { keys: vec![], bytes: vec![0xAB; 5000], offsets: vec![7; 100] };
    encoded(&codec, batch, selection, &mut tuples);
    let decoded = codec.decode(&payloads(&codec, &tuples)).unwrap();
    assert_eq!(decoded.schema(), batch.schema());
    assert_eq!(decoded.num_rows(), selection.map_or(batch.num_rows(), <[u32]>::len));
    for (found, column) in decoded.columns().iter().zip(batch.columns()) {
        let expected = match selection {
            Some(rows) => take(column, &UInt32Array::from(rows.to_vec()), None).unwrap(),
            None => Arc::clone(column),
        };
        expect_equal(found, &expected);
    }

    // Values below nulls have no effect: the decoded batch, which has zeros there, has the same
    // rows.
    let mut again = TupleBatch::default();
    encoded(&codec, &decoded, None, &mut again);
    assert_eq!((tuples.bytes, tuples.offsets), (again.bytes, again.offsets));
}

/// Returns the payloads, each with a damage that is likely to matter, or unchanged.
fn damage(rng: &mut StdRng, payloads: &[&[u8]], times: usize) -> Vec<Vec<u8>> {
    let mut damaged: Vec<Vec<u8>> = payloads.iter().map(|payload| payload.to_vec()).collect();
    for _ in 0..times {
        let Some(row) = (!damaged.is_empty()).then(|| rng.random_range(0..damaged.len())) else { break };
        let row = &mut damaged[row];
        let at = if row.is_empty() { 0 } else { rng.random_range(0..row.len()) };
        match rng.random_range(0..5) {
            0 => row.truncate(at),
            1 => row.extend((0..rng.random_range(1..9)).map(|_| rng.random::<u8>())),
            2 if at + 4 <= row.len() => {
                let word = [0, 1, 0x7FFF_FFFF, u32::MAX, row.len() as u32, rng.random_range(0..300)];
                row[at..at + 4].copy_from_slice(&word[rng.random_range(0..6)].to_le_bytes());
            }
            _ if !row.is_empty() => row[at] ^= 1 << rng.random_range(0..8),
            _ => {}
        }
    }
    damaged
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn rows_round_trip(types in prop::collection::vec(any_type(), 0..6), seed in any::<u64>()) {
        let mut rng = StdRng::seed_from_u64(seed);
        let batch = random_batch(&mut rng, &types);
        let selection = random_selection(&mut rng, batch.num_rows());
        expect_round_trip(&batch, selection.as_deref());
    }

    #[test]
    fn damaged_rows_give_an_error_or_a_valid_batch(
        types in prop::collection::vec(any_type(), 0..4),
        seed in any::<u64>(),
        times in 1_usize..6,
    ) {
        let mut rng = StdRng::seed_from_u64(seed);
        let batch = random_batch(&mut rng, &types);
        let codec = RowCodec::new(batch.schema()).unwrap();
        let mut tuples = TupleBatch::default();
        encoded(&codec, &batch, None, &mut tuples);
        for _ in 0..5 {
            let damaged = damage(&mut rng, &payloads(&codec, &tuples), times);
            let damaged: Vec<&[u8]> = damaged.iter().map(Vec::as_slice).collect();
            if let Ok(decoded) = codec.decode(&damaged) {
                prop_assert_eq!(decoded.num_rows(), damaged.len());
                decoded.columns().iter().for_each(|column| column.to_data().validate_full().unwrap());
            }
        }
    }

    #[test]
    fn arbitrary_bytes_give_an_error_or_a_valid_batch(
        types in prop::collection::vec(any_type(), 1..3),
        bytes in prop::collection::vec(any::<u8>(), 0..400),
        cuts in prop::collection::vec(any::<Index>(), 0..5),
    ) {
        let fields = types.iter().map(|data_type| Field::new("c", data_type.clone(), true)).collect::<Vec<_>>();
        let codec = RowCodec::new(Arc::new(Schema::new(fields))).unwrap();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.sort_unstable();
        let rows: Vec<&[u8]> = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
        if let Ok(decoded) = codec.decode(&rows) {
            decoded.columns().iter().for_each(|column| column.to_data().validate_full().unwrap());
        }
    }
}

fn codec_of(fields: Vec<Field>) -> Result<RowCodec, CodecError> {
    RowCodec::new(Arc::new(Schema::new(fields)))
}

fn one(column: ArrayRef) -> RecordBatch {
    let rows = column.len();
    batch_of(vec![Field::new("c", column.data_type().clone(), true)], vec![column], rows)
}

#[test]
fn every_bit_of_a_float_is_kept() {
    let bits = [0x7FF8_0000_0000_0001, 0xFFF0_0000_0000_00FF, 0x8000_0000_0000_0000, 0x7FF0_0000_0000_0001];
    let batch = one(Arc::new(Float64Array::from_iter_values(bits.map(f64::from_bits))));
    let codec = RowCodec::new(batch.schema()).unwrap();
    let mut tuples = TupleBatch::default();
    encoded(&codec, &batch, None, &mut tuples);
    let decoded = codec.decode(&payloads(&codec, &tuples)).unwrap();
    let found = decoded.column(0).as_any().downcast_ref::<Float64Array>().unwrap();
    assert_eq!(found.values().iter().map(|value| value.to_bits()).collect::<Vec<_>>(), bits);
}

#[test]
fn rows_without_bytes_are_counted() {
    for column in [
        Arc::new(NullArray::new(3)) as ArrayRef,
        Arc::new(StructArray::new_empty_fields(3, None)),
        Arc::new(FixedSizeBinaryArray::try_new_with_len(0, Vec::<u8>::new().into(), None, 3).unwrap()),
    ] {
        let nullable = *column.data_type() == DataType::Null;
        let field = Field::new("c", column.data_type().clone(), nullable);
        let batch = batch_of(vec![field], vec![Arc::clone(&column)], 3);
        let codec = RowCodec::new(batch.schema()).unwrap();
        assert_eq!(codec.payload_size(), PayloadSize::Fixed(0));
        let mut tuples = TupleBatch::default();
        encoded(&codec, &batch, Some(&[2, 0]), &mut tuples);
        let decoded = codec.decode(&payloads(&codec, &tuples)).unwrap();
        assert_eq!(decoded.column(0).to_data(), column.slice(0, 2).to_data());
    }
    let none = batch_of(vec![], vec![], 5);
    expect_round_trip(&none, None);
}

#[test]
fn the_payload_is_fixed_if_all_columns_are() {
    let field = |data_type, nullable| Field::new("c", data_type, nullable);
    let pair = DataType::Struct(vec![field(DataType::Int64, false), field(DataType::Int8, true)].into());
    let list = DataType::FixedSizeList(Arc::new(field(pair, false)), 3);
    let dictionary = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Int16));
    let fields = vec![field(list, true), field(dictionary, true), field(DataType::Boolean, false)];
    assert_eq!(codec_of(fields.clone()).unwrap().payload_size(), PayloadSize::Fixed(1 + 3 * 10 + 2 + 1));
    let fields = [fields, vec![field(DataType::Utf8, true)]].concat();
    assert_eq!(codec_of(fields).unwrap().payload_size(), PayloadSize::Variable);
}

/// Fields that cannot be null may be in null parents.
#[test]
fn nothing_is_below_a_null() {
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["seen", "hidden", "seen", "hidden", "seen", "hidden"]));
    let numbers: ArrayRef = Arc::new(Int32Array::from(vec![1, 2, 3, 4, 5, 6]));
    let fields = Fields::from(vec![Field::new("t", DataType::Utf8, false), Field::new("n", DataType::Int32, false)]);
    let every_other = NullBuffer::from(vec![true, false, true, false, true, false]);
    let structs: ArrayRef =
        Arc::new(StructArray::new(fields.clone(), vec![Arc::clone(&texts), numbers], Some(every_other)));
    let item = Arc::new(Field::new("item", DataType::Struct(fields), true));
    let nulls = NullBuffer::from(vec![true, false, true]);
    let lists: ArrayRef = Arc::new(FixedSizeListArray::new(item, 2, Arc::clone(&structs), Some(nulls)));
    for batch in [one(structs), one(lists)] {
        let rows = batch.num_rows() as u32;
        expect_round_trip(&batch, None);
        expect_round_trip(&batch, Some(&[rows - 1, 1, 0, 0]));
        let codec = RowCodec::new(batch.schema()).unwrap();
        let mut tuples = TupleBatch::default();
        encoded(&codec, &batch, None, &mut tuples);
        assert!(!tuples.bytes.windows(6).any(|bytes| bytes == b"hidden"));
    }
}

#[test]
fn dictionaries_of_nested_values_and_of_no_values_round_trip() {
    let mut rng = StdRng::seed_from_u64(3);
    let item = Arc::new(Field::new("item", DataType::Utf8, true));
    for values in [DataType::List(Arc::clone(&item)), DataType::Struct(vec![item].into()), DataType::FixedSizeBinary(7)]
    {
        let keys = Int8Array::from(vec![Some(3), None, Some(0), Some(3), Some(1)]);
        let array = DictionaryArray::new(keys, random_array(&mut rng, &values, 4, true));
        let batch = one(Arc::new(array));
        expect_round_trip(&batch, Some(&[4, 3, 2, 1, 0]));
        let keys = Int8Array::from(vec![None, None]);
        expect_round_trip(&one(Arc::new(DictionaryArray::new(keys, new_empty_array(&values)))), None);
    }
}

#[test]
fn a_dictionary_whose_keys_do_not_suffice_is_refused() {
    let column = |start: i32| -> ArrayRef {
        let values: ArrayRef = Arc::new(Int32Array::from_iter_values(start..start + 100));
        Arc::new(DictionaryArray::new(Int8Array::from_iter_values(0..100), values))
    };
    let (first, second) = (one(column(0)), one(column(1000)));
    let codec = RowCodec::new(first.schema()).unwrap();
    let (mut a, mut b) = (TupleBatch::default(), TupleBatch::default());
    encoded(&codec, &first, None, &mut a);
    encoded(&codec, &second, None, &mut b);
    let rows = [payloads(&codec, &a), payloads(&codec, &b)].concat();
    assert_eq!(codec.decode(&rows), Err(CodecError::TooLarge { column: "c".to_owned() }));
    let batches: Vec<RecordBatch> = codec.batches(rows, 100).map(Result::unwrap).collect();
    assert_eq!(batches, [first, second]);
}

#[test]
fn batches_have_as_many_rows_as_asked_for() {
    let batch = one(Arc::new(Int32Array::from_iter_values(0..10)));
    let codec = RowCodec::new(batch.schema()).unwrap();
    let mut tuples = TupleBatch::default();
    encoded(&codec, &batch, None, &mut tuples);
    let batches = codec.batches(payloads(&codec, &tuples), 4).map(Result::unwrap).collect::<Vec<_>>();
    assert_eq!(batches, [batch.slice(0, 4), batch.slice(4, 4), batch.slice(8, 2)]);
    assert_eq!(codec.batches([], 4).count(), 0);
}

#[test]
fn what_does_not_fit_is_named() {
    let field = |data_type| Field::new("c", data_type, true);
    let runs_of = |data_type| {
        DataType::RunEndEncoded(Arc::new(Field::new("run_ends", DataType::Int32, false)), Arc::new(field(data_type)))
    };
    let inner = DataType::Dictionary(Box::new(DataType::Int8), Box::new(runs_of(DataType::Utf8)));
    let outer = Field::new("outer", DataType::Struct(vec![field(inner.clone())].into()), true);
    let Err(CodecError::Unsupported { column, data_type, .. }) = codec_of(vec![outer]) else { panic!("was accepted") };
    assert_eq!((column.as_str(), data_type), ("outer.c", inner));
    assert!(codec_of(vec![field(DataType::FixedSizeBinary(-1))]).is_err());
    assert!(codec_of(vec![field(DataType::FixedSizeBinary(i32::MAX))]).is_err());
    assert!(codec_of(vec![field(DataType::FixedSizeList(Arc::new(field(DataType::Null)), i32::MAX))]).is_err());
    let union =
        |mode| DataType::Union([(0, Arc::new(field(DataType::FixedSizeBinary(5000))))].into_iter().collect(), mode);
    assert!(codec_of(vec![field(union(UnionMode::Dense))]).is_ok());
    assert!(codec_of(vec![field(union(UnionMode::Sparse))]).is_err());

    let batch = one(Arc::new(Int32Array::from(vec![Some(1), None])));
    let schema = |data_type, nullable| vec![Field::new("c", data_type, nullable)];
    let mut out = TupleBatch::default();
    let error = codec_of(schema(DataType::Int32, false)).unwrap().encode(&batch, None, &mut out);
    assert_eq!(error, Err(CodecError::Null { column: "c".to_owned() }));
    let error = codec_of(schema(DataType::Int64, true)).unwrap().encode(&batch, None, &mut out);
    let (expected, found) = (DataType::Int64, DataType::Int32);
    assert_eq!(error, Err(CodecError::Type { column: "c".to_owned(), expected, found }));
    let error = codec_of(vec![]).unwrap().encode(&batch, None, &mut out);
    assert_eq!(error, Err(CodecError::Columns { expected: 0, found: 1 }));
    let error = codec_of(schema(DataType::Int32, true)).unwrap().encode(&batch, Some(&[0, 2]), &mut out);
    assert_eq!(error, Err(CodecError::Selection { row: 2, rows: 2 }));
}

#[test]
fn text_must_be_utf8() {
    for data_type in [DataType::Utf8, DataType::LargeUtf8, DataType::Utf8View] {
        let codec = codec_of(vec![Field::new("c", data_type, false)]).unwrap();
        assert!(codec.decode(&["Zürich".as_bytes()]).is_ok());
        assert!(matches!(codec.decode(&[b"\xFF"]), Err(CodecError::Invalid { .. })));
        // Valid only together.
        assert!(matches!(codec.decode(&[b"\xC3", b"\xBC"]), Err(CodecError::Invalid { .. })));
    }
}
