//! Rows decode to what was encoded, for any schema; and bytes that are no rows, to an error.

#[path = "../../exchange/tests/support/mod.rs"]
mod support;

use std::sync::Arc;

use annulus_pages::{
    codec::{CodecError, RowCodec},
    page::PayloadSize,
    tuples::TupleBatch,
};
use arrow::{
    array::{
        Array, ArrayRef, DictionaryArray, FixedSizeBinaryArray, FixedSizeListArray, Float64Array, Int8Array,
        Int32Array, NullArray, RecordBatch, RecordBatchOptions, StringArray, StructArray, UInt32Array, new_empty_array,
    },
    buffer::NullBuffer,
    compute::take,
    datatypes::{DataType, Field, Fields, Schema, SchemaRef},
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

/// Columns of these types; one in four fields has no nulls.
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

/// No rows, all rows, or some, in any order and more than once.
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

/// Whether Arrow's `==` compares values alone, and not how they are represented.
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

/// Both columns have the same values, by Arrow's own rows and, where that is about values, by its `==`.
fn expect_equal(found: &ArrayRef, expected: &ArrayRef) {
    assert_eq!(found.data_type(), expected.data_type());
    assert_eq!(found.len(), expected.len());
    found.to_data().validate_full().unwrap();
    if is_plain(found.data_type()) {
        assert_eq!(found, expected);
    }
    let converter = RowConverter::new(vec![SortField::new(found.data_type().clone())]).unwrap();
    let found_rows = converter.convert_columns(&[Arc::clone(found)]).unwrap();
    let expected_rows = converter.convert_columns(&[Arc::clone(expected)]).unwrap();
    for (row, (f, e)) in found_rows.iter().zip(&expected_rows).enumerate() {
        assert_eq!(f, e, "row {row}: found {found:?}, expected {expected:?}");
    }
}

fn expect_round_trip(batch: &RecordBatch, selection: Option<&[u32]>) {
    let codec = RowCodec::new(batch.schema()).unwrap();
    // Old contents do not matter.
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

    // What is below nulls does not show: the decoded batch, with zeros there, has the same rows.
    let mut again = TupleBatch::default();
    encoded(&codec, &decoded, None, &mut again);
    assert_eq!((tuples.bytes, tuples.offsets), (again.bytes, again.offsets));
}

/// The payloads, each damaged in a way that seems worth it, or not at all.
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
