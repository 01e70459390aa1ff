//! The nearest vectors and the pairs within a threshold, against a loop over the scalar function.

use std::{ops::Range, sync::Arc};

use annulus_join::{
    Comparison, JoinError, NearestLists, Neighbour, PairSink, RightVectors, VectorBlock, VectorMetric, VectorPosition,
    VectorThreshold, nearest_vectors, vector_pairs,
};
use arrow::{
    array::{Array, ArrayRef, FixedSizeListArray, Float64Array, LargeListArray, ListArray},
    buffer::{NullBuffer, OffsetBuffer},
    compute::cast,
    datatypes::{DataType, Field},
};

const METRICS: [VectorMetric; 4] =
    [VectorMetric::InnerProduct, VectorMetric::CosineSimilarity, VectorMetric::CosineDistance, VectorMetric::Euclidean];
const COMPARISONS: [Comparison; 4] =
    [Comparison::Less, Comparison::LessOrEqual, Comparison::Greater, Comparison::GreaterOrEqual];

/// A vector that may be null, and so may its elements.
type Vector = Option<Vec<Option<f64>>>;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ word >> 31
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    fn pick<T: Clone>(&mut self, values: &[T]) -> T {
        values[self.below(values.len())].clone()
    }

    /// Returns a number between -1 and 1.
    fn number(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }
}

/// The kinds of vectors of a case.
struct Kind {
    length: usize,
    data_type: DataType,
    /// The magnitudes of the vectors, one of which each has.
    magnitudes: Vec<f64>,
    /// A number that is added to each element.
    shift: f64,
    has_nulls: bool,
    has_nans: bool,
    /// Whether elements are few small integers, which gives ties.
    is_coarse: bool,
}

fn vectors(random: &mut Random, rows: usize, kind: &Kind) -> Vec<Vector> {
    let mut made: Vec<Vector> = Vec::new();
    for _ in 0..rows {
        if kind.has_nulls && random.one_in(9) {
            made.push(None);
            continue;
        }
        if !made.is_empty() && random.one_in(6) {
            made.push(random.pick(&made));
            continue;
        }
        let magnitude = if random.one_in(15) { 0.0 } else { random.pick(&kind.magnitudes) };
        let element = |random: &mut Random| {
            let number = random.number();
            let number = if kind.is_coarse { (number * 2.0).round() } else { number };
            number * magnitude + kind.shift
        };
        let mut vector: Vec<_> = (0..kind.length).map(|_| Some(element(random))).collect();
        if kind.length > 0 && kind.has_nulls && random.one_in(12) {
            vector[random.below(kind.length)] = None;
        }
        if kind.length > 0 && kind.has_nans && random.one_in(12) {
            vector[random.below(kind.length)] = Some(random.pick(&[f64::NAN, f64::INFINITY, f64::NEG_INFINITY]));
        }
        made.push(Some(vector));
    }
    made
}

/// Returns the vectors as an array of one of the three lists.
fn array(random: &mut Random, vectors: &[Vector], kind: &Kind) -> ArrayRef {
    let nulls = Some(NullBuffer::from_iter(vectors.iter().map(Option::is_some)));
    let is_fixed = kind.length > 0 && random.one_in(3);
    let lengths = vectors.iter().map(|vector| vector.as_ref().map_or(if is_fixed { kind.length } else { 0 }, Vec::len));
    let values = vectors.iter().flat_map(|vector| match vector {
        Some(vector) => vector.clone(),
        None if is_fixed => vec![None; kind.length],
        None => Vec::new(),
    });
    let values = cast(&Float64Array::from_iter(values), &kind.data_type).unwrap();
    let field = Arc::new(Field::new("item", kind.data_type.clone(), true));
    if is_fixed {
        Arc::new(FixedSizeListArray::new(field, kind.length as i32, values, nulls))
    } else if random.one_in(2) {
        Arc::new(ListArray::new(field, OffsetBuffer::from_lengths(lengths), values, nulls))
    } else {
        Arc::new(LargeListArray::new(field, OffsetBuffer::from_lengths(lengths), values, nulls))
    }
}

/// Returns the elements of each vector as the scalar function sees them.
fn elements(array: &ArrayRef) -> Vec<Option<Vec<f64>>> {
    let field = Arc::new(Field::new("item", DataType::Float64, true));
    let array = cast(array, &DataType::LargeList(field)).unwrap();
    let array = array.as_any().downcast_ref::<LargeListArray>().unwrap();
    let vector = |vector: Option<ArrayRef>| {
        let vector = vector?;
        let values = vector.as_any().downcast_ref::<Float64Array>().unwrap();
        (values.null_count() == 0).then(|| values.values().to_vec())
    };
    array.iter().map(vector).collect()
}

/// The scalar function, as DataFusion has it.
fn scalar(metric: VectorMetric, a: &[f64], b: &[f64]) -> Option<f64> {
    if metric == VectorMetric::Euclidean {
        return Some(a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum::<f64>().sqrt());
    }
    let (mut dot, mut sq1, mut sq2) = (0.0, 0.0, 0.0);
    for (a, b) in a.iter().zip(b) {
        dot += a * b;
        sq1 += a * a;
        sq2 += b * b;
    }
    let similarity = || (sq1 != 0.0 && sq2 != 0.0).then(|| dot / (sq1.sqrt() * sq2.sqrt()));
    match metric {
        VectorMetric::InnerProduct => Some(dot),
        VectorMetric::CosineSimilarity => similarity(),
        _ => similarity().map(|similarity| 1.0 - similarity),
    }
}

fn word(metric: VectorMetric, result: f64) -> u64 {
    metric.distance_word(result)
}

/// Both sides of a case.
struct Case {
    metric: VectorMetric,
    left: ArrayRef,
    right: ArrayRef,
    ties: Vec<u64>,
    /// The result of each pair, left row by left row.
    results: Vec<Vec<Option<f64>>>,
    name: String,
}

fn case(seed: u64) -> Case {
    let random = &mut Random(seed);
    let length = random.pick(&[0, 1, 3, 7, 64, 384, 449]);
    let magnitudes = random.pick(&[vec![1.0], vec![1.0], vec![1e-3, 1.0, 1e3], vec![1e-30, 1e-7, 1e20, 1e36]]);
    let wild = vec![1e-310, 1e-200, 1e-150, 1e-20, 1.0, 1e100, 1e160, 1e300];
    let (has_nulls, has_nans, is_coarse) = (random.one_in(2), random.one_in(3), random.one_in(3));
    let shift = if random.one_in(4) { random.pick(&[100.0, 1e6, 1e12]) } else { 0.0 };
    let is_wild = random.one_in(3);
    let kind = |random: &mut Random| {
        let data_type = random.pick(&[DataType::Float16, DataType::Float32, DataType::Float64, DataType::Int8]);
        let magnitudes = match data_type {
            DataType::Float16 => vec![1.0, 100.0],
            DataType::Int8 => vec![3.0, 120.0],
            DataType::Float64 if is_wild => wild.clone(),
            _ => magnitudes.clone(),
        };
        let is_wide = matches!(data_type, DataType::Float32 | DataType::Float64);
        let has_nans = has_nans && data_type != DataType::Int8;
        let shift = if is_wide { shift } else { 0.0 };
        Kind { length, data_type, magnitudes, shift, has_nulls, has_nans, is_coarse }
    };
    let (left_kind, right_kind) = (kind(random), kind(random));
    let (left_rows, right_rows) = (random.pick(&[0, 1, 5, 40, 130]), random.pick(&[0, 1, 17, 300, 700]));
    let left = vectors(random, left_rows, &left_kind);
    let right = vectors(random, right_rows, &right_kind);
    let (left, right) = (array(random, &left, &left_kind), array(random, &right, &right_kind));
    let metric = random.pick(&METRICS);
    let name = format!("seed {seed}: {metric:?} of {} and {}", left.data_type(), right.data_type());
    let (left_values, right_values) = (elements(&left), elements(&right));
    let result = |a: &Option<Vec<f64>>, b: &Option<Vec<f64>>| scalar(metric, a.as_ref()?, b.as_ref()?);
    let results = left_values.iter().map(|a| right_values.iter().map(|b| result(a, b)).collect()).collect();
    let ties = (0..right_rows).map(|_| random.next() % 3).collect();
    Case { metric, left, right, ties, results, name }
}

/// Returns the list of each left row by a loop over all pairs.
fn loop_lists(case: &Case, k: usize) -> Vec<Vec<Neighbour<u64>>> {
    let list = |results: &Vec<Option<f64>>| {
        let rows = results.iter().enumerate().filter_map(|(row, result)| Some((row, (*result)?)));
        let rows = rows.map(|(row, result)| Neighbour {
            distance: word(case.metric, result),
            tie: case.ties[row],
            row: row as u32,
        });
        let mut rows: Vec<_> = rows.collect();
        rows.sort_unstable();
        rows.truncate(k);
        rows
    };
    case.results.iter().map(list).collect()
}

/// Returns consecutive ranges that cover some rows.
fn split(random: &mut Random, rows: usize) -> Vec<Range<usize>> {
    let mut ends: Vec<_> = (0..random.below(4)).map(|_| random.below(rows + 1)).chain([0, rows]).collect();
    ends.sort_unstable();
    ends.windows(2).map(|ends| ends[0]..ends[1]).collect()
}

/// Returns the list of each left row, with the sides in random blocks in random order.
fn block_lists(random: &mut Random, case: &Case, k: usize) -> Vec<Vec<Neighbour<u64>>> {
    let left = VectorBlock::try_new(&case.left, case.metric).unwrap();
    let mut right_ranges = split(random, case.right.len());
    if random.one_in(2) {
        right_ranges.reverse();
    }
    let mut all = Vec::new();
    for rows in split(random, case.left.len()) {
        let mut lists = NearestLists::new(rows.len(), k);
        for range in &right_ranges {
            let block = VectorBlock::try_new(&case.right.slice(range.start, range.len()), case.metric).unwrap();
            let right = RightVectors { block: &block, ties: &case.ties[range.clone()], first_row: range.start as u32 };
            nearest_vectors(&left, rows.clone(), right, &mut lists, &mut || Ok(())).unwrap();
        }
        all.extend((0..rows.len()).map(|row| lists.sort(row).to_vec()));
    }
    all
}

fn cases() -> u64 {
    std::env::var("ANNULUS_VECTOR_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(150)
}

#[test]
fn lists_are_those_of_a_loop() {
    for seed in 0..cases() {
        let case = case(seed);
        let random = &mut Random(seed ^ 0xabcd);
        let k = random.below(20) + 1;
        let (expected, found) = (loop_lists(&case, k), block_lists(random, &case, k));
        for (row, (expected, found)) in expected.iter().zip(&found).enumerate() {
            assert_eq!(expected, found, "{}, k = {k}, left row {row}", case.name);
        }
        assert_eq!(expected.len(), found.len());
    }
}

#[derive(Default)]
struct Pairs(Vec<(u32, u32)>);

impl PairSink for Pairs {
    fn pairs(&mut self, build: &[u32], probe: &[u32]) -> Result<(), JoinError> {
        assert!((1..=annulus_join::MOST_PAIRS).contains(&build.len()));
        self.0.extend(build.iter().copied().zip(probe.iter().copied()));
        Ok(())
    }
}

/// Returns all pairs, sorted, that are found `most` at a time.
fn all_pairs(case: &Case, threshold: VectorThreshold, most: u64) -> Vec<(u32, u32)> {
    let left = VectorBlock::try_new(&case.left, case.metric).unwrap();
    let right = VectorBlock::try_new(&case.right, case.metric).unwrap();
    let (mut pairs, mut position) = (Pairs::default(), VectorPosition::before_rows(0..left.rows()));
    while !position.is_end() {
        let before = pairs.0.len();
        let found = vector_pairs(&left, &right, threshold, &mut position, most, &mut pairs).unwrap();
        assert_eq!(found, (pairs.0.len() - before) as u64);
        assert!(found == most || (found < most && position.is_end()));
    }
    pairs.0.sort_unstable();
    pairs.0
}

#[test]
fn pairs_are_those_of_a_loop() {
    for seed in 1000..1000 + cases() {
        let case = case(seed);
        let random = &mut Random(seed ^ 0xabcd);
        // Often a result of a pair: it is exactly on the threshold.
        let value = match (
            random.pick(&case.results.iter().flatten().flatten().copied().chain([0.5]).collect::<Vec<_>>()),
            random.below(6),
        ) {
            (_, 0) => random.pick(&[0.0, -0.0, -1.0, 1.0, 2.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY]),
            (value, _) => value,
        };
        let threshold = VectorThreshold { comparison: random.pick(&COMPARISONS), value };
        let mut expected = Vec::new();
        for (left, results) in case.results.iter().enumerate() {
            let rows = results.iter().enumerate().filter(|(_, it)| it.is_some_and(|result| holds(threshold, result)));
            expected.extend(rows.map(|(right, _)| (left as u32, right as u32)));
        }
        let most = random.pick(&[(expected.len() as u64).div_ceil(7).max(1), 8192]);
        let mut found = all_pairs(&case, threshold, most);
        // Processors and compilers choose the sign of a NaN that two others give.
        let is_number =
            |pair: &(u32, u32)| case.results[pair.0 as usize][pair.1 as usize].is_some_and(|result| !result.is_nan());
        expected.retain(is_number);
        found.retain(is_number);
        assert!(found == expected, "{}, {threshold:?}, most = {most}", case.name);
    }
}

#[test]
fn a_nan_is_beyond_all_numbers() {
    for (metric, comparison, count) in [
        (VectorMetric::InnerProduct, Comparison::GreaterOrEqual, 1),
        (VectorMetric::InnerProduct, Comparison::Less, 0),
        (VectorMetric::Euclidean, Comparison::Greater, 1),
        (VectorMetric::CosineDistance, Comparison::LessOrEqual, 0),
    ] {
        let [left, right] =
            [[f64::NAN, 1.0], [1.0, 1.0]].map(|it| VectorBlock::try_new(&list(&[&it]), metric).unwrap());
        let threshold = VectorThreshold { comparison, value: 1e300 };
        for [left, right] in [[&left, &right], [&right, &left]] {
            let (mut pairs, mut position) = (Pairs::default(), VectorPosition::before_rows(0..1));
            let found = vector_pairs(left, right, threshold, &mut position, 9, &mut pairs).unwrap();
            assert_eq!(found, count, "{metric:?} {comparison:?}");
        }
    }
}

fn holds(threshold: VectorThreshold, result: f64) -> bool {
    let zero = |value: f64| if value == 0.0 { 0.0 } else { value };
    let order = zero(result).total_cmp(&zero(threshold.value));
    match threshold.comparison {
        Comparison::Less => order.is_lt(),
        Comparison::LessOrEqual => order.is_le(),
        Comparison::Greater => order.is_gt(),
        Comparison::GreaterOrEqual => order.is_ge(),
    }
}

#[test]
fn words_keep_the_order_of_results() {
    let results = [f64::NEG_INFINITY, -1e300, -1.0, -1e-320, 0.0, 1e-320, 0.3, 1.0, 1e300, f64::INFINITY];
    for metric in METRICS {
        let mut words: Vec<_> = results.iter().map(|&result| metric.distance_word(result)).collect();
        assert!(results.iter().zip(&words).all(|(&result, &word)| metric.result(word) == result));
        if metric.is_similarity() {
            words.reverse();
        }
        assert!(words.is_sorted_by(|a, b| a < b));
        assert_eq!(metric.distance_word(-0.0), metric.distance_word(0.0));
        assert!(metric.distance_word(f64::NAN) > words[results.len() - 1]);
        assert_eq!(metric.distance_word(-f64::NAN), metric.distance_word(f64::NAN));
        assert!(metric.result(metric.distance_word(f64::NAN)).is_nan());
    }
}

fn list(vectors: &[&[f64]]) -> ListArray {
    let field = Arc::new(Field::new("item", DataType::Float64, true));
    let values = Float64Array::from_iter_values(vectors.iter().flat_map(|vector| vector.iter().copied()));
    ListArray::new(field, OffsetBuffer::from_lengths(vectors.iter().map(|it| it.len())), Arc::new(values), None)
}

#[test]
fn vectors_of_different_lengths_are_an_error() {
    for metric in METRICS {
        let block = |vectors: &[&[f64]]| VectorBlock::try_new(&list(vectors), metric).unwrap();
        let (left, right) = (block(&[&[1.0, 2.0]]), block(&[&[1.0, 2.0], &[1.0, 2.0, 3.0]]));
        let right = RightVectors { block: &right, ties: &[0; 2], first_row: 0 };
        let mut lists = NearestLists::new(1, 1);
        let error = nearest_vectors(&left, 0..1, right, &mut lists, &mut || Ok(())).unwrap_err();
        assert!(matches!(error, JoinError::VectorLengths { left: 2, right: 3 }), "{error}");
        let (threshold, mut position) =
            (VectorThreshold { comparison: Comparison::Less, value: 0.0 }, VectorPosition::before_rows(0..1));
        let error = vector_pairs(&left, right.block, threshold, &mut position, 1, &mut Pairs::default()).unwrap_err();
        assert!(error.to_string().contains("has 2 elements, and one of the right side 3"), "{error}");
        // There is nothing to compare them with.
        let none = RightVectors { block: &block(&[]), ties: &[], first_row: 0 };
        nearest_vectors(right.block, 0..2, none, &mut NearestLists::new(2, 1), &mut || Ok(())).unwrap();
    }
}

#[test]
fn other_types_are_an_error() {
    let error = VectorBlock::try_new(&Float64Array::from(vec![1.0]), VectorMetric::InnerProduct).unwrap_err();
    assert!(error.to_string().starts_with("a vector cannot be Float64"), "{error}");
}

#[test]
fn a_failed_check_ends_the_search() {
    let block = VectorBlock::try_new(&list(&[&[1.0, 2.0], &[2.0, 1.0]]), VectorMetric::InnerProduct).unwrap();
    let right = RightVectors { block: &block, ties: &[0; 2], first_row: 0 };
    let mut lists = NearestLists::new(2, 1);
    let error = nearest_vectors(&block, 0..2, right, &mut lists, &mut || Err(JoinError::Cancelled)).unwrap_err();
    assert!(matches!(error, JoinError::Cancelled));
}

#[test]
fn row_numbers_beyond_32_bits_are_an_error() {
    let block = VectorBlock::try_new(&list(&[&[1.0]]), VectorMetric::InnerProduct).unwrap();
    let right = RightVectors { block: &block, ties: &[0], first_row: u32::MAX };
    let error = nearest_vectors(&block, 0..1, right, &mut NearestLists::new(1, 1), &mut || Ok(())).unwrap_err();
    assert!(matches!(error, JoinError::TooManyRows { .. }));
}
