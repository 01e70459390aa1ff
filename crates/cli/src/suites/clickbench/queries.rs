//! The 43 queries.

use std::borrow::Cow;

use crate::comparison::{Cut, Order, Query};

/// The number of the last query.
pub const LAST: u8 = 43;

/// The queries, one a line.
const TEXT: &str = include_str!("queries.sql");

/// The queries with a witness: another query whose answers are compared. Queries 18, 32 and 33
/// choose any ten of their groups; their witness sums up all of them. Query 25 does not return the
/// time by which it is ordered; its witness does.
static WITNESSES: [(u8, &str, &[usize]); 4] = [
    (18, include_str!("witnesses/q18.sql"), &[]),
    (25, include_str!("witnesses/q25.sql"), &[1]),
    (32, include_str!("witnesses/q32.sql"), &[]),
    (33, include_str!("witnesses/q33.sql"), &[]),
];

/// Returns the query with a number from 1 to [`LAST`].
pub fn get(number: u8) -> Option<Query> {
    let index = usize::from(number).checked_sub(1)?;
    let sql = TEXT.lines().filter(|line| !line.starts_with("--")).nth(index)?;
    Some(Query {
        number,
        sql: sql.trim_end_matches(';').into(),
        order: Order { by: Cow::Borrowed(ORDERED_BY.get(index)?), cut: cut(sql) },
        witness: witness(number),
    })
}

fn witness(number: u8) -> Option<(Cow<'static, str>, Order)> {
    let (_, sql, by) = WITNESSES.iter().find(|witness| witness.0 == number)?;
    Some((Cow::Borrowed(sql), Order { by: Cow::Borrowed(by), cut: cut(sql) }))
}

/// Returns the `LIMIT` and `OFFSET` at the end of a query.
fn cut(sql: &str) -> Option<Cut> {
    let number = |word: &str| sql.rsplit_once(word)?.1.split([' ', ';', '\n']).next()?.parse().ok();
    Some(Cut { limit: number(" LIMIT ")?, offset: number(" OFFSET ").unwrap_or(0) })
}

/// The columns by which each answer is ordered, by position. Queries 25 and 27 are ordered by a
/// time that they do not return; of 27, the order of its only column is determined all the same.
static ORDERED_BY: [&[usize]; LAST as usize] = [
    &[],
    &[],
    &[],
    &[],
    &[],
    &[],
    &[],
    &[1],
    &[1],
    &[2],
    &[1],
    &[2],
    &[1],
    &[1],
    &[2],
    &[1],
    &[2],
    &[],
    &[3],
    &[],
    &[],
    &[2],
    &[3],
    &[4],
    &[],
    &[0],
    &[0],
    &[1],
    &[1],
    &[],
    &[2],
    &[2],
    &[2],
    &[1],
    &[2],
    &[4],
    &[1],
    &[1],
    &[1],
    &[5],
    &[2],
    &[2],
    &[0],
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_find_their_queries() {
        for number in 1..=LAST {
            let query = get(number).expect("a query");
            assert_eq!(query.number, number);
            assert!(query.sql.starts_with("SELECT ") && query.sql.contains(" FROM hits"), "{}", query.sql);
        }
        assert!(get(0).is_none() && get(LAST + 1).is_none());
        assert!(get(30).expect("a query").sql.contains("\"ResolutionWidth\" + 89"), "the one with 90 sums");
    }

    #[test]
    fn ordered_queries_say_so() {
        for query in (1..=LAST).filter_map(get) {
            let is_ordered = query.sql.contains(" ORDER BY ") && query.number != 25;
            assert_eq!(is_ordered, !query.order.by.is_empty(), "query {}", query.number);
            assert_eq!(query.sql.contains(" LIMIT "), query.order.cut.is_some(), "query {}", query.number);
        }
    }

    #[test]
    fn limits_and_offsets_are_read() {
        let cut = |number| get(number).and_then(|query| query.order.cut).map(|cut| (cut.limit, cut.offset));
        assert_eq!(cut(1), None);
        assert_eq!(cut(18), Some((10, 0)));
        assert_eq!(cut(28), Some((25, 0)));
        assert_eq!(cut(42), Some((10, 10_000)));
        assert_eq!(cut(43), Some((10, 1_000)));
        let (_, order) = get(25).and_then(|query| query.witness).expect("a witness");
        assert_eq!((&order.by[..], order.cut.map(|cut| cut.limit)), (&[1][..], Some(10)));
    }
}
