//! The queries of a benchmark that a command names.

use std::{collections::BTreeSet, str::FromStr};

/// A set of queries of a benchmark, whose numbers are 1 to `LAST`: numbers in ascending order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryList<const LAST: u8>(pub Vec<u8>);

impl<const LAST: u8> QueryList<LAST> {
    /// Returns all queries of the benchmark.
    pub fn all() -> Self {
        Self((1..=LAST).collect())
    }
}

impl<const LAST: u8> FromStr for QueryList<LAST> {
    type Err = String;

    /// Parses numbers and ranges separated by commas: `1,3-5`.
    fn from_str(text: &str) -> Result<Self, String> {
        let number = |part: &str| match part.trim().parse() {
            Ok(query) if (1..=LAST).contains(&query) => Ok(query),
            _ => Err(format!("invalid query '{part}': expected numbers from 1 to {LAST}, such as 1,3-5")),
        };
        let mut queries = BTreeSet::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (number(first)?, number(last)?);
            if first > last {
                return Err(format!("invalid range '{part}': expected {last}-{first}"));
            }
            queries.extend(first..=last);
        }
        Ok(Self(queries.into_iter().collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn query_lists_have_ranges() {
        assert_eq!("1,3-5".parse(), Ok(QueryList::<22>(vec![1, 3, 4, 5])));
        assert_eq!("22, 1 ,1".parse(), Ok(QueryList::<22>(vec![1, 22])));
        assert_eq!("1-22".parse(), Ok(QueryList::<22>::all()));
    }

    #[test]
    fn wrong_query_lists_name_the_part() {
        for (text, named) in
            [("0", "'0'"), ("1,23", "'23'"), ("5-3", "'5-3'"), ("", "''"), ("1,,2", "''"), ("a", "'a'")]
        {
            let error = text.parse::<QueryList<22>>().expect_err(text);
            assert!(error.contains(named), "{text}: {error}");
        }
    }
}
