//! All pairs of types, against the order that DuckDB gives their values.

use std::collections::HashMap;

use annulus_datafusion::config::Joins;
use datafusion::prelude::SessionContext;

use crate::support::{rows, run, session};

/// Columns with the values of another one, in another type of Arrow.
const LIKE: [(&str, &str, &str); 12] = [
    ("text_view", "text", "Utf8View"),
    ("text_large", "text", "LargeUtf8"),
    ("text_dictionary", "text", "Dictionary(Int32, Utf8)"),
    ("blob_view", "blob", "BinaryView"),
    ("long_dictionary", "long", "Dictionary(Int32, Int64)"),
    ("double_dictionary", "double", "Dictionary(Int32, Float64)"),
    ("price_dictionary", "price", "Dictionary(Int32, Decimal128(20, 1))"),
    ("cents_32", "cents", "Decimal32(9, 2)"),
    ("cents_64", "cents", "Decimal64(18, 2)"),
    ("price_256", "price", "Decimal256(40, 1)"),
    ("micros_dictionary", "micros", "Dictionary(Int32, Timestamp(us))"),
    ("days_64", "date", "Date64"),
];

/// Pairs that are compared otherwise than in DuckDB, and why.
const OTHERWISE: [(&[&str], &[&str], &str); 4] = [
    (&["span"], &["span"], "intervals are compared by their months, then days, then nanoseconds"),
    (&["date", "seconds", "millis", "micros"], &["zoned"], "refused: nobody said in which zone the one is"),
    (&["tiny", "small", "int", "long", "utiny", "usmall", "uint", "ulong"], &["bool"], "refused"),
    (&["text"], &["blob"], "texts are compared with bytes as bytes"),
];

struct Column {
    name: &'static str,
    data_type: &'static str,
    values: Vec<&'static str>,
}

fn columns() -> Vec<Column> {
    let lines = include_str!("values.txt").lines().filter(|line| !line.starts_with('#'));
    let mut columns: Vec<Column> = lines
        .map(|line| {
            let [name, _, data_type, values] = line.split(" | ").collect::<Vec<_>>().try_into().expect(line);
            let values = values.split(',').map(|value| value.trim().trim_matches('\'')).collect();
            Column { name, data_type, values }
        })
        .collect();
    for (name, like, data_type) in LIKE {
        let values = columns.iter().find(|column| column.name == like).expect(like).values.clone();
        columns.push(Column { name, data_type, values });
    }
    columns
}

fn plain(name: &str) -> &str {
    LIKE.iter().find(|like| like.0 == name).map_or(name, |like| like.1)
}

/// The order of two values: `<`, `=` or `>`, by the places of the values. `None` for a refusal.
type Orders = HashMap<(&'static str, &'static str), Option<Vec<Vec<char>>>>;

fn orders() -> Orders {
    let order = |line: &'static str| {
        let mut words = line.split(' ');
        let names = (words.next().expect(line), words.next().expect(line));
        let words: Vec<_> = words.filter(|&word| word != "exact").collect();
        (names, (words != ["error"]).then(|| words.iter().map(|word| word.chars().collect()).collect()))
    };
    include_str!("orders.txt").lines().map(order).collect()
}

/// Returns what DuckDB says of two columns, in either order.
fn expected(orders: &Orders, left: &Column, right: &Column) -> Option<Vec<Vec<char>>> {
    let (a, b) = (plain(left.name), plain(right.name));
    if let Some(found) = orders.get(&(a, b)) {
        return found.clone();
    }
    let found = orders.get(&(b, a)).unwrap_or_else(|| panic!("no line of {a} and {b}")).as_ref()?;
    let flipped = |c: &char| match c {
        '<' => '>',
        '>' => '<',
        equal => *equal,
    };
    Some((0..left.values.len()).map(|place| found.iter().map(|row| flipped(&row[place])).collect()).collect())
}

fn is_otherwise(left: &Column, right: &Column) -> bool {
    let (a, b) = (plain(left.name), plain(right.name));
    let is = |a: &str, b: &str| OTHERWISE.iter().any(|(left, right, _)| left.contains(&a) && right.contains(&b));
    is(a, b) || is(b, a)
}

async fn tables(joins: Joins, columns: &[Column]) -> SessionContext {
    let context = session(joins);
    let most = columns.iter().map(|column| column.values.len()).max().expect("columns");
    let row = |place: usize| {
        let value = |column: &Column| column.values.get(place).map_or("NULL".to_owned(), |value| format!("'{value}'"));
        format!("({place}, {})", columns.iter().map(value).collect::<Vec<_>>().join(", "))
    };
    let values = (0..most).map(row).collect::<Vec<_>>().join(", ");
    let names = columns.iter().map(|column| format!("\"{}\"", column.name)).collect::<Vec<_>>().join(", ");
    let cast = |Column { name, data_type, .. }: &Column| {
        let first = columns.iter().find(|column| column.name == plain(name)).map_or(*data_type, |like| like.data_type);
        format!("arrow_cast(arrow_cast(\"{name}\", '{first}'), '{data_type}') AS \"{name}\"")
    };
    let casts = columns.iter().map(cast).collect::<Vec<_>>().join(", ");
    let table = format!("CREATE TABLE t AS SELECT i, {casts} FROM (VALUES {values}) AS v (i, {names})");
    run(&context, &[&table]).await;
    context
}

/// Returns the pairs of places that a condition selects, of those with these orders.
fn selected(orders: &[Vec<char>], is_wanted: fn(char) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    for (left, row) in orders.iter().enumerate() {
        let wanted = row.iter().enumerate().filter(|(_, order)| is_wanted(**order));
        found.extend(wanted.map(|(right, _)| format!("{left},{right}")));
    }
    found.sort_unstable();
    found
}

/// A condition on `$l` and `$r`, and which orders of the two satisfy it.
type Condition = (&'static str, fn(char) -> bool);

const CONDITIONS: [Condition; 5] = [
    ("$l = $r", |order| order == '='),
    ("$l < $r", |order| order == '<'),
    ("$l <= $r", |order| order != '>'),
    ("$l BETWEEN $r AND $r", |order| order == '='),
    ("$l IN ($r)", |order| order == '='),
];

/// Checks columns with `of`, in the session `context`.
async fn check(context: &SessionContext, way: &str, left: &Column, all: &[Column]) {
    let orders = orders();
    for right in all.iter().filter(|right| !is_otherwise(left, right)) {
        let expected = expected(&orders, left, right);
        for (condition, is_wanted) in CONDITIONS {
            let condition = condition.replace("$l", &format!("l.\"{}\"", left.name));
            let condition = condition.replace("$r", &format!("r.\"{}\"", right.name));
            let query = way.replace("$c", &condition);
            let found = rows(context, &query).await;
            match (&expected, found) {
                (Some(expected), Ok(found)) => assert_eq!(found, selected(expected, is_wanted), "{query}"),
                // DataFusion finds no type when it plans a column that compares decimals of more than 38 digits.
                (Some(_), Err(error)) if way != JOIN && error.contains("Cannot infer common argument type") => {
                    let decimals = error.matches("Decimal").count();
                    assert!(decimals >= 2, "{query}: {error}");
                }
                (Some(_), Err(error)) => panic!("{query}: {error}"),
                (None, Ok(found)) => panic!("{query} is not refused, but gives {found:?}"),
                (None, Err(_)) => {}
            }
        }
    }
}

async fn check_all(joins: Joins, way: &str) {
    let columns = columns();
    let context = tables(joins, &columns).await;
    for left in &columns {
        check(&context, way, left, &columns).await;
    }
}

const JOIN: &str = "SELECT l.i, r.i FROM t l JOIN t r ON $c";

#[tokio::test]
async fn all_pairs_in_joins_of_annulus() {
    check_all(Joins::Always, JOIN).await;
}

#[tokio::test]
async fn all_pairs_in_joins_of_datafusion() {
    check_all(Joins::Never, JOIN).await;
}

#[tokio::test]
async fn all_pairs_in_filters() {
    // The limit keeps the condition out of the join.
    let filter = "SELECT i, j FROM (SELECT l.i, r.i AS j, $c AS kept FROM t l CROSS JOIN t r LIMIT 1000) WHERE kept";
    check_all(Joins::Auto, filter).await;
}

#[tokio::test]
async fn intervals_are_compared_by_months_then_days_then_nanoseconds() {
    let columns = columns();
    let context = tables(Joins::Always, &columns).await;
    let found = rows(&context, "SELECT l.span, r.span FROM t l JOIN t r ON l.span < r.span").await;
    let found = found.expect("intervals");
    assert_eq!(found.len(), 6, "{found:?}");
}
