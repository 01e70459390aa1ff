//! Compares the placement of rows with simple models.

mod support;

use std::sync::Arc;

use annulus_dataset::{
    DatasetError, DatasetOption, HotKeys, InputOptions, KeyHasher, Placement, PlacementSpec, Scratch, sample_hot_keys,
    sample_ranges,
};
use arrow::{
    array::{ArrayRef, DictionaryArray, Int32Array, Int64Array, RecordBatch, StringArray, StructArray, new_null_array},
    compute::cast,
    datatypes::{DataType, Field, TimeUnit},
};
use proptest::prelude::*;
use support::{Kind, open, rich_table};
use tempfile::tempdir;

fn numbers(values: impl IntoIterator<Item = Option<i64>>) -> RecordBatch {
    let column: ArrayRef = Arc::new(Int64Array::from_iter(values));
    RecordBatch::try_from_iter_with_nullable([("k", column, true)]).unwrap()
}

fn keys(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn place(spec: &PlacementSpec, batch: &RecordBatch, by: &[&str], partitions: usize) -> Result<Vec<u16>, DatasetError> {
    let placement = Placement::new(spec, &batch.schema(), &keys(by), partitions)?;
    assert_eq!(placement.partitions(), partitions);
    let mut targets = vec![99];
    placement.assign(batch, &mut Scratch::default(), &mut targets)?;
    Ok(targets)
}

fn hashes(batch: &RecordBatch, by: &[&str]) -> Vec<u64> {
    let mut hashes = vec![];
    KeyHasher::new(&batch.schema(), &keys(by)).unwrap().hash(batch, &mut hashes).unwrap();
    hashes
}

fn value_hashes(batch: &RecordBatch, by: &[&str]) -> Vec<u64> {
    let mut hashes = vec![];
    KeyHasher::of_values(&batch.schema(), &keys(by)).unwrap().hash(batch, &mut hashes).unwrap();
    hashes
}

/// The encoding of a column is not part of its values.
#[test]
fn equal_values_have_one_hash_in_all_encodings() {
    use DataType::*;
    let coded = |values: DataType| Dictionary(Box::new(Int16), Box::new(values));
    let texts: ArrayRef =
        Arc::new(StringArray::from(vec![Some("a"), None, Some(""), Some("a longer text than a view")]));
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![Some(-86_400), None, Some(0), Some(5)]));
    let seconds = cast(&numbers, &Timestamp(TimeUnit::Second, None)).unwrap();
    let inner = |of: DataType| Struct(vec![Field::new("x", of, true)].into());
    let nested: ArrayRef =
        Arc::new(StructArray::from(vec![(Arc::new(Field::new("x", Utf8, true)), Arc::clone(&texts))]));
    let cases = [
        (&texts, vec![LargeUtf8, Utf8View, coded(Utf8), coded(LargeUtf8), coded(Utf8View)]),
        (&cast(&texts, &Binary).unwrap(), vec![LargeBinary, BinaryView, coded(Binary)]),
        (&numbers, vec![coded(Int64)]),
        (&seconds, vec![Timestamp(TimeUnit::Millisecond, None)]),
        (&nested, vec![inner(LargeUtf8), inner(coded(Utf8))]),
    ];
    for (plain, encodings) in cases {
        let hashes = |column: &ArrayRef| {
            let first: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3, 4]));
            let columns = [("a", first, true), ("k", Arc::clone(column), true)];
            let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
            [value_hashes(&batch, &["k"]), value_hashes(&batch, &["a", "k"])]
        };
        for encoding in encodings {
            assert_eq!(hashes(plain), hashes(&cast(plain, &encoding).unwrap()), "{encoding}");
        }
    }
    // A null may be one of a dictionary's values.
    let values: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None]));
    let coded: ArrayRef = Arc::new(DictionaryArray::new(Int32Array::from(vec![Some(0), Some(1), None]), values));
    let batch = RecordBatch::try_from_iter_with_nullable([("k", coded, true)]).unwrap();
    let hashes = value_hashes(&batch, &["k"]);
    assert_eq!(hashes[1], hashes[2]);
}

#[test]
fn hash_and_key_groups_of_every_type_are_remainders_of_the_hash() {
    let batch = rich_table(0, 1000);
    for field in batch.schema().fields() {
        let by = [field.name().as_str()];
        let hashes = hashes(&batch, &by);
        for partitions in [1, 7, 64] {
            let expected: Vec<u16> = hashes.iter().map(|hash| (hash % partitions) as u16).collect();
            assert_eq!(place(&PlacementSpec::Hash, &batch, &by, partitions as usize).unwrap(), expected, "{by:?}");
            let group = |hash: &u64| (hash % 100 * partitions / 100) as u16;
            let expected: Vec<u16> = value_hashes(&batch, &by).iter().map(group).collect();
            assert_eq!(place(&PlacementSpec::KeyGroups(100), &batch, &by, partitions as usize).unwrap(), expected);
        }
    }
}

/// DataFusion's placement of these keys, written down so that a change is noticed.
#[test]
fn hashes_are_those_of_the_engine_as_of_version_55() {
    let batch = numbers([Some(0), Some(1), Some(-1), Some(i64::MAX), None]);
    assert_eq!(hashes(&batch, &["k"]), EXPECTED_HASHES);
}

const EXPECTED_HASHES: [u64; 5] =
    [6908261415171690783, 11485087932207604273, 6908322369078759775, 4571573961624992205, 0];

#[test]
fn one_partition_more_moves_half_of_the_key_groups_and_each_partition_gets_from_two_at_most() {
    let batch = numbers((0..200_000).map(Some));
    let groups = 720;
    let eight = place(&PlacementSpec::KeyGroups(groups), &batch, &["k"], 8).unwrap();
    let nine = place(&PlacementSpec::KeyGroups(groups), &batch, &["k"], 9).unwrap();
    let moved = eight.iter().zip(&nine).filter(|(before, after)| before != after).count() as f64 / eight.len() as f64;
    // Partition i keeps (8 - i) / (8 * 9) of all rows: 36/72 in total. With `hash % N`, 8/9 would
    // move.
    assert!((moved - 0.5).abs() < 0.01, "{moved}");
    for partition in 0..9 {
        let mut from: Vec<_> =
            eight.iter().zip(&nine).filter(|(_, after)| **after == partition).map(|(before, _)| before).collect();
        from.sort();
        from.dedup();
        assert!(from.len() <= 2, "{partition} from {from:?}");
    }
    // With twice as many partitions, each is cut in two.
    let sixteen = place(&PlacementSpec::KeyGroups(groups), &batch, &["k"], 16).unwrap();
    assert!(eight.iter().zip(&sixteen).all(|(before, after)| *before == after / 2));
}

#[test]
fn split_points_ascend_and_are_typed_and_nulls_come_first() {
    let batch = numbers([None, Some(i64::MIN), Some(4), Some(5), Some(6), Some(99), Some(100), Some(i64::MAX)]);
    let points =
        |points: &[&str]| PlacementSpec::Ranges(points.iter().map(|point| vec![(*point).to_owned()]).collect());
    assert_eq!(place(&points(&["5", "100"]), &batch, &["k"], 3).unwrap(), [0, 0, 0, 1, 1, 1, 2, 2]);
    assert_eq!(place(&points(&[]), &batch, &["k"], 1).unwrap(), [0; 8]);

    let refused = |spec: PlacementSpec, partitions| place(&spec, &batch, &["k"], partitions).unwrap_err().to_string();
    assert!(refused(points(&["5", "x"]), 3).contains("'k'"));
    assert!(refused(points(&["5", "05"]), 3).contains("twice"));
    let unordered = refused(points(&["5", "100", "20", "7"]), 5);
    assert!(unordered.contains("'100' before '20'") && unordered.contains("ascending"), "{unordered}");
    assert!(refused(points(&["5"]), 3).contains("1 values for 3 partitions"));
    assert!(refused(PlacementSpec::Ranges(vec![keys(&["1", "2"])]), 2).contains("one value for each key"));
}

#[test]
fn several_keys_are_compared_in_their_order() {
    let column: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), Some("b"), Some("b"), Some("b"), None]));
    let batch = numbers([Some(9), Some(1), Some(2), None, Some(9)]);
    let batch =
        RecordBatch::try_from_iter_with_nullable([("s", column, true), ("k", batch.column(0).clone(), true)]).unwrap();
    let spec = PlacementSpec::Ranges(vec![keys(&["b", "2"])]);
    assert_eq!(place(&spec, &batch, &["s", "k"], 2).unwrap(), [0, 0, 1, 0, 0]);
}

#[test]
fn what_cannot_be_placed_is_refused_by_name() {
    let batch = numbers([Some(1)]);
    let field = |name: &str, of| Field::new(name, of, true);
    let entries =
        DataType::Struct(vec![Field::new("keys", DataType::Utf8, false), field("values", DataType::Utf8)].into());
    let map = DataType::Map(Arc::new(Field::new("entries", entries, false)), false);
    let maps = RecordBatch::try_from_iter_with_nullable([("map", new_null_array(&map, 1), true)]).unwrap();
    assert_eq!(place(&PlacementSpec::Hash, &maps, &["map"], 2).unwrap().len(), 1);

    let refused = |spec, batch: &RecordBatch, by: &[&str], partitions| match place(&spec, batch, by, partitions) {
        Ok(targets) => format!("placed: {targets:?}"),
        Err(error) => error.to_string(),
    };
    assert!(
        refused(PlacementSpec::Hash, &batch, &["x"], 2)
            .contains("key column 'x': there is no such column; choose among k")
    );
    assert!(refused(PlacementSpec::Hash, &batch, &[], 2).contains("`by`"));
    assert!(refused(PlacementSpec::Hash, &batch, &["k"], 0).contains("`into` is 0"));
    assert!(refused(PlacementSpec::Hash, &batch, &["k"], 65_537).contains("`into` is 65537"));
    assert!(refused(PlacementSpec::KeyGroups(1), &batch, &["k"], 2).contains("`key_groups` is 1"));
    assert!(refused(PlacementSpec::KeyGroups(70_000), &batch, &["k"], 2).contains("`key_groups` is 70000"));
    let ranges = PlacementSpec::Ranges(vec![keys(&["1"])]);
    assert!(refused(ranges, &maps, &["map"], 2).contains("key column 'map': a value of `ranges` is not of its type"));
    let splits = PlacementSpec::Splits(vec![Arc::new(Int64Array::from(vec![2, 1]))]);
    assert!(refused(splits.clone(), &batch, &["k"], 3).contains("invalid split points: sort them"));
    assert!(refused(splits.clone(), &batch, &["k"], 2).contains("2 values for 2 partitions"));
    assert!(refused(splits, &maps, &["map"], 3).contains("other types"));
}

#[test]
fn turns_are_even_and_depend_on_the_unit_alone() {
    let batch = numbers((0..10).map(Some));
    let placement = Placement::new(&PlacementSpec::RoundRobin, &batch.schema(), &[], 3).unwrap();
    let (mut scratch, mut targets) = (Scratch::default(), vec![]);
    let mut turns = |unit: usize, rows: &[usize]| -> Vec<u16> {
        scratch.begin_unit(unit);
        let mut all = vec![];
        for &rows in rows {
            placement.assign(&batch.slice(0, rows), &mut scratch, &mut targets).unwrap();
            all.extend_from_slice(&targets);
        }
        all
    };
    assert_eq!(turns(0, &[4, 0, 3]), [0, 1, 2, 0, 1, 2, 0]);
    assert_eq!(turns(5, &[7]), [2, 0, 1, 2, 0, 1, 2]);
    assert_eq!(turns(0, &[7]), [0, 1, 2, 0, 1, 2, 0]);
}

/// Returns the number of rows in each of `partitions` ranges that are sampled from a file with
/// these keys.
fn sampled(values: impl IntoIterator<Item = Option<i64>>, rows_each: usize, partitions: usize) -> Vec<usize> {
    let folder = tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    let batch = numbers(values);
    Kind::Parquet.write(&path, &batch, rows_each);
    let dataset = open(&path, &InputOptions::default()).unwrap();
    let spec = sample_ranges(&dataset, &keys(&["k"]), partitions).unwrap();
    assert_eq!(spec, sample_ranges(&dataset, &keys(&["k"]), partitions).unwrap());
    let targets = place(&spec, &batch, &["k"], partitions).unwrap();
    let mut rows = vec![0; partitions];
    targets.iter().for_each(|target| rows[usize::from(*target)] += 1);
    rows
}

#[test]
fn sampled_ranges_are_about_equal_whatever_the_order_of_the_rows() {
    let shuffled = |row: i64| Some(row.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64));
    for rows in [sampled((0..200_000).map(Some), 1000, 16), sampled((0..200_000).map(shuffled), 50_000, 16)] {
        // At least 16384 keys are sampled, so a range is off by at most a fifth.
        assert!(rows.iter().all(|rows| (10_000..15_000).contains(rows)), "{rows:?}");
    }
}

#[test]
fn sampled_ranges_keep_rows_of_a_key_together() {
    let hot = |row: i64| Some(if row % 10 < 7 { 500 } else { row % 1000 });
    let rows = sampled((0..50_000).map(hot), 5000, 8);
    assert_eq!(rows.iter().sum::<usize>(), 50_000);
    assert!(rows.iter().filter(|rows| **rows > 0).count() >= 3, "{rows:?}");
    assert_eq!(sampled((0..1000).map(|_| Some(1)), 100, 4), [1000, 0, 0, 0]);
    assert_eq!(sampled((0..1000).map(|_| None), 100, 4), [1000, 0, 0, 0]);
    assert_eq!(sampled((0..1000).map(|row| Some(row % 2)), 100, 4), [500, 500, 0, 0]);
    assert_eq!(sampled([], 100, 4), [0, 0, 0, 0]);
}

proptest! {
    #[test]
    fn ranges_are_those_of_a_search_front_to_back(
        points in prop::collection::btree_set(-50i64..50, 0..20),
        values in prop::collection::vec(prop::option::weighted(0.9, -60i64..60), 0..200),
    ) {
        let batch = numbers(values.iter().copied());
        let spec = PlacementSpec::Ranges(points.iter().map(|point| vec![point.to_string()]).collect());
        let targets = place(&spec, &batch, &["k"], points.len() + 1).unwrap();
        let below = |value| points.iter().filter(|point| **point <= value).count();
        let model = |value: &Option<i64>| value.map_or(0, below) as u16;
        prop_assert_eq!(targets, values.iter().map(model).collect::<Vec<_>>());
    }

    #[test]
    fn key_groups_are_even_runs(groups in 1u32..5000, partitions in 1usize..5000) {
        let batch = numbers((0..2000).map(Some));
        let hashes = hashes(&batch, &["k"]);
        let placed = place(&PlacementSpec::KeyGroups(groups), &batch, &["k"], partitions);
        if partitions > groups as usize {
            prop_assert!(placed.is_err());
        } else {
            let model = |hash: &u64| {
                let group = hash % u64::from(groups);
                (0..partitions as u64).rev().find(|partition| {
                    // Flink's first group of a partition: (partition * G + N - 1) / N.
                    (partition * u64::from(groups)).div_ceil(partitions as u64) <= group
                }).unwrap() as u16
            };
            prop_assert_eq!(placed.unwrap(), hashes.iter().map(model).collect::<Vec<_>>());
        }
    }
}

/// Returns keys by Zipf's law: key k has about `rows / (k * ln(keys))` rows, in an order that mixes
/// the keys.
fn zipf(rows: usize, keys: usize) -> Vec<i64> {
    let mut values: Vec<i64> = vec![];
    let sum: f64 = (1..=keys).map(|key| 1.0 / key as f64).sum();
    for key in 1..=keys {
        values.extend(std::iter::repeat_n(key as i64, (rows as f64 / key as f64 / sum) as usize));
    }
    let order = |row: usize| (row as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut mixed: Vec<(u64, i64)> = values.into_iter().enumerate().map(|(row, key)| (order(row), key)).collect();
    mixed.sort();
    mixed.into_iter().map(|(_, key)| key).collect()
}

#[test]
fn hot_keys_are_counted_within_the_bound() {
    const COUNTERS: usize = 256;
    let rows = zipf(300_000, 50_000);
    let batch = numbers(rows.iter().copied().map(Some));
    let hasher = KeyHasher::new(&batch.schema(), &keys(&["k"])).unwrap();
    let placement = Placement::new(&PlacementSpec::Hash, &batch.schema(), &keys(&["k"]), 4).unwrap();
    // Two threads take batches in turn.
    let mut sketches = [HotKeys::new(&hasher, COUNTERS), HotKeys::new(&hasher, COUNTERS)];
    let (mut scratch, mut targets) = (Scratch::default(), vec![]);
    for (turn, start) in (0..rows.len()).step_by(1000).enumerate() {
        let batch = batch.slice(start, 1000.min(rows.len() - start));
        placement.assign(&batch, &mut scratch, &mut targets).unwrap();
        sketches[turn % 2].observe(&batch, scratch.hashes(), &targets);
    }
    let [mut all, other] = sketches;
    all.merge(other);
    assert_eq!(all.rows(), rows.len() as u64);

    let least = 4000;
    let bound = 2 * rows.len() as u64 / COUNTERS as u64;
    let report = all.report(least);
    let truth = |key: &str| rows.iter().filter(|row| row.to_string() == key).count() as u64;
    for hot in &report {
        let count = truth(&hot.text);
        assert!(hot.rows_min <= count && count <= hot.rows_max, "{hot:?}: {count}");
        assert!(hot.rows_max - hot.rows_min <= bound, "{hot:?}: {bound}");
    }
    for key in 1..=100i64 {
        let hash = hashes(&numbers([Some(key)]), &["k"])[0];
        let partition = (hash % 4) as usize;
        if truth(&key.to_string()) >= least + bound {
            assert!(
                report.iter().any(|hot| hot.text == key.to_string() && usize::from(hot.partition) == partition),
                "{key}"
            );
        }
    }
    assert_eq!(report[0].text, "1");
    assert!(report.is_sorted_by(|a, b| a.rows_min >= b.rows_min));
}

#[test]
fn hot_keys_of_a_sample_are_those_of_the_whole() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    let key = |row: i64| Some(if row % 3 == 0 { 7 } else { row });
    Kind::Parquet.write(&path, &numbers((0..100_000).map(key)), 5000);
    let dataset = open(&path, &InputOptions::default()).unwrap();
    let sample = |spec: &PlacementSpec| sample_hot_keys(&dataset, spec, &keys(&["k"]), 8, 10_000, 0.2);
    let ranges = PlacementSpec::Ranges((1..8).map(|point| vec![(point * 10_000).to_string()]).collect());
    for spec in [PlacementSpec::Hash, PlacementSpec::KeyGroups(64), ranges] {
        let hot = sample(&spec).unwrap().keys;
        assert!(hot.iter().all(|hot| hot.text == "7"), "{hot:?}");
        assert_eq!(hot.len(), 1);
        assert_eq!(hot[0].hash, hashes(&numbers([Some(7)]), &["k"])[0]);
    }
    let by_turns = sample(&PlacementSpec::RoundRobin);
    assert!(matches!(by_turns, Err(DatasetError::Config { option: DatasetOption::SplitHotKeys, .. })), "{by_turns:?}");
}
