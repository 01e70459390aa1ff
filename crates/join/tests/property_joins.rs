//! Every join type, by nested loops and by merge, against the same join pair by pair.

mod support;

use std::ops::Bound;

use annulus_join::{
    Band, CancelToken, JoinType, KeyFilterBuilder, KeyFilterKind, KeyPair, Keys, MergeCondition, Offset, Side,
};
use arrow::{array::AsArray, datatypes::Int32Type};
use proptest::prelude::*;
use support::{
    model::{self, by_role, satisfies},
    run::{LoopFilter, Method, RowFilter, Spread, run},
    values::{Kind, Table, Value},
};

const MOST_ROWS: usize = 40;

fn spread() -> impl Strategy<Value = Spread> {
    let side = prop_oneof![Just(Side::Left), Just(Side::Right)];
    (side, 1..4_usize, 1..4_usize, 1..50_usize, 1..3_usize)
        .prop_map(|(build, hosts, fragments, morsel, threads)| Spread { build, hosts, fragments, morsel, threads })
}

fn join_type() -> impl Strategy<Value = JoinType> {
    prop::sample::select(JoinType::ALL.to_vec())
}

fn offset(kind: Kind) -> BoxedStrategy<Offset> {
    let small = (-3..4_i128).prop_map(Offset::Int);
    if kind.is_float() {
        let floats = vec![0.5, -1.5, 1e300, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
        return prop_oneof![2 => small, 1 => prop::sample::select(floats).prop_map(Offset::Float)].boxed();
    }
    let ends = vec![i128::MAX, i128::MIN, u64::MAX.into(), i64::MIN.into(), 1 << 64, -(1 << 64), 1 << 32];
    prop_oneof![4 => small, 1 => prop::sample::select(ends).prop_map(Offset::Int)].boxed()
}

fn bound(kind: Kind) -> impl Strategy<Value = Bound<Offset>> {
    prop_oneof![Just(Bound::Unbounded), offset(kind).prop_map(Bound::Included), offset(kind).prop_map(Bound::Excluded)]
}

/// Returns perhaps a band of a key of this kind, at this place.
fn band_at(index: usize, kind: Option<Kind>) -> BoxedStrategy<Option<Band>> {
    let keys = KeyPair { build: index, probe: index };
    match kind {
        None => Just(None).boxed(),
        Some(kind) => (bound(kind), bound(kind)).prop_map(move |(low, high)| Some(Band { keys, low, high })).boxed(),
    }
}

/// Generates some equal keys, and perhaps one or two within bands.
fn condition() -> impl Strategy<Value = (Vec<Kind>, MergeCondition)> {
    let equal = prop::collection::vec(prop::sample::select(Kind::ALL.to_vec()), 0..3);
    let band = || prop::option::of(prop::sample::select(Kind::NUMBERS.to_vec()));
    (equal, band(), band(), any::<bool>()).prop_flat_map(|(kinds, band, second, nulls_equal)| {
        let keys = |index: usize| KeyPair { build: index, probe: index };
        let equal: Vec<KeyPair> = (0..kinds.len()).map(keys).collect();
        let places = (kinds.len(), kinds.len() + usize::from(band.is_some()));
        let all: Vec<Kind> = kinds.into_iter().chain(band).chain(second).collect();
        (band_at(places.0, band), band_at(places.1, second)).prop_map(move |(band, second)| {
            (all.clone(), MergeCondition { equal: equal.clone(), nulls_equal, band, high_key: None, second })
        })
    })
}

fn merge_case() -> impl Strategy<Value = (MergeCondition, Table, Table)> {
    condition().prop_flat_map(|(kinds, condition)| {
        (Just(condition), Table::strategy(kinds.clone(), MOST_ROWS), Table::strategy(kinds, MOST_ROWS))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn a_merge_join_gives_what_each_pair_says(
        (condition, left, right) in merge_case(), join in join_type(), spread in spread(), filtered in any::<bool>(),
    ) {
        let matches = |l: i32, r: i32| {
            let (build, probe) = by_role(spread.build, &left.rows[l as usize], &right.rows[r as usize]);
            satisfies(&condition, &left.kinds, build, probe) && (!filtered || model::filter(l, r) == Some(true))
        };
        let expected = model::join(join, &left, &right, matches);
        let filter = filtered.then(|| RowFilter::shared(&left, &right, model::filter));
        let found = run(join, (&left, &right), &Method::Merge(Box::new(condition.clone())), filter, spread);
        prop_assert_eq!(found, expected);
    }
}

proptest! {
    #[test]
    fn nested_loops_give_what_each_pair_says(
        left in Table::strategy(vec![], MOST_ROWS), right in Table::strategy(vec![], MOST_ROWS), join in join_type(),
        spread in spread(), filtered in any::<bool>(),
    ) {
        let matches = |l: i32, r: i32| !filtered || model::filter(l, r) == Some(true);
        let expected = model::join(join, &left, &right, matches);
        let filter = filtered.then(|| RowFilter::shared(&left, &right, model::filter));
        prop_assert_eq!(run(join, (&left, &right), &Method::Loops(None), filter, spread), &expected[..]);
        let condition = filtered.then(|| LoopFilter::shared(spread.build, &left, &right, model::filter));
        prop_assert_eq!(run(join, (&left, &right), &Method::Loops(condition), None, spread), expected);
    }
}

fn filter_case() -> impl Strategy<Value = (MergeCondition, Table, Table)> {
    let kinds = prop::collection::vec(prop::sample::select(Kind::ALL.to_vec()), 1..3);
    (kinds, any::<bool>()).prop_flat_map(|(kinds, nulls_equal)| {
        let equal = (0..kinds.len()).map(|index| KeyPair { build: index, probe: index }).collect();
        let condition = MergeCondition { equal, nulls_equal, ..MergeCondition::default() };
        (Just(condition), Table::strategy(kinds.clone(), MOST_ROWS), Table::strategy(kinds, MOST_ROWS))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    /// A key filter keeps every row that has a partner, and an exact one only those.
    #[test]
    fn a_key_filter_keeps_all_rows_with_a_partner((condition, left, right) in filter_case(), blocks in 1..20_u32) {
        let places: Vec<usize> = condition.equal.iter().map(|keys| keys.build).collect();
        let keys = |table: &Table| Keys::new(&table.batch().schema(), &places, condition.nulls_equal).unwrap();
        let matches = |build: &[Value], probe: &[Value]| satisfies(&condition, &left.kinds, build, probe);
        let has_partner = |row: &Vec<Value>| left.rows.iter().any(|other| matches(other, row));
        let with_partner: Vec<bool> = right.rows.iter().map(has_partner).collect();
        for kind in [KeyFilterKind::Exact, KeyFilterKind::Bloom(blocks)] {
            let mut builder = KeyFilterBuilder::new(kind);
            builder.insert(&keys(&left), &left.batch(), &CancelToken::new()).unwrap();
            let kept = builder.complete().keep(&keys(&right), &right.batch()).unwrap();
            let numbers = kept.column(right.row_column()).as_primitive::<Int32Type>();
            let mut is_kept = vec![false; right.rows.len()];
            numbers.values().iter().for_each(|&number| is_kept[number as usize] = true);
            if kind == KeyFilterKind::Exact {
                prop_assert_eq!(&is_kept, &with_partner);
            }
            prop_assert!(is_kept.iter().zip(&with_partner).all(|(kept, with)| kept | !with), "{:?}", kind);
        }
    }
}
