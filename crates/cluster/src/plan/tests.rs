//! Compares DataFusion's evaluation of predicates with the pairs that the joins find.

use std::{ops::Bound, sync::Arc};

use annulus_join::{
    Band, BuildSide, Fragment, FragmentFormat, HashConfig, JoinError, KeyPair, Keys, MergeCondition, MergeJoin, Offset,
    PairSink, Partitions, Side, Wanted,
};
use arrow::{
    array::{
        Array, ArrayRef, AsArray, Decimal128Array, Float32Array, Float64Array, Int32Array, ListArray, RecordBatch,
        StructArray,
    },
    compute::take,
    datatypes::{DataType, Field, Float64Type, Int32Type},
};

use super::sql::Sql;

/// Pairs of rows, by the numbers in the first column of each side.
type Pairs = Vec<(i32, i32)>;

#[derive(Default)]
struct Collect(Vec<(u32, u32)>);

impl PairSink for Collect {
    fn pairs(&mut self, build: &[u32], probe: &[u32]) -> Result<(), JoinError> {
        self.0.extend(build.iter().copied().zip(probe.iter().copied()));
        Ok(())
    }
}

impl Collect {
    fn numbers(&self, build: &RecordBatch, probe: &RecordBatch) -> Pairs {
        let number = |batch: &RecordBatch, row: u32| batch.column(0).as_primitive::<Int32Type>().value(row as usize);
        self.0.iter().map(|&(left, right)| (number(build, left), number(probe, right))).collect()
    }
}

fn sorted(mut pairs: Pairs) -> Pairs {
    pairs.sort_unstable();
    pairs
}

/// Returns a side with the rows' numbers and their keys.
fn side(keys: ArrayRef) -> RecordBatch {
    let rows: ArrayRef = Arc::new(Int32Array::from_iter_values(0..keys.len() as i32));
    RecordBatch::try_from_iter_with_nullable([("row", rows, false), ("k", keys, true)]).unwrap()
}

/// Returns all pairs of rows that satisfy `text` according to DataFusion, evaluated by nested
/// loops.
fn by_predicate(text: &str, left: &RecordBatch, right: &RecordBatch) -> Pairs {
    let sql = Sql::new(("a", left.schema_ref()), ("b", right.schema_ref()), 0).unwrap();
    let expr = sql.prepare(sql.parse(text).unwrap()).unwrap();
    let (lefts, rights) = (left.num_rows() as i32, right.num_rows() as i32);
    let pairs: Pairs = (0..lefts).flat_map(|l| (0..rights).map(move |r| (l, r))).collect();
    let rows = [
        Int32Array::from_iter_values(pairs.iter().map(|pair| pair.0)),
        Int32Array::from_iter_values(pairs.iter().map(|pair| pair.1)),
    ];
    let columns: [ArrayRef; 2] =
        [take(left.column(1), &rows[0], None).unwrap(), take(right.column(1), &rows[1], None).unwrap()];
    let [l, r] = columns;
    let candidates = RecordBatch::try_from_iter_with_nullable([("l", l, true), ("r", r, true)]).unwrap();
    let predicate = sql.physical(&expr, &[(Side::Left, 1), (Side::Right, 1)]).unwrap();
    let kept = predicate.evaluate(&candidates).unwrap().into_array(pairs.len()).unwrap();
    let kept = kept.as_boolean();
    pairs.into_iter().enumerate().filter(|&(at, _)| kept.is_valid(at) && kept.value(at)).map(|(_, pair)| pair).collect()
}

fn by_hash(left: &RecordBatch, right: &RecordBatch) -> Pairs {
    let config = HashConfig::new(Partitions::at_least(1));
    let keys = |batch: &RecordBatch| Keys::new(batch.schema_ref(), &[1], false).unwrap();
    let build = BuildSide::prepare(keys(left), vec![left.clone()], &config).unwrap();
    let format = Arc::new(FragmentFormat::new(keys(right), config.partitions).unwrap());
    let mut pairs = Pairs::new();
    for fragment in Fragment::prepare(&format, vec![right.clone()], 1, 1 << 20).unwrap() {
        let mut found = Collect::default();
        for morsel in fragment.morsels(1) {
            build.probe(&fragment, &morsel, &mut found).unwrap();
        }
        pairs.extend(found.numbers(build.batch(), fragment.batch()));
    }
    sorted(pairs)
}

fn by_merge(condition: &MergeCondition, left: &RecordBatch, right: &RecordBatch) -> Pairs {
    let join = MergeJoin::try_new(condition, left.schema_ref(), right.schema_ref()).unwrap();
    let build = join.prepare_build(vec![left.clone()], 1).unwrap();
    let mut pairs = Pairs::new();
    for fragment in join.prepare_probe(vec![right.clone()], 1000, 1).unwrap() {
        let (mut found, rows) = (Collect::default(), 0..fragment.num_rows() as u32);
        join.probe(&build, &join.fragment(&fragment).unwrap(), rows, Wanted::All, &mut found).unwrap();
        pairs.extend(found.numbers(build.batch(), &fragment));
    }
    sorted(pairs)
}

/// Returns both zeros, and NaNs of both signs and with other bits.
fn special() -> Vec<Option<f64>> {
    let other = f64::from_bits(f64::NAN.to_bits() | 1 << 40);
    let values =
        [f64::NAN, -f64::NAN, other, -other, 0.0, -0.0, 1.5, -1.5, f64::MIN_POSITIVE, f64::INFINITY, f64::NEG_INFINITY];
    values.map(Some).into_iter().chain([None]).collect()
}

#[test]
fn special_floats_meet_the_same_whichever_algorithm_runs() {
    let doubles: ArrayRef = Arc::new(Float64Array::from(special()));
    let singles: ArrayRef = Arc::new(Float32Array::from_iter(special().iter().map(|v| v.map(|v| v as f32))));
    let lists = special().into_iter().map(|value| value.map(|value| vec![Some(value)]));
    let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Float64Type, _, _>(lists));
    let field = Arc::new(Field::new("value", DataType::Float64, true));
    let structs: ArrayRef = Arc::new(StructArray::from(vec![(field, Arc::clone(&doubles))]));
    let keys = KeyPair { build: 1, probe: 1 };
    for column in [&doubles, &singles, &lists, &structs] {
        let (left, right) = (side(Arc::clone(column)), side(Arc::clone(column)));
        let (data_type, expected) = (column.data_type(), by_predicate("a.k = b.k", &left, &right));
        assert!(expected.len() >= 10, "{data_type}: {expected:?}");
        assert_eq!(by_hash(&left, &right), expected, "{data_type}, hash");
        let equal = MergeCondition { equal: vec![keys], ..MergeCondition::default() };
        assert_eq!(by_merge(&equal, &left, &right), expected, "{data_type}, merge");
    }
    let zero = Offset::Int(0);
    let bands = [
        ("a.k < b.k", Bound::Unbounded, Bound::Excluded(zero)),
        ("a.k <= b.k", Bound::Unbounded, Bound::Included(zero)),
        ("a.k > b.k", Bound::Excluded(zero), Bound::Unbounded),
        ("a.k >= b.k", Bound::Included(zero), Bound::Unbounded),
    ];
    for column in [doubles, singles] {
        let (left, right) = (side(Arc::clone(&column)), side(Arc::clone(&column)));
        for (text, low, high) in bands {
            let band = MergeCondition { band: Some(Band { keys, low, high }), ..MergeCondition::default() };
            let expected = by_predicate(text, &left, &right);
            assert_eq!(by_merge(&band, &left, &right), expected, "{}, {text}", column.data_type());
        }
    }
}

#[test]
fn the_time_is_the_one_that_is_given() {
    let row = side(Arc::new(Float64Array::from(vec![1.0])));
    for text in ["now() = TIMESTAMP '1970-01-01T00:00:00Z'", "current_date = DATE '1970-01-01'"] {
        assert_eq!(by_predicate(text, &row, &row), [(0, 0)], "{text}");
    }
}

#[test]
fn doubles_and_decimals_are_compared_as_doubles() {
    let doubles = [f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1.25, 1e30].map(Some);
    let left = side(Arc::new(Float64Array::from(doubles.to_vec())));
    // 1.25 and 2.00.
    let decimals = Decimal128Array::from(vec![125, 200]).with_precision_and_scale(10, 2).unwrap();
    let right = side(Arc::new(decimals));
    assert_eq!(by_predicate("a.k = b.k", &left, &right), [(3, 0)]);
    assert_eq!(by_predicate("b.k = a.k", &left, &right), [(3, 0)]);
    assert_eq!(by_predicate("a.k < b.k", &left, &right), [(1, 0), (1, 1), (3, 1)]);
    assert_eq!(by_predicate("NOT a.k <= b.k + 1", &left, &right).len(), 6);
    assert_eq!(by_predicate("a.k BETWEEN b.k AND b.k + 1", &left, &right), [(3, 0)]);
    assert_eq!(by_predicate("b.k IN (a.k)", &left, &right), [(3, 0)]);
}
