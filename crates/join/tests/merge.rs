//! Merge joins of large and skewed inputs, and of inputs made for another join.

mod support;

use std::{io::Cursor, ops::Bound, sync::Arc};

use annulus_join::{
    Band, JoinError, KeyPair, MOST_PAIRS, MergeBuild, MergeCondition, MergeJoin, MergePosition, Offset, PairSink,
    ProbeLimits, RequiredPairs,
};
use arrow::{
    array::{
        Array, ArrayRef, AsArray, DictionaryArray, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray,
        StringViewArray, UInt32Array,
    },
    compute::{SortColumn, cast, concat_batches, lexsort_to_indices, take_record_batch},
    datatypes::{DataType, Int32Type, Int64Type, TimeUnit},
    ipc::{reader::StreamReader, writer::StreamWriter},
};
use proptest::prelude::*;
use support::{run::pieces, values::Kind, values::Table};

const KEYS: KeyPair = KeyPair { build: 0, probe: 0 };

fn equal(keys: usize) -> MergeCondition {
    let equal = (0..keys).map(|key| KeyPair { build: key, probe: key }).collect();
    MergeCondition { equal, ..MergeCondition::default() }
}

fn band(low: i128, high: i128) -> MergeCondition {
    let within = |by| Bound::Included(Offset::Int(by));
    MergeCondition {
        band: Some(Band { keys: KEYS, low: within(low), high: within(high) }),
        ..MergeCondition::default()
    }
}

/// A band beside as many equal keys.
fn keyed(keys: usize) -> MergeCondition {
    let within = band(-1, 1).band.map(|band| Band { keys: KeyPair { build: keys, probe: keys }, ..band });
    MergeCondition { band: within, ..equal(keys) }
}

fn ints(values: impl IntoIterator<Item = i64>) -> RecordBatch {
    let column: ArrayRef = Arc::new(Int64Array::from_iter_values(values));
    RecordBatch::try_from_iter([("key", column)]).unwrap()
}

/// The sign of a NaN that results from an addition depends on the processor and on the order of
/// operands.
#[test]
fn sums_that_are_not_numbers_are_the_same_everywhere() {
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    let column: ArrayRef = Arc::new(Float64Array::from(vec![-nan, -inf, 0.0, inf, nan]));
    let narrow = cast(&column, &DataType::Float32).unwrap();
    for column in [column, narrow] {
        let batch = RecordBatch::try_from_iter([("key", column)]).unwrap();
        let counts = |high: Bound<f64>| {
            let high = high.map(Offset::Float);
            let band = Some(Band { keys: KEYS, low: Bound::Unbounded, high });
            let condition = MergeCondition { band, ..MergeCondition::default() };
            let join = MergeJoin::try_new(&condition, &batch.schema(), &batch.schema()).unwrap();
            let build = join.prepare_build(vec![batch.clone()], 1).unwrap();
            let pairs = probe(&join, &build, &batch, RequiredPairs::All).pairs;
            [0, 1, 2, 3, 4].map(|row| pairs.iter().filter(|pair| pair.1 == row).count())
        };
        assert_eq!(counts(Bound::Excluded(nan)), [0, 4, 4, 4, 4]);
        assert_eq!(counts(Bound::Excluded(-nan)), [0, 4, 4, 4, 4]);
        assert_eq!(counts(Bound::Included(-inf)), [1, 2, 2, 5, 5]);
        assert_eq!(counts(Bound::Included(inf)), [1, 5, 4, 4, 5]);
    }
}

fn intervals() -> impl Strategy<Value = Vec<(i64, i64)>> {
    prop::collection::vec((-20_i64..20, -3_i64..15).prop_map(|(low, length)| (low, low + length)), 0..80)
}

fn with_intervals(intervals: &[(i64, i64)]) -> RecordBatch {
    let column = |value: fn(&(i64, i64)) -> i64| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values(intervals.iter().map(value)))
    };
    RecordBatch::try_from_iter([("low", column(|interval| interval.0)), ("high", column(|interval| interval.1))])
        .unwrap()
}

#[derive(Default)]
struct Pairs {
    pairs: Vec<(u32, u32)>,
    calls: usize,
}

impl PairSink for Pairs {
    fn pairs(&mut self, build: &[u32], probe: &[u32]) -> Result<(), JoinError> {
        assert!(build.len() == probe.len() && (1..=MOST_PAIRS).contains(&build.len()));
        self.pairs.extend(build.iter().copied().zip(probe.iter().copied()));
        self.calls += 1;
        Ok(())
    }
}

fn probe(join: &MergeJoin, build: &MergeBuild, fragment: &RecordBatch, wanted: RequiredPairs) -> Pairs {
    let mut pairs = Pairs::default();
    let fragment = join.fragment(fragment).unwrap();
    // A range that ends after the last row is cut there.
    join.probe(build, &fragment, 0..u32::MAX, wanted, &mut pairs).unwrap();
    pairs
}

proptest! {
    /// Points of the build side, and intervals of the probe side, which may end before they begin.
    #[test]
    fn points_within_intervals(
        points in prop::collection::vec(-20_i64..20, 0..60),
        intervals in prop::collection::vec((-20_i64..20, -20_i64..20, any::<bool>()), 0..60),
        (low, high) in (-3_i64..3, -3_i64..3),
    ) {
        let column = |values: Vec<Option<i64>>| Arc::new(Int64Array::from(values)) as ArrayRef;
        let lows = intervals.iter().map(|interval| Some(interval.0)).collect();
        let highs = intervals.iter().map(|interval| interval.2.then_some(interval.1)).collect();
        let columns = [("low", column(lows), true), ("high", column(highs), true)];
        let probed = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
        let build = RecordBatch::try_from_iter_with_nullable([("key", ints(points.clone()).column(0), true)].map(
            |(name, column, nullable)| (name, Arc::clone(column), nullable),
        )).unwrap();
        let condition = MergeCondition { high_key: Some(1), ..band(low.into(), high.into()) };
        let join = MergeJoin::try_new(&condition, &build.schema(), &probed.schema()).unwrap();
        let sorted_build = join.prepare_build(vec![build], 1).unwrap();
        let expected = |&(from, to, valid): &(i64, i64, bool)| {
            points.iter().filter(|&&point| valid && from + low <= point && point <= to + high).count()
        };
        let expected: usize = intervals.iter().map(expected).sum();
        // In their order, and sorted.
        let sorted = join.prepare_probe(vec![probed.clone()], 1 << 20, 1).unwrap();
        prop_assert_eq!(probe(&join, &sorted_build, &probed, RequiredPairs::All).pairs.len(), expected);
        let pairs = sorted.iter().map(|part| probe(&join, &sorted_build, part, RequiredPairs::All).pairs.len());
        prop_assert_eq!(pairs.sum::<usize>(), expected);
    }

    /// Intervals that overlap, also such that end before they begin, in steps.
    #[test]
    fn intervals_that_overlap(
        (left, right) in (intervals(), intervals()),
        (most, open) in (1_u64..50, any::<bool>()),
    ) {
        let (build, probed) = (with_intervals(&left), with_intervals(&right));
        let keys = |build, probe| KeyPair { build, probe };
        let bound = if open { Bound::Excluded(Offset::Int(0)) } else { Bound::Included(Offset::Int(0)) };
        // `left.low <= right.high AND left.high >= right.low`
        let condition = MergeCondition {
            band: Some(Band { keys: keys(0, 1), low: Bound::Unbounded, high: bound }),
            second: Some(Band { keys: keys(1, 0), low: bound, high: Bound::Unbounded }),
            ..MergeCondition::default()
        };
        let join = MergeJoin::try_new(&condition, &build.schema(), &probed.schema()).unwrap();
        let sorted = join.prepare_build(vec![build], 1).unwrap();
        let column = |column| sorted.batch().column(column).as_primitive::<Int64Type>();
        let overlaps = |row: usize, &(low, high): &(i64, i64)| {
            let (starts, ends) = (column(0).value(row), column(1).value(row));
            if open { starts < high && ends > low } else { starts <= high && ends >= low }
        };
        let expected: Vec<(u32, u32)> = (0..right.len())
            .flat_map(|probe| (0..left.len()).map(move |build| (build, probe)))
            .filter(|&(build, probe)| overlaps(build, &right[probe]))
            .map(|(build, probe)| (build as u32, probe as u32))
            .collect();
        let fragment = join.fragment(&probed).unwrap();
        let (mut steps, mut place) = (Pairs::default(), MergePosition::default());
        while place.row() < right.len() as u32 {
            let limits = ProbeLimits { end: u32::MAX, required: RequiredPairs::All, most };
            prop_assert!(join.probe_some(&sorted, &fragment, &mut place, limits, &mut steps).unwrap() <= most);
        }
        prop_assert_eq!(&steps.pairs, &expected);
        let mut first = expected;
        first.dedup_by_key(|pair| pair.1);
        prop_assert_eq!(probe(&join, &sorted, &probed, RequiredPairs::OneOfEachProbeRow).pairs, first);
    }

    /// A probe that stops after some pairs, and goes on later, finds the same pairs.
    #[test]
    fn a_probe_in_steps(
        build in prop::collection::vec(-20_i64..20, 0..60),
        probed in prop::collection::vec(-20_i64..20, 0..60),
        (low, width, most, sorted) in (-9_i64..9, 0_i64..15, 1_u64..50, any::<bool>()),
    ) {
        let (build, mut probed) = (ints(build), probed);
        if sorted {
            probed.sort_unstable();
        }
        let probed = ints(probed);
        let condition = band(low.into(), (low + width).into());
        let join = MergeJoin::try_new(&condition, &build.schema(), &build.schema()).unwrap();
        let sorted_build = join.prepare_build(vec![build], 1).unwrap();
        let fragment = join.fragment(&probed).unwrap();
        let rows = probed.num_rows() as u32;
        for wanted in [RequiredPairs::All, RequiredPairs::OneOfEachProbeRow, RequiredPairs::OneOfEachBuildRow] {
            let (mut steps, mut place) = (Pairs::default(), MergePosition::default());
            while place.row() < rows {
                let before = (place.clone(), steps.pairs.len() as u64);
                let limits = ProbeLimits { end: rows, required: wanted, most };
                let found = join.probe_some(&sorted_build, &fragment, &mut place, limits, &mut steps).unwrap();
                prop_assert!(found <= most && before.1 + found == steps.pairs.len() as u64);
                prop_assert!(place != before.0, "a step without progress");
            }
            prop_assert_eq!(steps.pairs, probe(&join, &sorted_build, &probed, wanted).pairs);
        }
    }
}

/// Returns a well-mixed number.
fn mix(value: u64) -> u64 {
    let product = u128::from(value ^ 0x9E37_79B9_7F4A_7C15) * u128::from(0xD6E8_FEB8_6659_FD93_u64);
    (product as u64) ^ (product >> 64) as u64
}

/// Sorts more rows than one thread sorts alone, with each way of sorting; some keys are null.
#[test]
fn large_sides_are_sorted() {
    const ROWS: u64 = 20_000;
    let numbers = |values: &dyn Fn(u64) -> i64| -> ArrayRef {
        Arc::new((0..ROWS).map(|row| (!mix(!row).is_multiple_of(10)).then(|| values(row))).collect::<Int64Array>())
    };
    let few = numbers(&|row| (mix(row) % 1000) as i64 - 500);
    let many = numbers(&|row| mix(row) as i64);
    let sorted = numbers(&|row| row as i64 / 3);
    let same = numbers(&|_| 7);
    let blocks = numbers(&|row| row as i64 / 3000);
    let texts: ArrayRef =
        Arc::new((0..ROWS).map(|row| Some(format!("{:x}", mix(row) % 5000))).collect::<StringArray>());
    let number: ArrayRef = Arc::new(Int64Array::from_iter_values(0..ROWS as i64));
    let conditions = [
        (equal(1), vec![&few]),
        (equal(1), vec![&many]),
        (equal(1), vec![&sorted]),
        (equal(1), vec![&same]),
        (equal(1), vec![&texts]),
        (equal(2), vec![&few, &many]),
        (equal(3), vec![&few, &few, &many]),
        (keyed(1), vec![&few, &few]),
        (keyed(1), vec![&few, &many]),
        (keyed(1), vec![&texts, &many]),
        (keyed(1), vec![&blocks, &sorted]),
        (keyed(1), vec![&blocks, &few]),
        (keyed(2), vec![&blocks, &sorted, &few]),
    ];
    for (condition, keys) in conditions {
        let columns = keys.iter().map(|&key| Arc::clone(key)).chain([Arc::clone(&number)]);
        let names = ["a", "b", "c", "d"].into_iter();
        let batch = RecordBatch::try_from_iter_with_nullable(names.zip(columns).map(|(n, c)| (n, c, true))).unwrap();
        let join = MergeJoin::try_new(&condition, &batch.schema(), &batch.schema()).unwrap();
        for threads in [1, 3] {
            let build = join.prepare_build(pieces(&batch, 7), threads).unwrap();
            assert_sorted(build.batch(), &batch, keys.len());
            let fragments = join.prepare_probe(pieces(&batch, 7), 50_000, threads).unwrap();
            assert!(fragments.len() > 1 && fragments.iter().all(|fragment| fragment.get_array_memory_size() < 60_000));
            assert_sorted(&concat_batches(&batch.schema(), &fragments).unwrap(), &batch, keys.len());
        }
    }
}

/// Checks that the rows are sorted by key, and by number among equal keys, as sorts are stable.
/// Rows with a null come last.
fn assert_sorted(found: &RecordBatch, of: &RecordBatch, keys: usize) {
    let nulls = (0..of.num_rows()).map(|row| (0..keys).any(|key| of.column(key).is_null(row)));
    let nulls: ArrayRef = Arc::new(nulls.map(|null| Some(i32::from(null))).collect::<Int32Array>());
    let key = |column: &ArrayRef| {
        // Rows with a null are ordered only by their numbers.
        let no_match = nulls.as_primitive::<Int32Type>().values().iter().map(|&null| null == 1);
        let hidden = arrow::compute::nullif(column, &no_match.map(Some).collect()).unwrap();
        SortColumn { values: hidden, options: None }
    };
    let first = SortColumn { values: Arc::clone(&nulls), options: None };
    let number = SortColumn { values: Arc::clone(of.column(keys)), options: None };
    let columns = of.columns()[..keys].iter().map(key);
    let order =
        lexsort_to_indices(&[first].into_iter().chain(columns).chain([number]).collect::<Vec<_>>(), None).unwrap();
    assert_eq!(found, &take_record_batch(of, &order).unwrap());
}

#[test]
fn many_equal_keys_cost_no_more_than_their_pairs() {
    let (build, fragment) = (ints((0..300).map(|_| 5).chain([9])), ints((0..300).map(|_| 5).chain([7, 9])));
    for condition in [equal(1), band(0, 0)] {
        let join = MergeJoin::try_new(&condition, &build.schema(), &fragment.schema()).unwrap();
        let build = join.prepare_build(vec![build.clone()], 2).unwrap();
        let all = probe(&join, &build, &fragment, RequiredPairs::All);
        assert_eq!(all.pairs.len(), 300 * 300 + 1);
        assert_eq!(all.calls, all.pairs.len().div_ceil(MOST_PAIRS));
        let mut distinct = all.pairs.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), all.pairs.len());
        for wanted in [RequiredPairs::OneOfEachProbeRow, RequiredPairs::OneOfEachBuildRow] {
            let some = probe(&join, &build, &fragment, wanted).pairs;
            assert_eq!(some.len(), 301, "{wanted:?}");
            assert!(some.iter().all(|pair| distinct.binary_search(pair).is_ok()));
            let side = |pairs: &[(u32, u32)]| -> std::collections::BTreeSet<u32> {
                pairs
                    .iter()
                    .map(|pair| if wanted == RequiredPairs::OneOfEachProbeRow { pair.1 } else { pair.0 })
                    .collect()
            };
            assert_eq!(side(&some), side(&distinct));
        }
    }
}

#[test]
fn fragments_survive_as_bytes() {
    let texts = (0..1000).map(|row| format!("some text of row {row}")).collect::<Vec<_>>();
    let keys: ArrayRef = Arc::new(Int64Array::from_iter_values((0..1000).map(|row| mix(row) as i64 % 300)));
    let views: ArrayRef = Arc::new(StringViewArray::from_iter_values(&texts));
    let codes: ArrayRef = Arc::new(texts.iter().map(|text| Some(&text[12..])).collect::<DictionaryArray<Int32Type>>());
    let side = RecordBatch::try_from_iter([("key", keys), ("view", views), ("code", codes)]).unwrap();
    let join = MergeJoin::try_new(&equal(1), &side.schema(), &side.schema()).unwrap();
    let build = join.prepare_build(vec![side.clone()], 1).unwrap();
    let fragments = join.prepare_probe(pieces(&side, 3), 10_000, 2).unwrap();
    let (mut pairs, mut bytes) = (0, 0);
    for fragment in &fragments {
        let mut writer = StreamWriter::try_new(Vec::new(), fragment.schema_ref()).unwrap();
        writer.write(fragment).unwrap();
        let sent = writer.into_inner().unwrap();
        bytes += sent.len();
        let received = StreamReader::try_new(Cursor::new(sent), None).unwrap().next().unwrap().unwrap();
        assert_eq!(&received, fragment);
        pairs += probe(&join, &build, &received, RequiredPairs::All).pairs.len();
    }
    // Neither views nor dictionaries keep values that their rows do not use.
    assert!(bytes < 200_000, "{bytes}");
    let rows_of = |key: i64| side.column(0).as_primitive::<Int64Type>().values().iter().filter(|&&k| k == key).count();
    assert_eq!(pairs, (-300..300).map(|key| rows_of(key) * rows_of(key)).sum::<usize>());
}

#[test]
fn long_rows_have_fragments_of_their_own() {
    let texts: ArrayRef =
        Arc::new(StringArray::from_iter_values((0..64).map(|row| "x".repeat(if row % 8 == 0 { 5000 } else { 10 }))));
    let batch = RecordBatch::try_from_iter([("key", texts)]).unwrap();
    let join = MergeJoin::try_new(&equal(1), &batch.schema(), &batch.schema()).unwrap();
    let fragments = join.prepare_probe(vec![batch], 2000, 1).unwrap();
    assert_eq!(fragments.iter().map(RecordBatch::num_rows).sum::<usize>(), 64);
    for fragment in fragments {
        assert!(fragment.num_rows() == 1 || fragment.get_array_memory_size() < 2200, "{fragment:?}");
    }
}

#[test]
fn what_cannot_be_joined_is_refused() {
    let schema = |column: ArrayRef| RecordBatch::try_from_iter([("key", column)]).unwrap().schema();
    let (int, long) = (schema(Arc::new(Int32Array::new_null(0))), schema(Arc::new(Int64Array::new_null(0))));
    let text = schema(Arc::new(StringArray::new_null(0)));
    let error = |condition: &MergeCondition, build, probe| MergeJoin::try_new(condition, build, probe).unwrap_err();
    assert!(matches!(error(&equal(1), &int, &long), JoinError::KeyTypes { index: 0, .. }));
    assert!(matches!(error(&equal(2), &int, &int), JoinError::Arrow(_)));
    assert!(matches!(error(&band(0, 0), &text, &text), JoinError::KeyUnsupported { index: 0, .. }));
    let fraction = Some(Band { keys: KEYS, low: Bound::Unbounded, high: Bound::Excluded(Offset::Float(0.5)) });
    let fraction = MergeCondition { band: fraction, ..MergeCondition::default() };
    assert!(matches!(error(&fraction, &int, &int), JoinError::BandFraction { index: 0, .. }));
    let seconds = DataType::Timestamp(TimeUnit::Second, None);
    assert!(error(&equal(1), &schema(arrow::array::new_empty_array(&seconds)), &long).to_string().contains("cast"));
}

#[test]
fn foreign_fragments_are_refused() {
    let batch = ints([1, 2, 3]);
    let join = MergeJoin::try_new(&equal(1), &batch.schema(), &batch.schema()).unwrap();
    let floats: ArrayRef = Arc::new(Float64Array::from(vec![1.0]));
    let floats = RecordBatch::try_from_iter([("key", floats)]).unwrap();
    assert!(matches!(join.fragment(&floats), Err(JoinError::Fragment { .. })));
    assert!(matches!(join.prepare_build(vec![floats], 1), Err(JoinError::Arrow(_))));
    let other = MergeJoin::try_new(&band(0, 1), &batch.schema(), &batch.schema()).unwrap();
    let (build, fragment) = (join.prepare_build(vec![batch.clone()], 1).unwrap(), other.fragment(&batch).unwrap());
    let found = join.probe(&build, &fragment, 0..3, RequiredPairs::All, &mut Pairs::default());
    assert!(matches!(found, Err(JoinError::Fragment { .. })));
}

#[test]
fn the_first_error_of_the_sink_ends_the_join() {
    struct Full(usize);
    impl PairSink for Full {
        fn pairs(&mut self, _: &[u32], _: &[u32]) -> Result<(), JoinError> {
            self.0 += 1;
            Err(JoinError::Outside("full".into()))
        }
    }
    let batch = ints((0..1000).map(|_| 1));
    let join = MergeJoin::try_new(&equal(1), &batch.schema(), &batch.schema()).unwrap();
    let (build, fragment) = (join.prepare_build(vec![batch.clone()], 1).unwrap(), join.fragment(&batch).unwrap());
    let mut full = Full(0);
    assert!(matches!(
        join.probe(&build, &fragment, 0..1000, RequiredPairs::All, &mut full),
        Err(JoinError::Outside(_))
    ));
    assert_eq!(full.0, 1);
}

proptest! {
    /// The join does not trust that a fragment is sorted.
    #[test]
    fn unsorted_fragments_have_the_same_pairs(
        low in -5..3_i128, high in -3..5_i128, seed in any::<u64>(),
        (build, fragment) in prop::sample::select(Kind::NUMBERS.to_vec()).prop_flat_map(|kind| {
            (Table::strategy(vec![kind], 40), Table::strategy(vec![kind], 40))
        }),
    ) {
        for condition in [equal(1), band(low, high)] {
            let (build, fragment) = (build.batch(), fragment.batch());
            let join = MergeJoin::try_new(&condition, &build.schema(), &fragment.schema()).unwrap();
            let build = join.prepare_build(vec![build], 1).unwrap();
            let sorted = join.prepare_probe(vec![fragment], usize::MAX, 1).unwrap();
            for sorted in sorted {
                let mut order: Vec<u32> = (0..sorted.num_rows() as u32).collect();
                order.sort_by_key(|&row| mix(seed ^ u64::from(row)));
                let shuffled = take_record_batch(&sorted, &UInt32Array::from(order.clone())).unwrap();
                let mut expected = probe(&join, &build, &sorted, RequiredPairs::All).pairs;
                let found = probe(&join, &build, &shuffled, RequiredPairs::All).pairs;
                let mut found: Vec<_> = found.into_iter().map(|(b, p)| (b, order[p as usize])).collect();
                found.sort_unstable();
                expected.sort_unstable();
                prop_assert_eq!(found, expected);
            }
        }
    }
}
