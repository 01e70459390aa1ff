use std::borrow::Cow;

use std::sync::Arc;

use arrow::array::{Float64Array, Int64Array, StringArray};

use super::*;

fn answer(names: &[Option<&str>], counts: &[i64], shares: &[Option<f64>]) -> Answer {
    let columns: [(&str, ArrayRef); 3] = [
        ("name", Arc::new(StringArray::from(names.to_vec()))),
        ("count", Arc::new(Int64Array::from(counts.to_vec()))),
        ("share", Arc::new(Float64Array::from(shares.to_vec()))),
    ];
    let batch = RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true)));
    Answer(batch.expect("columns of one length"))
}

fn difference(left: &Answer, right: &Answer, by: &'static [usize]) -> Option<String> {
    left.difference(right, &Order { by: by.into(), cut: None }).expect("comparable")
}

#[test]
fn order_counts_only_in_the_columns_it_is_by() {
    let left = answer(&[Some("a"), Some("b")], &[1, 1], &[Some(0.5), None]);
    let right = answer(&[Some("b"), Some("a")], &[1, 1], &[None, Some(0.5)]);
    assert_eq!(difference(&left, &right, &[]), None);
    assert_eq!(difference(&left, &right, &[1]), None);
    let found = difference(&left, &right, &[0]).expect("another order");
    assert!(found.contains("order"), "{found}");
}

#[test]
fn floats_may_differ_a_little() {
    let left = answer(&[Some("a"), None], &[1, 2], &[Some(0.1 + 0.2), Some(f64::NAN)]);
    let right = answer(&[None, Some("a")], &[2, 1], &[Some(f64::NAN), Some(0.3)]);
    assert_eq!(difference(&left, &right, &[]), None);
    let right = answer(&[None, Some("a")], &[2, 1], &[Some(f64::NAN), Some(0.300001)]);
    assert!(difference(&left, &right, &[]).is_some());
}

#[test]
fn rows_are_a_multiset() {
    let left = answer(&[Some("a"), Some("a"), Some("b")], &[1; 3], &[None; 3]);
    let right = answer(&[Some("a"), Some("b"), Some("b")], &[1; 3], &[None; 3]);
    assert_eq!(difference(&left, &right, &[]), Some("[a, 1, ] and [b, 1, ]".into()));
}

#[test]
fn nulls_values_counts_and_columns_differ() {
    let left = answer(&[None], &[1], &[None]);
    assert!(difference(&left, &answer(&[Some("")], &[1], &[None]), &[]).is_some());
    assert!(difference(&left, &answer(&[None], &[2], &[None]), &[]).is_some());
    assert!(difference(&left, &answer(&[None], &[1], &[Some(0.0)]), &[]).is_some());
    assert_eq!(difference(&left, &answer(&[], &[], &[]), &[]), Some("1 row and 0 rows".into()));
    let fewer = Answer(left.0.project(&[0, 1]).expect("two columns"));
    assert!(difference(&left, &fewer, &[]).is_some());
}

#[test]
fn floats_alone_are_compared() {
    let floats = |shares: &[Option<f64>]| {
        let all = answer(&vec![None; shares.len()], &vec![0; shares.len()], shares);
        Answer(all.0.project(&[2]).expect("the last column"))
    };
    assert_eq!(difference(&floats(&[Some(1.0), Some(2.0)]), &floats(&[Some(2.0), Some(1.0)]), &[]), None);
    assert!(difference(&floats(&[Some(1.0)]), &floats(&[Some(2.0)]), &[0]).is_some());
}

#[test]
fn of_rows_that_tie_at_a_cut_only_the_order_is_compared() {
    let left = answer(&[Some("a"), Some("b"), Some("c")], &[3, 2, 2], &[None; 3]);
    let right = answer(&[Some("a"), Some("b"), Some("d")], &[3, 2, 2], &[None; 3]);
    let cut = |by: &'static [usize], limit, offset| {
        left.difference(&right, &Order { by: by.into(), cut: Some(RowLimit { limit, offset }) }).expect("comparable")
    };
    // The third row was chosen among those with a count of 2.
    assert_eq!(cut(&[1], 3, 0), None);
    // The answer has fewer rows than the limit: nothing was cut off.
    assert!(cut(&[1], 4, 0).is_some());
    // Without an order, no row is determined.
    assert_eq!(cut(&[], 3, 0), None);
    assert!(cut(&[0], 3, 0).is_some_and(|found| found.contains("order")), "the names differ");
    assert!(difference(&left, &right, &[1]).is_some(), "nothing is cut off");
}

#[test]
fn of_rows_that_tie_with_skipped_ones_only_the_order_is_compared() {
    let left = answer(&[Some("a"), Some("b"), Some("c")], &[3, 3, 2], &[None; 3]);
    let right = answer(&[Some("x"), Some("b"), Some("c")], &[3, 3, 2], &[None; 3]);
    let cut = |right: &Answer, offset| {
        left.difference(right, &Order { by: Cow::Borrowed(&[1]), cut: Some(RowLimit { limit: 10, offset }) })
            .expect("comparable")
    };
    assert_eq!(cut(&right, 5), None);
    assert!(cut(&right, 0).is_some(), "nothing was skipped");
    let last = answer(&[Some("a"), Some("b"), Some("x")], &[3, 3, 2], &[None; 3]);
    assert!(cut(&last, 5).is_some(), "the last row is determined");
    let empty = answer(&[], &[], &[]);
    assert_eq!(
        empty
            .difference(&empty, &Order { by: Cow::Borrowed(&[1]), cut: Some(RowLimit { limit: 1, offset: 1 }) })
            .expect("none"),
        None
    );
}
