//! Sums and differences of integers in the condition of a join are whole numbers, whichever operator
//! compares them.

use crate::support::{JOINS, rows, run, session};

const TYPES: [(&str, i128, i128); 8] = [
    ("TINYINT", i8::MIN as i128, i8::MAX as i128),
    ("SMALLINT", i16::MIN as i128, i16::MAX as i128),
    ("INT", i32::MIN as i128, i32::MAX as i128),
    ("BIGINT", i64::MIN as i128, i64::MAX as i128),
    ("TINYINT UNSIGNED", 0, u8::MAX as i128),
    ("SMALLINT UNSIGNED", 0, u16::MAX as i128),
    ("INT UNSIGNED", 0, u32::MAX as i128),
    ("BIGINT UNSIGNED", 0, u64::MAX as i128),
];

type Condition = fn(i128, i128) -> bool;

const CONDITIONS: [(&str, Condition); 11] = [
    ("a.x - b.y BETWEEN -3 AND 3", |x, y| (-3..=3).contains(&(x - y))),
    ("b.y - a.x <= 3", |x, y| y - x <= 3),
    ("a.x - b.y > 2", |x, y| x - y > 2),
    ("a.x BETWEEN b.y - 5 AND b.y + 5", |x, y| (y - 5..=y + 5).contains(&x)),
    ("b.y BETWEEN a.x - 5 AND a.x + 5", |x, y| (x - 5..=x + 5).contains(&y)),
    ("a.x < b.y + 5", |x, y| x < y + 5),
    ("a.x >= b.y - 5", |x, y| x >= y - 5),
    ("a.x + 2 <= b.y - 3", |x, y| x + 2 <= y - 3),
    ("abs(a.x - b.y) <= 3", |x, y| (x - y).abs() <= 3),
    ("a.x + a.x < b.y", |x, y| x + x < y),
    ("a.k = b.k AND a.x - b.y BETWEEN -3 AND 3", |x, y| (-3..=3).contains(&(x - y))),
];

fn values(least: i128, greatest: i128) -> Vec<i128> {
    let mut values = vec![least, least + 2, least + 6, 0, 1, 3, greatest - 6, greatest - 2, greatest];
    values.sort_unstable();
    values.dedup();
    values
}

fn unqualified(condition: &str) -> String {
    condition.replace("a.k = b.k", "k = l").replace("a.", "").replace("b.", "")
}

#[tokio::test]
async fn sums_do_not_wrap_around() {
    for joins in JOINS {
        for (data_type, least, greatest) in TYPES {
            let context = session(joins);
            let values = values(least, greatest);
            let list = values.iter().map(|value| format!("('{value}')")).collect::<Vec<_>>().join(", ");
            let table = |name: &str, column: &str| {
                format!(
                    "CREATE TABLE {name} AS SELECT 1 AS k, CAST(v AS {data_type}) AS {column} \
                     FROM (VALUES {list}, (NULL)) AS t (v)"
                )
            };
            run(&context, &[&table("a", "x"), &table("b", "y")]).await;
            for (condition, holds) in CONDITIONS {
                let pairs = values.iter().flat_map(|x| values.iter().map(move |y| (*x, *y)));
                let mut expected: Vec<_> =
                    pairs.filter(|(x, y)| holds(*x, *y)).map(|(x, y)| format!("{x},{y}")).collect();
                expected.sort_unstable();
                let crossed = "SELECT * FROM a CROSS JOIN (SELECT y, k AS l FROM b) AS b";
                for query in [
                    format!("SELECT a.x, b.y FROM a JOIN b ON {condition}"),
                    format!("SELECT x, y FROM ({crossed} LIMIT 1000) WHERE {}", unqualified(condition)),
                ] {
                    let found = rows(&context, &query).await.unwrap_or_else(|error| panic!("{query}: {error}"));
                    assert_eq!(found, expected, "{joins:?}, {data_type}: {query}");
                }
            }
        }
    }
}

/// The bound of a join stays a bound, on the integers themselves.
#[tokio::test]
async fn bands_of_integers_merge_integers() {
    let context = session(annulus_datafusion::config::Joins::Always);
    run(&context, &["CREATE TABLE a AS SELECT 1 AS x", "CREATE TABLE b AS SELECT 2 AS y"]).await;
    for (condition, band) in [
        ("a.x BETWEEN b.y - 5 AND b.y + 5", "band=x@0 >= y@1 - 5 AND x@0 <= y@1 + 5"),
        ("a.x - b.y <= 3", "band=x@0 - y@1 <= 3"),
    ] {
        let plan = rows(&context, &format!("EXPLAIN SELECT * FROM a JOIN b ON {condition}")).await.expect("a plan");
        assert!(plan.iter().any(|line| line.contains(band)), "{condition}: {plan:?}");
    }
}
