//! The hash join against a nested loop over the same rows, before and after its fragments were
//! encoded and decoded.

mod support;

use std::{collections::HashMap, sync::Arc};

use annulus_join::{
    BuildSide, Finder, Fragment, FragmentFormat, HashConfig, JoinError, KeySetBuilder, Keys, MOST_PAIRS, MatchBits,
    Partitions, match_bits, store_matched,
};
use arrow::{
    array::{
        Array, ArrayRef, AsArray, Decimal128Array, Float64Array, Int8Array, Int32Array, Int64Array, ListArray,
        RecordBatch, StringArray, StringViewArray, UInt32Array, UInt64Array,
    },
    buffer::{Buffer, MutableBuffer},
    compute::{self, take_record_batch},
    datatypes::{
        DataType, Date32Type, Field, Float64Type, Int8Type, Int32Type, Int64Type, Schema, UInt32Type, UInt64Type,
    },
};
use proptest::prelude::*;
use support::hash::{Case, Collect, KINDS, Row, arb_case, join, rows_of, side};

/// Returns all pairs of rows whose keys are equal, by a nested loop.
fn nested_loop(case: &Case) -> HashMap<(Row, Row), usize> {
    let keys = |batch: &RecordBatch, columns: &[usize]| rows_of(&batch.project(columns).unwrap());
    let (build, probe) = (rows_of(&case.build), rows_of(&case.probe));
    let (build_keys, probe_keys) = (keys(&case.build, &case.build_keys), keys(&case.probe, &case.probe_keys));
    let mut pairs = HashMap::new();
    for (row, key) in build.iter().zip(&build_keys) {
        for (other, other_key) in probe.iter().zip(&probe_keys) {
            let null = key.contains(&None) && !case.nulls_equal;
            if key == other_key && !null {
                *pairs.entry((row.clone(), other.clone())).or_insert(0) += 1;
            }
        }
    }
    pairs
}

/// Checks that sets of the build side's keys have all keys of the probe side that are in a pair, and
/// no null keys if they match nothing.
fn expect_members(case: &Case, build: &BuildSide, pairs: &HashMap<(Row, Row), usize>) {
    let keys = |batch: &RecordBatch, columns: &[usize]| Keys::new(&batch.schema(), columns, case.nulls_equal).unwrap();
    let mut builder = KeySetBuilder::new(1 << 12);
    let of_build = keys(&case.build, &case.build_keys);
    pieces(&case.build, case.batch_rows).iter().for_each(|piece| builder.insert(&of_build.hash(piece).unwrap()));
    assert!(builder.false_positives() < 0.5);
    let of_probe = keys(&case.probe, &case.probe_keys);
    for set in [build.key_set(), builder.complete()] {
        let found = set.test(&of_probe, &case.probe).unwrap();
        let with_nulls = set.with_nulls().test(&of_probe, &case.probe).unwrap();
        let rows = rows_of(&case.probe).into_iter().zip(rows_of(&case.probe.project(&case.probe_keys).unwrap()));
        for (row, (values, key)) in rows.enumerate() {
            let (has_partner, is_null) = (pairs.keys().any(|(_, probe)| *probe == values), key.contains(&None));
            assert!(found.value(row) || !has_partner, "{values:?}");
            if is_null && !case.nulls_equal {
                assert!(!found.value(row) && with_nulls.value(row), "{values:?}");
            }
        }
    }
}

/// Checks that rows of either side are marked if and only if they are in a pair.
fn expect_marked(case: &Case, build: &BuildSide, fragments: &[Fragment], pairs: &HashMap<(Row, Row), usize>) {
    let marked = MatchBits::new(build.batch().num_rows());
    for fragment in fragments {
        fragment.morsels(case.threads).iter().for_each(|morsel| build.mark(fragment, morsel, &marked).unwrap());
        for (row, values) in rows_of(fragment.batch()).into_iter().enumerate() {
            let expected = pairs.keys().any(|(_, probe)| *probe == values);
            assert_eq!(fragment.matched().get(row as u32), expected, "{values:?}");
        }
    }
    for (row, values) in rows_of(build.batch()).into_iter().enumerate() {
        assert_eq!(marked.get(row as u32), pairs.keys().any(|(build, _)| *build == values), "{values:?}");
    }
}

fn pieces(batch: &RecordBatch, rows: usize) -> Vec<RecordBatch> {
    let starts = (0..batch.num_rows()).step_by(rows);
    starts.map(|start| batch.slice(start, rows.min(batch.num_rows() - start))).collect()
}

fn aligned(bytes: usize) -> (Vec<u8>, usize) {
    let memory = vec![0xA5; bytes + 64];
    let skip = memory.as_ptr().align_offset(64);
    (memory, skip)
}

/// Returns the encoded fragment, at an address that is a multiple of 64.
fn encoded(fragment: &Fragment) -> Buffer {
    let bytes = fragment.encoded_bytes();
    let (mut memory, skip) = aligned(bytes);
    assert_eq!(fragment.encode(&mut memory[skip..]).unwrap(), bytes);
    Buffer::from_vec(memory).slice_with_length(skip, bytes)
}

fn build_side(case: &Case, packed: bool) -> BuildSide {
    let config = HashConfig::new(Partitions::at_least(case.partitions))
        .with_threads(case.threads)
        .with_dense(case.dense)
        // Half of the cases of all numbers of rows.
        .with_dense_beside_nulls(case.batch_rows.is_multiple_of(2))
        .with_packed(packed);
    let keys = Keys::new(&case.build.schema(), &case.build_keys, case.nulls_equal).unwrap();
    BuildSide::prepare(keys, pieces(&case.build, case.batch_rows), &config).unwrap()
}

fn prepare(case: &Case) -> (BuildSide, Arc<FragmentFormat>, Vec<Fragment>) {
    let partitions = Partitions::at_least(case.partitions);
    let build = build_side(case, false);
    let keys = Keys::new(&case.probe.schema(), &case.probe_keys, case.nulls_equal).unwrap();
    let format = Arc::new(FragmentFormat::new(keys, partitions).unwrap());
    let probe = pieces(&case.probe, case.batch_rows);
    let fragments = Fragment::prepare(&format, probe, case.threads, case.max_bytes).unwrap();
    (build, format, fragments)
}

/// Finds the pairs with a [`Finder`], batch by batch, and expects them in the order of the probe
/// side's rows.
fn found_in_order(case: &Case, build: &BuildSide) -> HashMap<(Row, Row), usize> {
    let keys = Keys::new(&case.probe.schema(), &case.probe_keys, case.nulls_equal).unwrap();
    let (mut finder, mut pairs) = (Finder::new(keys), HashMap::new());
    let build_rows = rows_of(build.batch());
    for start in (0..case.probe.num_rows()).step_by(case.batch_rows) {
        let batch = case.probe.slice(start, case.batch_rows.min(case.probe.num_rows() - start));
        let probe_rows = rows_of(&batch);
        finder.start(build, &batch).unwrap();
        let mut last = 0;
        while let Some((build, probe)) = finder.next(build, None).unwrap() {
            assert!(!build.is_empty() && build.len() <= 2 * MOST_PAIRS && build.len() == probe.len());
            assert!(probe[0] >= last && probe.is_sorted(), "pairs in the order of the rows");
            last = probe[probe.len() - 1];
            for (&b, &p) in build.iter().zip(probe) {
                *pairs.entry((build_rows[b as usize].clone(), probe_rows[p as usize].clone())).or_insert(0) += 1;
            }
        }
    }
    pairs
}

/// Partners that do not fit at once come with the next calls, those of null keys, too. Another batch
/// may begin before all have come.
#[test]
fn a_row_with_many_partners_takes_several_calls() {
    let column = |numbers: Vec<Option<i64>>| {
        RecordBatch::try_from_iter([("k", Arc::new(Int64Array::from(numbers)) as ArrayRef)]).unwrap()
    };
    let build = column([vec![Some(7); 30_000], vec![None; 20_000], vec![Some(8)]].concat());
    let keys = || Keys::new(&build.schema(), &[0], true).unwrap();
    let config = HashConfig::new(Partitions::at_least(4));
    let side = BuildSide::prepare(keys(), vec![build.clone()], &config).unwrap();
    let mut finder = Finder::new(keys());
    finder.start(&side, &column(vec![Some(7)])).unwrap();
    assert_eq!(finder.next(&side, None).unwrap().unwrap().0.len(), 2 * MOST_PAIRS);

    let mut found = vec![0; 5];
    finder.start(&side, &column(vec![Some(7), None, Some(9), Some(8), Some(7)])).unwrap();
    while let Some((_, probe)) = finder.next(&side, None).unwrap() {
        probe.iter().for_each(|&row| found[row as usize] += 1);
    }
    assert_eq!(found, [30_000, 20_000, 0, 1, 30_000]);

    let marked = MatchBits::new(50_001);
    (0..50_001).for_each(|row| marked.set(row));
    finder.start(&side, &column(vec![Some(7), None])).unwrap();
    let pairs = finder.next(&side, Some(&marked)).unwrap().map(|(_, probe)| probe.to_vec());
    assert_eq!(pairs, Some(vec![0, 1]));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn pairs_are_those_of_a_nested_loop(case in arb_case()) {
        let (build, format, fragments) = prepare(&case);
        let expected = nested_loop(&case);
        let (mut before, mut after) = (HashMap::new(), HashMap::new());
        for fragment in &fragments {
            join(&build, fragment, case.threads, &mut before);
            let bytes = encoded(fragment);
            prop_assert!(bytes.len() <= case.max_bytes);
            let decoded = Fragment::decode(&format, bytes).unwrap();
            prop_assert_eq!(rows_of(decoded.batch()), rows_of(fragment.batch()));
            join(&build, &decoded, case.threads, &mut after);
        }
        prop_assert_eq!(&before, &expected);
        prop_assert_eq!(&found_in_order(&case, &build), &expected);
        expect_marked(&case, &build, &fragments, &expected);
        expect_members(&case, &build, &expected);
        let packed = build_side(&case, true);
        prop_assert_eq!(&found_in_order(&case, &packed), &expected);
        expect_members(&case, &packed, &expected);
        prop_assert_eq!(&after, &expected);
        let all = |rows: Vec<Row>| { let mut rows = rows; rows.sort(); rows };
        prop_assert_eq!(all(rows_of(build.batch())), all(rows_of(&case.build)));
        let probe = fragments.iter().flat_map(|fragment| rows_of(fragment.batch())).collect();
        prop_assert_eq!(all(probe), all(rows_of(&case.probe)));
    }

    /// Numbers that lie close together or some way apart, also across zero and the ends of their type,
    /// with a few nulls or repetitions.
    #[test]
    fn dense_keys_are_found(
        numbers in prop::collection::hash_set(0..300_i64, 0..240),
        has_all in prop::bool::weighted(0.3),
        repeated in prop::collection::vec(0..300_i64, 0..2),
        has_null in prop::bool::weighted(0.2),
        probe in prop::collection::vec(prop::option::weighted(0.9, -20..320_i64), 0..200),
        first in prop_oneof![Just(-100), Just(i64::MAX - 150), any::<i64>()],
        // Fewer numbers than 4096 have a place each.
        (apart, stray) in prop_oneof![Just((1, 0)), Just((20, 0)), Just((20, 1)), Just((25, 3))],
        kind in prop::sample::select(vec![
            DataType::Int64, DataType::UInt64, DataType::Int32, DataType::UInt32, DataType::Date32, DataType::Int8,
        ]),
        (batch_rows, threads) in (1..200_usize, 1..4_usize),
    ) {
        let column = |numbers: Vec<Option<i64>>| -> ArrayRef {
            let number = |number: Option<i64>| {
                number.map(|number| (number * apart + number % 2 * stray).wrapping_add(first))
            };
            let numbers: Int64Array = numbers.into_iter().map(number).collect();
            match kind {
                DataType::Int64 => Arc::new(numbers),
                DataType::UInt64 => Arc::new(numbers.unary::<_, UInt64Type>(|number| number as u64)),
                DataType::Int32 => Arc::new(numbers.unary::<_, Int32Type>(|number| number as i32)),
                DataType::UInt32 => Arc::new(numbers.unary::<_, UInt32Type>(|number| number as u32)),
                DataType::Date32 => Arc::new(numbers.unary::<_, Date32Type>(|number| number as i32)),
                _ => Arc::new(numbers.unary::<_, Int8Type>(|number| number as i8)),
            }
        };
        // All numbers from the least to the greatest, in any order.
        let rank = |number: &i64| numbers.iter().filter(|&other| other < number).count() as i64;
        let numbers: Vec<i64> = numbers.iter().map(|number| if has_all { rank(number) } else { *number }).collect();
        let build = repeated.iter().chain(&numbers).copied().map(Some).chain(has_null.then_some(None)).collect();
        let case = Case { batch_rows, threads, dense: true, ..case(column(build), column(probe)) };
        let (build, _, fragments) = prepare(&case);
        let expected = nested_loop(&case);
        prop_assert_eq!(&found_in_order(&case, &build), &expected);
        let mut pairs = HashMap::new();
        fragments.iter().for_each(|fragment| join(&build, fragment, threads, &mut pairs));
        prop_assert_eq!(&pairs, &expected);
        let set = build.key_set().test(build.keys(), &case.build).unwrap();
        prop_assert_eq!(set.true_count(), case.build.num_rows() - case.build.column(0).null_count());
        expect_marked(&case, &build, &fragments, &expected);
        let stays = repeated.is_empty() && !has_null && apart == 1;
        if stays && kind == DataType::Int64 && first.checked_add(300).is_some() {
            let (mut rows, mut expected) = (rows_of(build.batch()), rows_of(&case.build));
            let keys = case.build.column(0).as_primitive::<Int64Type>();
            let span = |(least, most): (i64, i64)| (most - least) as usize + 1;
            if compute::min(keys).zip(compute::max(keys)).map(span) == Some(rows.len()) {
                prop_assert!(build.batch().column(0).as_primitive::<Int64Type>().values().is_sorted());
                rows.sort();
                expected.sort();
            }
            prop_assert_eq!(rows, expected);
        }
    }

    /// Numbers at the ends of their types, and texts about as long as a number, beside each other.
    #[test]
    fn packed_keys_are_found(
        kinds in prop::collection::vec(0..6_usize, 2),
        build in prop::collection::vec(prop::collection::vec(prop::option::weighted(0.9, 0..8_usize), 2), 0..40),
        probe in prop::collection::vec(prop::collection::vec(prop::option::weighted(0.9, 0..10_usize), 2), 0..40),
        (batch_rows, threads, dense) in (1..50_usize, 1..3_usize, any::<bool>()),
    ) {
        let side = |rows: &[Vec<Option<usize>>]| {
            let column = |at: usize| packable(kinds[at], rows.iter().map(|row| row[at]).collect());
            RecordBatch::try_from_iter_with_nullable([("a", column(0), true), ("b", column(1), true)]).unwrap()
        };
        let keys = vec![0, 1];
        let (build, probe) = (side(&build), side(&probe));
        let one = case(Arc::new(Int8Array::new_null(0)), Arc::new(Int8Array::new_null(0)));
        let case = Case { build, probe, build_keys: keys.clone(), probe_keys: keys, batch_rows, threads, dense, ..one };
        let packed = build_side(&case, true);
        let expected = nested_loop(&case);
        prop_assert_eq!(&found_in_order(&case, &packed), &expected);
        expect_members(&case, &packed, &expected);
    }

    #[test]
    fn damaged_bytes_are_an_error_or_a_fragment(
        case in arb_case(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        // Most of the damage should hit the structure.
        front in prop::bool::weighted(0.7),
        cut in prop::option::weighted(0.2, any::<prop::sample::Index>()),
    ) {
        let (build, format, fragments) = prepare(&case);
        for fragment in &fragments {
            let mut bytes = encoded(fragment).to_vec();
            let reach = if front { bytes.len().min(1024) } else { bytes.len() };
            for (at, byte) in &damage {
                bytes[at.index(reach)] = *byte;
            }
            if let Some(cut) = cut {
                bytes.truncate(cut.index(bytes.len()));
            }
            let (mut memory, skip) = aligned(bytes.len());
            memory[skip..skip + bytes.len()].copy_from_slice(&bytes);
            let bytes = Buffer::from_vec(memory).slice_with_length(skip, bytes.len());
            if let Ok(fragment) = Fragment::decode(&format, bytes) {
                join(&build, &fragment, 1, &mut HashMap::new());
                encoded(&fragment);
            }
        }
    }
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true))).unwrap()
}

/// Returns a case with one key column on each side.
fn case(build: ArrayRef, probe: ArrayRef) -> Case {
    Case {
        build: batch(vec![("key", build)]),
        probe: batch(vec![("key", probe)]),
        build_keys: vec![0],
        probe_keys: vec![0],
        nulls_equal: false,
        partitions: 16,
        threads: 2,
        batch_rows: 1000,
        max_bytes: 1 << 20,
        dense: false,
    }
}

/// Returns a column of a kind, of which each number stands for a value.
fn packable(kind: usize, numbers: Vec<Option<usize>>) -> ArrayRef {
    let longs = [0, 1, -1, i64::MAX, i64::MIN, 1 << 40, 255, 256, 3, -3];
    let texts = ["", "a", "a\0", "ab", "\0", "Z1234567", "\u{ff}\u{ff}\u{ff}\u{ff}", "1234567", "123456789", "T001"];
    let numbers = numbers.into_iter();
    match kind {
        0 => Arc::new(numbers.map(|number| number.map(|at| longs[at])).collect::<Int64Array>()),
        1 => Arc::new(numbers.map(|number| number.map(|at| longs[at] as u64)).collect::<UInt64Array>()),
        2 => Arc::new(numbers.map(|number| number.map(|at| longs[at] as i32)).collect::<Int32Array>()),
        3 => Arc::new(numbers.map(|number| number.map(|at| texts[at])).collect::<StringArray>()),
        4 => Arc::new(numbers.map(|number| number.map(|at| texts[at])).collect::<StringViewArray>()),
        // The last two do not fit into 64 bits.
        _ => {
            let wide = |at: usize| i128::from(longs[at]) << if at < 8 { 0 } else { 64 };
            Arc::new(numbers.map(|number| number.map(wide)).collect::<Decimal128Array>())
        }
    }
}

fn count(case: &Case) -> usize {
    count_compared(case).0
}

/// Returns the number of pairs, and the number of pairs compared.
fn count_compared(case: &Case) -> (usize, u64) {
    let (build, _, fragments) = prepare(case);
    let (mut sink, mut compared) = (Collect::default(), 0);
    for fragment in &fragments {
        for morsel in fragment.morsels(case.threads) {
            compared += build.probe(fragment, &morsel, &mut sink).unwrap();
        }
    }
    (sink.pairs.len(), compared)
}

#[test]
fn pairs_of_one_bucket_are_compared() {
    let numbers = |numbers: std::ops::Range<i64>| -> ArrayRef { Arc::new(numbers.collect::<Int64Array>()) };
    // Unique keys: each meets its own, and sometimes a neighbour in its bucket.
    let (pairs, compared) = count_compared(&case(numbers(0..10_000), numbers(0..10_000)));
    assert_eq!(pairs, 10_000);
    assert!((10_000..20_000).contains(&compared), "{compared}");
    // Keys that do not exist meet only neighbours.
    let (pairs, compared) = count_compared(&case(numbers(0..10_000), numbers(10_000..20_000)));
    assert_eq!(pairs, 0);
    assert!((1..10_000).contains(&compared), "{compared}");
    // A long bucket compares only rows of the key.
    let heavy = |rows| -> ArrayRef { Arc::new(std::iter::repeat_n(7, rows).collect::<Int64Array>()) };
    assert_eq!(count_compared(&case(heavy(1000), heavy(300))), (300_000, 300_000));
}

/// Of keys that are not unique or lie far apart, the rows are clustered.
#[test]
fn dense_keys_need_little_memory() {
    let prepared = |step: usize, last: i64| {
        let numbers: ArrayRef = Arc::new((0..99_999).map(|n| n * step as i64).chain([last]).collect::<Int64Array>());
        let build = prepare(&Case { dense: true, ..case(Arc::clone(&numbers), numbers) }).0;
        let is_in_order = build.batch().column(0).as_primitive::<Int64Type>().values().is_sorted();
        ((build.memory_bytes() - 800_000) / 1000, is_in_order)
    };
    assert_eq!(prepared(1, 99_999), (0, true), "a key tells its row");
    assert_eq!(prepared(1, -1), (0, true), "after the rows were moved");
    assert_eq!(prepared(1, 100_000), (400, true));
    assert_eq!(prepared(4, 400_000), (1_600, true));
    // A bit and a half for each number, and four bytes for each row.
    assert_eq!(prepared(20, 2_000_000), (775, true));
    assert!(!prepared(1, 7).1 && !prepared(20, 7 * 20).1);
    assert!(!prepared(100, 10_000_000).1);
}

#[test]
fn memory_is_that_of_rows_and_tables() {
    let numbers = || -> ArrayRef { Arc::new((0..100_000).collect::<Int64Array>()) };
    let (build, _, fragments) = prepare(&case(numbers(), numbers()));
    let row = 8;
    let validity = 100_000 / 8;
    let sent: usize = fragments.iter().map(Fragment::encoded_bytes).sum();
    // Headings, and a match bit for each row.
    assert!((100_000 * row..100_000 * row + 2 * validity + (16 << 10)).contains(&sent), "{sent}");
    // The key and number of each row, and a directory with one to two places per row.
    let tables = build.memory_bytes() - 100_000 * row;
    assert!((100_000 * 16..100_000 * 20 + 2 * validity).contains(&tables), "{tables}");
}

#[test]
fn a_key_that_comes_very_often_is_found_by_bisection() {
    // One hundred thousand rows of one key. As many probe rows of other keys look in its bucket if
    // there is only one bucket.
    let heavy = std::iter::repeat_n(7, 100_000);
    let build: ArrayRef = Arc::new(heavy.chain(0..1000).collect::<Int64Array>());
    let probe: ArrayRef = Arc::new((0..100_000).chain([7]).collect::<Int64Array>());
    let mut case = case(build, probe);
    for partitions in [1, 4096] {
        case.partitions = partitions;
        assert_eq!(count(&case), 999 + 2 * 100_001);
    }
}

#[test]
fn a_heavy_key_on_both_sides_is_marked_without_all_its_pairs() {
    // Ten billion pairs.
    let keys: ArrayRef = Arc::new(std::iter::repeat_n(7, 100_000).collect::<Int64Array>());
    let case = case(Arc::clone(&keys), keys);
    let (build, _, fragments) = prepare(&case);
    let marked = MatchBits::new(100_000);
    for fragment in &fragments {
        fragment.morsels(2).iter().for_each(|morsel| build.mark(fragment, morsel, &marked).unwrap());
        assert_eq!(fragment.matched().to_array().true_count(), fragment.batch().num_rows());
    }
    assert_eq!(marked.to_array().true_count(), 100_000);
}

#[test]
fn skewed_keys_on_both_sides() {
    // Key k occurs rows / (k + 1) times.
    let zipf = |rows: usize| (0..1000i32).flat_map(move |key| std::iter::repeat_n(key, rows / (key as usize + 1)));
    let (build, probe): (ArrayRef, ArrayRef) =
        (Arc::new(zipf(2000).collect::<Int32Array>()), Arc::new(zipf(500).collect::<Int32Array>()));
    let expected = (1..=1000).map(|k| (2000 / k) * (500 / k)).sum::<usize>();
    assert_eq!(count(&case(build, probe)), expected);
}

#[test]
fn floats_are_equal_as_datafusion_has_it() {
    let other = f64::from_bits(f64::NAN.to_bits() | 1);
    let nan = f64::NAN;
    // A NaN is equal only to a NaN of the same bits.
    let build: ArrayRef = Arc::new(Float64Array::from(vec![Some(0.0), Some(nan), Some(-nan), Some(1.5), None]));
    let probe: ArrayRef = Arc::new(Float64Array::from(vec![Some(-0.0), Some(nan), Some(other), Some(-1.5), None]));
    assert_eq!(count(&case(Arc::clone(&build), Arc::clone(&probe))), 2);
    let mut both = case(build, probe);
    both.build = batch(vec![("a", both.build.column(0).clone()), ("b", both.build.column(0).clone())]);
    both.probe = batch(vec![("a", both.probe.column(0).clone()), ("b", both.probe.column(0).clone())]);
    (both.build_keys, both.probe_keys) = (vec![0, 1], vec![1, 0]);
    assert_eq!(count(&both), 2);
    both.nulls_equal = true;
    assert_eq!(count(&both), 3);
}

#[test]
fn zeros_in_lists_are_told_apart() {
    let lists = |values: [f64; 2]| -> ArrayRef {
        let lists = values.map(|value| Some(vec![Some(value)]));
        Arc::new(ListArray::from_iter_primitive::<Float64Type, _, _>(lists))
    };
    assert_eq!(count(&case(lists([-0.0, 1.0]), lists([0.0, 1.0]))), 1);
}

#[test]
fn equal_hashes_are_not_yet_equal_keys() {
    let text = |text: &str| -> ArrayRef { Arc::new(StringArray::from(vec![text])) };
    let same = Case { partitions: 1, ..case(text("a"), text("a")) };
    let other = Case { partitions: 1, ..case(text("a"), text("b")) };
    let (build, format, fragments) = prepare(&same);
    let (mut like, mut unlike) = (encoded(&fragments[0]).to_vec(), encoded(&prepare(&other).2[0]).to_vec());
    // The hashes are the only part in which most bytes differ.
    let differ = |a: &[u8], b: &[u8]| a.iter().zip(b).filter(|(a, b)| a != b).count() > 4;
    let hashes = (0..like.len()).step_by(64).filter(|&at| differ(&like[at..][..8], &unlike[at..][..8]));
    let hashes: Vec<usize> = hashes.collect();
    assert_eq!(hashes.len(), 1);
    let count = |bytes: &[u8]| {
        let (mut memory, skip) = aligned(bytes.len());
        memory[skip..skip + bytes.len()].copy_from_slice(bytes);
        let fragment = Fragment::decode(&format, Buffer::from_vec(memory).slice(skip)).unwrap();
        let mut pairs = HashMap::new();
        join(&build, &fragment, 1, &mut pairs);
        pairs.len()
    };
    assert_eq!((count(&like), count(&unlike)), (1, 0));
    like[hashes[0]..][..8].swap_with_slice(&mut unlike[hashes[0]..][..8]);
    assert_eq!((count(&like), count(&unlike)), (0, 0));
}

#[test]
fn sides_that_do_not_fit_are_told_apart() {
    let (int, text): (ArrayRef, ArrayRef) =
        (Arc::new(Int32Array::from(vec![1])), Arc::new(StringArray::from(vec!["1"])));
    let (numbers, words) = (case(Arc::clone(&int), int), case(Arc::clone(&text), text));
    let (build, ..) = prepare(&numbers);
    let (_, format, fragments) = prepare(&words);
    let morsel = &fragments[0].morsels(1)[0];
    let error = build.probe(&fragments[0], morsel, &mut Collect::default()).unwrap_err();
    assert!(matches!(error, JoinError::KeyTypes { index: 0, .. }), "{error}");
    assert!(matches!(format.keys().check(build.keys()), Err(JoinError::KeyTypes { .. })));

    let many = Case { partitions: 32, ..numbers };
    let (_, _, fragments) = prepare(&many);
    let error = build.probe(&fragments[0], morsel, &mut Collect::default()).unwrap_err();
    assert!(matches!(error, JoinError::Fragment { .. }), "{error}");
}

#[test]
fn every_word_before_the_columns_may_be_anything() {
    let kinds: Vec<usize> = (0..KINDS).collect();
    let rows: Vec<Vec<Option<i8>>> =
        (0..20i8).map(|row| kinds.iter().map(|&kind| (row != kind as i8).then_some(row * 5)).collect()).collect();
    let side = side(&kinds, &rows);
    let both =
        Case { build_keys: vec![13], probe_keys: vec![13], ..case(side.column(0).clone(), side.column(0).clone()) };
    let (build, format, fragments) = prepare(&Case { build: side.clone(), probe: side, ..both });
    let whole = encoded(&fragments[0]);
    // The table of buffers ends before these bytes.
    let words = whole.len().min(2048) / 4;
    for at in 0..words {
        let word = u32::from_le_bytes(whole[at * 4..][..4].try_into().unwrap());
        for damaged in
            [0, 1, 2, 3, 19, 63, 64, 1 << 31, u32::MAX, word.wrapping_sub(1), word.wrapping_add(1), word ^ 64]
        {
            let (mut memory, skip) = aligned(whole.len());
            memory[skip..skip + whole.len()].copy_from_slice(&whole);
            memory[skip + at * 4..][..4].copy_from_slice(&damaged.to_le_bytes());
            let bytes = Buffer::from_vec(memory).slice_with_length(skip, whole.len());
            if let Ok(fragment) = Fragment::decode(&format, bytes) {
                join(&build, &fragment, 1, &mut HashMap::new());
            }
        }
    }
}

#[test]
fn bytes_that_cannot_be_read_where_they_lie_are_refused() {
    let keys: ArrayRef = Arc::new((0..1000).collect::<Int32Array>());
    let (_, format, fragments) = prepare(&case(Arc::clone(&keys), Arc::clone(&keys)));
    let bytes = encoded(&fragments[0]);
    let (mut memory, skip) = aligned(bytes.len() + 8);
    memory[skip + 8..skip + 8 + bytes.len()].copy_from_slice(&bytes);
    let askew = Buffer::from_vec(memory).slice(skip + 8);
    assert!(matches!(Fragment::decode(&format, askew), Err(JoinError::Fragment { .. })));

    let (_, other, _) = prepare(&Case { partitions: 32, ..case(Arc::clone(&keys), keys) });
    assert!(matches!(Fragment::decode(&other, bytes.clone()), Err(JoinError::Fragment { .. })));
    for end in [0, 63, 64, 100, bytes.len() - 1] {
        assert!(Fragment::decode(&format, bytes.slice_with_length(0, end)).is_err(), "{end} bytes");
    }
    assert!(fragments[0].encode(&mut vec![0; bytes.len() - 1]).is_err());
}

#[test]
fn keys_that_are_none_are_refused() {
    let schema = Arc::new(Schema::new(vec![Field::new("key", DataType::Int32, true)]));
    assert!(matches!(Keys::new(&schema, &[], false), Err(JoinError::Arrow(_))));
    assert!(matches!(Keys::new(&schema, &[1], false), Err(JoinError::Arrow(_))));
}

#[test]
fn a_row_that_fits_in_no_fragment_is_an_error() {
    let long: ArrayRef = Arc::new(StringArray::from(vec!["x".repeat(5000)]));
    let side = batch(vec![("key", long)]);
    let keys = Keys::new(&side.schema(), &[0], false).unwrap();
    let format = Arc::new(FragmentFormat::new(keys, Partitions::at_least(1)).unwrap());
    let error = Fragment::prepare(&format, vec![side], 1, 4096).unwrap_err();
    assert!(matches!(error, JoinError::RowTooLarge { max_bytes: 4096, .. }), "{error}");
}

#[test]
fn match_bits_go_round_with_the_bytes() {
    let keys: ArrayRef = Arc::new((0..1000).collect::<Int32Array>());
    let (_, format, fragments) = prepare(&case(Arc::clone(&keys), keys));
    let mut bytes = encoded(&fragments[0]).to_vec();
    assert_eq!(match_bits(&bytes).unwrap().len(), fragments[0].batch().num_rows().div_ceil(8));
    for row in [0, 9, 999] {
        fragments[0].matched().set(row);
    }
    store_matched(&mut bytes, fragments[0].matched()).unwrap();
    assert!(matches!(store_matched(&mut bytes, &MatchBits::new(1001)), Err(JoinError::Fragment { .. })));
    assert!(matches!(store_matched(&mut [0; 64], &MatchBits::new(0)), Err(JoinError::Fragment { .. })));
    let (mut memory, skip) = aligned(bytes.len());
    memory[skip..skip + bytes.len()].copy_from_slice(&bytes);
    let decoded = Fragment::decode(&format, Buffer::from_vec(memory).slice(skip)).unwrap();
    let set: Vec<usize> = decoded.matched().to_array().values().set_indices().collect();
    assert_eq!(set, [0, 9, 999]);
    assert_eq!(encoded(&decoded).as_slice(), bytes);
    let rows = UInt32Array::from_iter_values(0..1000);
    assert_eq!(take_record_batch(decoded.batch(), &rows).unwrap(), *fragments[0].batch());
}

/// Fragments for joins other than the hash join keep the order of their rows.
#[test]
fn rows_in_order_come_back_in_order() {
    let rows = 500;
    let numbers: ArrayRef = Arc::new((0..rows).map(|row| (row % 7 > 0).then_some(row)).collect::<Int64Array>());
    let texts: ArrayRef = Arc::new((0..rows).map(|row| Some(format!("text {row}"))).collect::<StringArray>());
    let batch = RecordBatch::try_from_iter([("number", numbers), ("text", texts)]).unwrap();
    let format = Arc::new(FragmentFormat::keyless(batch.schema_ref()).unwrap());
    let fragments = Fragment::in_order(&format, &batch, 2, 2048).unwrap();
    assert!(fragments.len() > 5);
    let mut next = 0;
    for fragment in fragments {
        let mut bytes = MutableBuffer::from_len_zeroed(2048);
        fragment.encode(&mut bytes).unwrap();
        let decoded = Fragment::decode(&format, bytes.into()).unwrap();
        let rows = decoded.batch().num_rows();
        assert_eq!(decoded.batch(), &batch.slice(next, rows));
        next += rows;
    }
    assert_eq!(next, batch.num_rows());
    assert!(Fragment::prepare(&format, vec![batch], 1, 2048).is_err(), "there is nothing to cluster by");
}
