//! As-of joins against the same join pair by pair.

mod support;

use std::{cmp::Ordering, sync::Arc};

use annulus_join::{AsOfComparison, AsOfIndex, AsOfKeys, AsOfProbe};
use arrow::{
    array::{Array, ArrayRef, Int64Array, RecordBatch, StringViewArray, UInt32Array},
    datatypes::DataType,
};
use proptest::prelude::*;
use support::values::{Kind, Table, Value, compare};

const COMPARISONS: [AsOfComparison; 4] =
    [AsOfComparison::AtOrAfter, AsOfComparison::After, AsOfComparison::AtOrBefore, AsOfComparison::Before];

/// Returns two tables whose last key is the time.
fn tables() -> impl Strategy<Value = (Table, Table)> {
    let equal = prop::collection::vec(prop::sample::select(Kind::ALL.to_vec()), 0..3);
    let time = prop::sample::select(Kind::NUMBERS.to_vec());
    (equal, time).prop_flat_map(|(mut kinds, time)| {
        kinds.push(time);
        (Table::strategy(kinds.clone(), 40), Table::strategy(kinds, 40))
    })
}

/// Returns the keys of a table, without the columns behind them.
fn keys(table: &Table, batch: &RecordBatch) -> Vec<ArrayRef> {
    batch.columns()[..table.kinds.len()].to_vec()
}

fn types(columns: &[ArrayRef]) -> Vec<DataType> {
    columns.iter().map(|column| column.data_type().clone()).collect()
}

/// Returns the partners of the rows of a side, found in batches of `step` rows.
fn find(
    left: &[ArrayRef],
    right: &[ArrayRef],
    rows: &RecordBatch,
    comparison: AsOfComparison,
    step: usize,
) -> Vec<u32> {
    let types = types(right);
    let (time, equal) = types.split_last().unwrap();
    // In batches of several sizes.
    let (mut columns, mut batches, mut start) = (Vec::new(), Vec::new(), 0);
    while start < rows.num_rows() {
        let count = (start * 7 % 13 + 1 + rows.num_rows() / 9).min(rows.num_rows() - start);
        columns.push(right.iter().map(|column| column.slice(start, count)).collect());
        batches.push(rows.slice(start, count));
        start += count;
    }
    let index = AsOfIndex::prepare(AsOfKeys::try_new(equal, time).unwrap(), &columns, &batches, 3).unwrap();
    let mut probe = AsOfProbe::new(&index, comparison);
    let count = left[0].len();
    let found = (0..count).step_by(step).flat_map(|start| {
        let piece: Vec<ArrayRef> = left.iter().map(|column| column.slice(start, step.min(count - start))).collect();
        probe.find(&index, &piece).unwrap().iter().map(|row| row.unwrap_or(u32::MAX)).collect::<Vec<_>>()
    });
    found.collect()
}

/// Returns the partner of a row, among equal times the last one.
fn nearest(kinds: &[Kind], row: &[Value], right: &[Vec<Value>], comparison: AsOfComparison) -> u32 {
    let time = kinds.len() - 1;
    let order = |a: &[Value], b: &[Value]| compare(kinds[time], &a[time], &b[time]);
    let is_partner = |other: &[Value]| {
        let equal = (0..time).all(|key| compare(kinds[key], &row[key], &other[key]) == Some(Ordering::Equal));
        let order = order(row, other);
        equal
            && match comparison {
                AsOfComparison::AtOrAfter => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
                AsOfComparison::After => order == Some(Ordering::Greater),
                AsOfComparison::AtOrBefore => matches!(order, Some(Ordering::Less | Ordering::Equal)),
                AsOfComparison::Before => order == Some(Ordering::Less),
            }
    };
    let mut best: Option<usize> = None;
    for (number, other) in right.iter().enumerate().filter(|(_, other)| is_partner(other)) {
        let is_nearer = best.is_none_or(|best| {
            let order = order(other, &right[best]).unwrap();
            let takes_last = matches!(comparison, AsOfComparison::AtOrAfter | AsOfComparison::After);
            order.is_eq() || order.is_gt() == takes_last
        });
        if is_nearer {
            best = Some(number);
        }
    }
    best.map_or(u32::MAX, |best| best as u32)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn partners_are_those_of_the_model((left, right) in tables(), step in 1..50_usize) {
        let batches = [left.batch(), right.batch()];
        let rows = batches[1].project(&[right.row_column()]).unwrap();
        for comparison in COMPARISONS {
            let found = find(&keys(&left, &batches[0]), &keys(&right, &batches[1]), &rows, comparison, step);
            let expected = left.rows.iter().map(|row| nearest(&left.kinds, row, &right.rows, comparison));
            prop_assert_eq!(found, expected.collect::<Vec<_>>(), "{:?}", comparison);
        }
    }
}

/// Several threads prepare runs of rows, which are merged. Keys come in another order in each.
#[test]
fn runs_of_several_threads_are_merged() {
    let count = 100_000;
    let number = |row: u64, salt: u64| (row + salt).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20;
    for (symbols, times) in [(7, 1000), (50_000, 20), (1, u64::MAX)] {
        let side = |salt: u64| -> Vec<ArrayRef> {
            let symbols = (0..count).map(|row| format!("symbol {}", number(row, salt) % symbols));
            let times = (0..count).map(|row| (number(row, salt + 7) % times) as i64);
            vec![Arc::new(StringViewArray::from_iter_values(symbols)), Arc::new(Int64Array::from_iter_values(times))]
        };
        let (left, right) = (side(1), side(2));
        let numbers: ArrayRef = Arc::new(UInt32Array::from_iter_values(0..count as u32));
        let rows = RecordBatch::try_from_iter([("row", numbers)]).unwrap();
        let value = |side: &[ArrayRef], row: usize| {
            let symbols = side[0].as_any().downcast_ref::<StringViewArray>().unwrap();
            let times = side[1].as_any().downcast_ref::<Int64Array>().unwrap();
            (symbols.value(row).to_owned(), times.value(row))
        };
        let mut sorted: Vec<_> = (0..count as usize).map(|row| (value(&right, row), row as u32)).collect();
        sorted.sort();
        for (comparison, is_before, takes_last) in [
            (AsOfComparison::AtOrAfter, Ordering::Greater, true),
            (AsOfComparison::Before, Ordering::Greater, false),
            (AsOfComparison::After, Ordering::Less, true),
            (AsOfComparison::AtOrBefore, Ordering::Less, false),
        ] {
            let found = find(&left, &right, &rows, comparison, 8192);
            for (row, found) in found.into_iter().enumerate() {
                let key = value(&left, row);
                let place = sorted.partition_point(|(other, _)| match is_before {
                    Ordering::Greater => *other <= key,
                    _ => *other < key,
                });
                // The last of equal times, of which the greatest row counts.
                let place = if takes_last { place.checked_sub(1) } else { Some(place) };
                let partner = place.and_then(|place| sorted.get(place)).filter(|(other, _)| other.0 == key.0);
                let last = partner.map_or(u32::MAX, |(partner, _)| {
                    sorted[sorted.partition_point(|(other, _)| other <= partner) - 1].1
                });
                assert_eq!(found, last, "row {row}, {symbols} symbols, {comparison:?}");
            }
        }
    }
}

/// The order of the rows decides nothing.
#[test]
fn the_greatest_of_equal_times_counts() {
    let times: ArrayRef = Arc::new(Int64Array::from(vec![5; 4]));
    let texts = ["b", "a", "c", "c"];
    let numbers = [Some(9), Some(3), None, Some(1)];
    for turn in 0..4 {
        let rows: Vec<usize> = (0..4).map(|row| (row + turn) % 4).collect();
        let text: ArrayRef = Arc::new(StringViewArray::from_iter_values(rows.iter().map(|&row| texts[row])));
        let number: ArrayRef = Arc::new(rows.iter().map(|&row| numbers[row]).collect::<Int64Array>());
        let batch = RecordBatch::try_from_iter([("text", text), ("number", number)]).unwrap();
        for comparison in [AsOfComparison::AtOrAfter, AsOfComparison::AtOrBefore] {
            let found = find(&[Arc::clone(&times)], &[Arc::clone(&times)], &batch, comparison, 8);
            let expected = rows.iter().position(|&row| row == 3).unwrap() as u32;
            assert_eq!(found, vec![expected; 4], "{comparison:?}");
        }
    }
}

#[test]
fn times_of_other_types_are_refused() {
    let error = AsOfKeys::try_new(&[DataType::Int32], &DataType::Utf8).unwrap_err().to_string();
    assert!(error.contains("key 1 is Utf8"), "{error}");
}
