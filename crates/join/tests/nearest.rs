//! The nearest rows by indexes against those that are found row by row.

use std::sync::Arc;

use annulus_join::{JoinError, LineIndex, NearestLists, Neighbour, PlaneFormula, PlaneIndex};
use arrow::{
    array::{Array, ArrayRef, AsArray, BooleanArray, Float64Array, Int64Array, StringArray, UInt64Array},
    compute::cast,
    datatypes::{DataType, Float32Type, Float64Type, Int64Type, TimeUnit, UInt64Type},
};

type List = Vec<Neighbour<u64>>;

const NAN: u64 = 0x7FF8_0000_0000_0000;

/// A sequence of pseudo-random numbers.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let product = u128::from(self.0) * u128::from(0xD6E8_FEB8_6659_FD93_u64);
        let mixed = (product as u64) ^ (product >> 64) as u64;
        (mixed ^ mixed >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9) ^ mixed >> 32
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    fn pick<T: Clone>(&mut self, values: &[T]) -> T {
        values[self.below(values.len())].clone()
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// The kinds of floats that a column has.
#[derive(Clone, Copy, Debug)]
enum Floats {
    Few,
    Uniform,
    Special,
    /// Some places with many values nearby, and a few values far off.
    Clusters,
    /// Values whose differences are rounded to few distances.
    Rounded,
    Bits,
    /// Values whose squares are less than the least number.
    Tiny,
}

const FLOATS: [Floats; 7] =
    [Floats::Few, Floats::Uniform, Floats::Special, Floats::Clusters, Floats::Rounded, Floats::Bits, Floats::Tiny];

fn float(random: &mut Random, kind: Floats) -> f64 {
    const SPECIAL: [f64; 14] = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        f64::NAN,
        -f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::MAX,
        f64::MIN,
        f64::MIN_POSITIVE,
        5e-324,
        1e38,
        -1e-45,
    ];
    match kind {
        Floats::Few => random.below(9) as f64 - 4.0,
        Floats::Uniform => random.unit() * 200.0 - 100.0,
        Floats::Special => random.pick(&SPECIAL),
        Floats::Clusters if random.below(50) == 0 => random.unit() * 1e18,
        Floats::Clusters => random.below(4) as f64 * 1e3 + random.unit() * 1e-3,
        Floats::Rounded if random.below(3) == 0 => 1e17 * random.pick(&[1.0, -1.0, 3.0]),
        Floats::Rounded => random.unit() * 64.0,
        Floats::Bits => f64::from_bits(random.next()),
        Floats::Tiny => (random.unit() - 0.5) * random.pick(&[1e-158, 1e-162, 1e-170]),
    }
}

/// Returns floats of one kind, or of two.
fn floats(random: &mut Random, rows: usize, kinds: [Floats; 2], nulls: bool) -> Float64Array {
    let value = |_| {
        let kind = kinds[random.below(2)];
        (!nulls || random.below(5) > 0).then(|| float(random, kind))
    };
    (0..rows).map(value).collect()
}

fn int(random: &mut Random, kind: usize) -> i64 {
    match kind {
        0 => random.below(9) as i64 - 4,
        1 => random.next() as i64,
        2 => random.pick(&[i64::MIN, i64::MAX, 0, -1, 1, i64::MIN + 1]),
        _ => random.below(1000) as i64,
    }
}

/// Returns values of a type; the same choices give the same kinds of values.
fn values(random: &mut Random, rows: usize, data_type: &DataType, kinds: [usize; 2], nulls: bool) -> ArrayRef {
    if matches!(data_type, DataType::Float32 | DataType::Float64) {
        let values = floats(random, rows, kinds.map(|kind| FLOATS[kind % FLOATS.len()]), nulls);
        return cast(&values, data_type).unwrap();
    }
    // Integers that are too large for the type are null.
    let value = |_| {
        let kind = kinds[random.below(2)] % 4;
        (!nulls || random.below(5) > 0).then(|| int(random, kind))
    };
    if *data_type == DataType::UInt64 {
        return Arc::new((0..rows).map(value).map(|value| value.map(|value| value as u64)).collect::<UInt64Array>());
    }
    cast(&(0..rows).map(value).collect::<Int64Array>(), data_type).unwrap()
}

fn ties(random: &mut Random, rows: usize) -> Vec<u64> {
    let kind = random.below(4);
    let tie = |row| match kind {
        0 => 0,
        1 => random.below(3) as u64,
        2 => random.next(),
        _ => (rows - row) as u64,
    };
    (0..rows).map(tie).collect()
}

/// Returns places that cut rows into pieces, with both ends.
fn cuts(random: &mut Random, rows: usize) -> Vec<usize> {
    let count = random.below(4);
    let mut cuts: Vec<usize> = (0..count).map(|_| random.below(rows + 1)).chain([0, rows]).collect();
    cuts.sort_unstable();
    cuts
}

fn float_word(distance: f64) -> u64 {
    if distance.is_nan() { NAN } else { distance.to_bits() }
}

/// Returns the distance of two values, neither of which is null.
fn line_distance(left: &dyn Array, l: usize, right: &dyn Array, r: usize) -> u64 {
    match left.data_type() {
        DataType::Float32 => {
            let values = [left, right].map(|side| side.as_primitive::<Float32Type>());
            let distance = (values[0].value(l) - values[1].value(r)).abs();
            if distance.is_nan() { 0x7FC0_0000 } else { distance.to_bits().into() }
        }
        DataType::Float64 => {
            let values = [left, right].map(|side| side.as_primitive::<Float64Type>());
            float_word((values[0].value(l) - values[1].value(r)).abs())
        }
        DataType::UInt64 => {
            let values = [left, right].map(|side| side.as_primitive::<UInt64Type>());
            values[0].value(l).abs_diff(values[1].value(r))
        }
        _ => {
            let values = [left, right].map(|side| cast(side, &DataType::Int64).unwrap());
            let value = |side: usize, row| values[side].as_primitive::<Int64Type>().value(row);
            value(0, l).abs_diff(value(1, r))
        }
    }
}

/// Returns the lists that rows by row leave; `distance` is `None` for nulls.
fn brute_force(
    lefts: usize,
    ties: &[u64],
    k: usize,
    mut distance: impl FnMut(usize, usize) -> Option<u64>,
) -> Vec<List> {
    let mut lists = NearestLists::new(lefts, k);
    for left in 0..lefts {
        for (right, &tie) in ties.iter().enumerate() {
            if let Some(distance) = distance(left, right) {
                lists.offer(left, Neighbour { distance, tie, row: right as u32 });
            }
        }
    }
    sorted(&mut lists)
}

fn sorted(lists: &mut NearestLists<u64>) -> Vec<List> {
    (0..lists.rows()).map(|row| lists.sort(row).to_vec()).collect()
}

fn sizes(random: &mut Random) -> (usize, usize, usize) {
    let right = random.pick(&[0, 1, 7, 16, 17, 40, 100, 100, 300, 1000]);
    let left = if right > 100 { 30 } else { random.below(60) };
    (left, right, random.pick(&[0, 1, 1, 1, 2, 3, 5, 10, 20]))
}

#[test]
fn lines_have_the_rows_of_the_model() {
    let types = [
        DataType::Int8,
        DataType::Int16,
        DataType::Int32,
        DataType::Int64,
        DataType::UInt64,
        DataType::Date32,
        DataType::Timestamp(TimeUnit::Microsecond, None),
        DataType::Duration(TimeUnit::Second),
        DataType::Float32,
        DataType::Float32,
        DataType::Float64,
        DataType::Float64,
        DataType::Float64,
    ];
    for seed in 0..1500 {
        let random = &mut Random(seed);
        let data_type = random.pick(&types);
        let (lefts, rights, k) = sizes(random);
        let kinds = [random.below(28), random.below(28)];
        let nulls = random.below(2) == 0;
        let mut left = values(random, lefts, &data_type, kinds, nulls);
        if random.below(3) == 0 {
            left = arrow::compute::sort(&left, None).unwrap();
        }
        let right = values(random, rights, &data_type, kinds, nulls);
        let ties = ties(random, rights);
        let of_pair = |l, r| (left.is_valid(l) && right.is_valid(r)).then(|| line_distance(&left, l, &right, r));
        // Casts of the model take most of the time.
        let expected = brute_force(lefts, &ties, k, of_pair);
        let indexes: Vec<LineIndex> = cuts(random, rights)
            .windows(2)
            .map(|cut| {
                let piece = right.slice(cut[0], cut[1] - cut[0]);
                LineIndex::try_new(&piece, &ties[cut[0]..cut[1]], cut[0] as u32, 1 + random.below(3)).unwrap()
            })
            .collect();
        let mut found = Vec::new();
        for cut in cuts(random, lefts).windows(2) {
            let mut lists = NearestLists::new(cut[1] - cut[0], k);
            let piece = left.slice(cut[0], cut[1] - cut[0]);
            indexes.iter().for_each(|index| index.nearest(&piece, &mut lists, &mut || Ok(())).unwrap());
            found.extend(sorted(&mut lists));
        }
        assert_eq!(found, expected, "seed {seed}, {data_type}, k {k}, kinds {kinds:?}");
    }
}

fn plane_distance(formula: PlaneFormula, dx: f64, dy: f64) -> u64 {
    let square = dx * dx + dy * dy;
    float_word(if formula == PlaneFormula::Euclidean { square.sqrt() } else { square })
}

#[test]
fn planes_have_the_rows_of_the_model() {
    for seed in 0..1500 {
        let random = &mut Random(seed);
        let (lefts, rights, k) = sizes(random);
        let kinds = [random.pick(&FLOATS), random.pick(&FLOATS)];
        let nulls = random.below(3) == 0;
        let [left_xs, left_ys] = [0; 2].map(|_| floats(random, lefts, kinds, nulls));
        let [right_xs, mut right_ys] = [0; 2].map(|_| floats(random, rights, kinds, nulls));
        if random.below(4) == 0 {
            // All points on a line.
            right_ys = right_xs.clone();
        }
        let ties = ties(random, rights);
        let formula = random.pick(&[PlaneFormula::Euclidean, PlaneFormula::Squared]);
        let expected = brute_force(lefts, &ties, k, |l, r| {
            let is_valid = left_xs.is_valid(l) && left_ys.is_valid(l) && right_xs.is_valid(r) && right_ys.is_valid(r);
            let (dx, dy) = (left_xs.value(l) - right_xs.value(r), left_ys.value(l) - right_ys.value(r));
            is_valid.then(|| plane_distance(formula, dx, dy))
        });
        let indexes: Vec<PlaneIndex> = cuts(random, rights)
            .windows(2)
            .map(|cut| {
                let [xs, ys] = [&right_xs, &right_ys].map(|values| values.slice(cut[0], cut[1] - cut[0]));
                let ties = &ties[cut[0]..cut[1]];
                PlaneIndex::try_new(&xs, &ys, formula, ties, cut[0] as u32, 1 + random.below(3)).unwrap()
            })
            .collect();
        let mut found = Vec::new();
        for cut in cuts(random, lefts).windows(2) {
            let mut lists = NearestLists::new(cut[1] - cut[0], k);
            let [xs, ys] = [&left_xs, &left_ys].map(|values| values.slice(cut[0], cut[1] - cut[0]));
            indexes.iter().for_each(|index| index.nearest(&xs, &ys, &mut lists, &mut || Ok(())).unwrap());
            found.extend(sorted(&mut lists));
        }
        assert_eq!(found, expected, "seed {seed}, {formula:?}, k {k}, kinds {kinds:?}");
    }
}

/// Enough rows for several threads to sort and divide them.
#[test]
fn many_rows_have_the_rows_of_the_model() {
    let (lefts, rights) = (40, 40_000);
    for kind in FLOATS {
        let random = &mut Random(kind as u64);
        let [left_xs, left_ys] = [0; 2].map(|_| floats(random, lefts, [kind; 2], false));
        let [right_xs, right_ys] = [0; 2].map(|_| floats(random, rights, [kind; 2], false));
        let ties = ties(random, rights);
        let formula = PlaneFormula::Euclidean;
        let line = LineIndex::try_new(&right_xs, &ties, 0, 3).unwrap();
        let plane = PlaneIndex::try_new(&right_xs, &right_ys, formula, &ties, 0, 3).unwrap();
        for k in [1, 10, 300] {
            let mut lists = NearestLists::new(lefts, k);
            line.nearest(&left_xs, &mut lists, &mut || Ok(())).unwrap();
            let expected = |l, r| Some(line_distance(&left_xs, l, &right_xs, r));
            assert_eq!(sorted(&mut lists), brute_force(lefts, &ties, k, expected), "{kind:?}, {k}");
            let mut lists = NearestLists::new(lefts, k);
            plane.nearest(&left_xs, &left_ys, &mut lists, &mut || Ok(())).unwrap();
            let expected = brute_force(lefts, &ties, k, |l, r| {
                let (dx, dy) = (left_xs.value(l) - right_xs.value(r), left_ys.value(l) - right_ys.value(r));
                Some(plane_distance(formula, dx, dy))
            });
            assert_eq!(sorted(&mut lists), expected, "{kind:?}, {k}");
        }
    }
}

/// Rows at one distance are not looked at one by one: the number of checks counts the steps.
#[test]
fn equal_distances_take_few_steps() {
    let rows = 50_000;
    let constant = |value: f64| Float64Array::from(vec![value; rows]);
    let numbers: Float64Array = (0..rows).map(|row| Some(row as f64)).collect();
    // The later a row, the smaller its tie.
    let ties: Vec<u64> = (0..rows as u64).rev().collect();
    for right in [constant(1.0), constant(f64::NAN), constant(f64::INFINITY), numbers] {
        for left in [1.0, 1e300, f64::NAN, f64::INFINITY, f64::NEG_INFINITY].map(constant) {
            for k in [1, 10] {
                let mut checks = 0;
                let mut check = || {
                    checks += 1;
                    Ok(())
                };
                let mut lists = NearestLists::new(rows, k);
                let index = LineIndex::try_new(&right, &ties, 0, 1).unwrap();
                index.nearest(&left, &mut lists, &mut check).unwrap();
                let mut lists = NearestLists::new(rows, k);
                let index = PlaneIndex::try_new(&right, &right, PlaneFormula::Squared, &ties, 0, 1).unwrap();
                index.nearest(&left, &left, &mut lists, &mut check).unwrap();
                // A look at each pair would take 38,000 checks.
                assert!((1..1500).contains(&checks), "{checks} checks");
            }
        }
    }
}

#[test]
fn an_error_of_the_check_ends_the_search() {
    let values: Float64Array = (0..200_000).map(|row| Some(f64::from(row))).collect();
    let ties = vec![0; values.len()];
    let line = LineIndex::try_new(&values, &ties, 0, 2).unwrap();
    let plane = PlaneIndex::try_new(&values, &values, PlaneFormula::Euclidean, &ties, 0, 2).unwrap();
    assert!(line.memory_bytes() >= 20 * values.len() && plane.memory_bytes() >= 28 * values.len());
    for last in 0..3 {
        let mut checks = 0;
        let mut check = || {
            checks += 1;
            if checks > last { Err(JoinError::Cancelled) } else { Ok(()) }
        };
        let mut lists = NearestLists::new(values.len(), 2);
        let error = line.nearest(&values, &mut lists, &mut check).unwrap_err();
        assert!(matches!(error, JoinError::Cancelled));
        checks = 0;
        let mut check = || {
            checks += 1;
            if checks > last { Err(JoinError::Cancelled) } else { Ok(()) }
        };
        let error = plane.nearest(&values, &values, &mut lists, &mut check).unwrap_err();
        assert!(matches!(error, JoinError::Cancelled));
    }
}

#[test]
fn other_types_and_lengths_are_errors() {
    let (two, three) = (Float64Array::from(vec![1.0; 2]), Float64Array::from(vec![1.0; 3]));
    let unsupported: [ArrayRef; 2] = [Arc::new(StringArray::from(vec!["a"])), Arc::new(BooleanArray::from(vec![true]))];
    for values in unsupported {
        let error = LineIndex::try_new(&values, &[0], 0, 1).unwrap_err();
        assert!(matches!(error, JoinError::KeyUnsupported { .. }));
    }
    assert!(matches!(LineIndex::try_new(&two, &[0], 0, 1), Err(JoinError::Arrow(_))));
    assert!(matches!(LineIndex::try_new(&two, &[0; 2], u32::MAX, 1), Err(JoinError::TooManyRows { .. })));
    let index = LineIndex::try_new(&two, &[0; 2], 0, 1).unwrap();
    let check = &mut || Ok(());
    let error = index.nearest(&Int64Array::from(vec![1]), &mut NearestLists::new(1, 1), check).unwrap_err();
    assert!(matches!(error, JoinError::KeyTypes { .. }));
    assert!(matches!(index.nearest(&two, &mut NearestLists::new(1, 1), check), Err(JoinError::Arrow(_))));
    let formula = PlaneFormula::Squared;
    assert!(matches!(PlaneIndex::try_new(&two, &three, formula, &[0; 2], 0, 1), Err(JoinError::Arrow(_))));
    assert!(matches!(PlaneIndex::try_new(&two, &two, formula, &[0; 3], 0, 1), Err(JoinError::Arrow(_))));
    let index = PlaneIndex::try_new(&two, &two, formula, &[0; 2], 7, 1).unwrap();
    assert!(matches!(index.nearest(&two, &three, &mut NearestLists::new(2, 1), check), Err(JoinError::Arrow(_))));
    assert!(matches!(index.nearest(&two, &two, &mut NearestLists::new(3, 1), check), Err(JoinError::Arrow(_))));
}
