//! The 22 queries, with the validation parameters of the specification.

use std::borrow::Cow;

use crate::comparison::{self, Order};

/// The number of the last query.
pub const LAST: u8 = 22;

/// A query of the benchmark.
pub struct Query {
    /// The number, from 1.
    number: u8,
    text: &'static str,
    /// The columns by which the answer is ordered, by position. Rows with equal values in them may
    /// come in any order. At a `LIMIT`, a row that ties with the last one would count as a
    /// difference.
    ordered_by: &'static [usize],
}

impl Query {
    /// Returns the query with a number from 1 to 22.
    pub fn get(number: u8) -> Option<&'static Self> {
        QUERIES.get(usize::from(number).checked_sub(1)?)
    }

    /// Returns the query for tables of a scale factor.
    pub fn for_scale(&self, scale: f64) -> comparison::Query {
        let order = Order { by: Cow::Borrowed(self.ordered_by), cut: None };
        comparison::Query { number: self.number, sql: self.sql(scale), order, witness: None }
    }

    /// Returns the SQL text for tables of a scale factor; only one query depends on it.
    fn sql(&self, scale: f64) -> Cow<'static, str> {
        if self.text.contains(FRACTION) {
            // Enough digits for scale factors up to 100000.
            Cow::Owned(self.text.replace(FRACTION, &format!("{:.10}", 0.0001 / scale)))
        } else {
            Cow::Borrowed(self.text)
        }
    }
}

/// The placeholder in query 11 for the fraction of the total value.
const FRACTION: &str = ":fraction";

macro_rules! query {
    ($number:literal, $file:literal, $ordered_by:expr) => {
        Query { number: $number, text: include_str!(concat!("queries/", $file, ".sql")), ordered_by: $ordered_by }
    };
}

static QUERIES: [Query; 22] = [
    query!(1, "q01", &[0, 1]),
    query!(2, "q02", &[0, 2, 1, 3]),
    query!(3, "q03", &[1, 2]),
    query!(4, "q04", &[0]),
    query!(5, "q05", &[1]),
    query!(6, "q06", &[]),
    query!(7, "q07", &[0, 1, 2]),
    query!(8, "q08", &[0]),
    query!(9, "q09", &[0, 1]),
    query!(10, "q10", &[2]),
    query!(11, "q11", &[1]),
    query!(12, "q12", &[0]),
    query!(13, "q13", &[1, 0]),
    query!(14, "q14", &[]),
    query!(15, "q15", &[0]),
    query!(16, "q16", &[3, 0, 1, 2]),
    query!(17, "q17", &[]),
    query!(18, "q18", &[4, 3]),
    query!(19, "q19", &[]),
    query!(20, "q20", &[0]),
    query!(21, "q21", &[1, 0]),
    query!(22, "q22", &[0]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_find_their_queries() {
        for number in 1..=22 {
            assert_eq!(Query::get(number).map(|query| query.number), Some(number));
        }
        assert!(Query::get(0).is_none() && Query::get(23).is_none());
    }

    #[test]
    fn the_fraction_follows_the_scale() {
        let query = Query::get(11).expect("query 11");
        assert!(query.sql(1.0).contains("* 0.0001000000"));
        assert!(query.sql(100.0).contains("* 0.0000010000"));
    }

    #[test]
    fn ordered_queries_say_so() {
        for query in &QUERIES {
            assert_eq!(query.text.contains("\norder by"), !query.ordered_by.is_empty(), "query {}", query.number);
        }
    }
}
