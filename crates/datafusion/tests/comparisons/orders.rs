//! Columns of all types, and the order that DuckDB gives the values of each two. Tests of several crates
//! include this file.
#![allow(dead_code)]

use std::collections::HashMap;

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

pub struct Column {
    pub name: &'static str,
    data_type: &'static str,
    pub values: Vec<&'static str>,
}

impl Column {
    /// Whether DuckDB has the type.
    pub fn is_plain(&self) -> bool {
        plain(self.name) == self.name
    }
}

pub fn columns() -> Vec<Column> {
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
pub type Orders = HashMap<(&'static str, &'static str), Option<Vec<Vec<char>>>>;

pub fn orders() -> Orders {
    let order = |line: &'static str| {
        let mut words = line.split(' ');
        let names = (words.next().expect(line), words.next().expect(line));
        let words: Vec<_> = words.filter(|&word| word != "exact").collect();
        (names, (words != ["error"]).then(|| words.iter().map(|word| word.chars().collect()).collect()))
    };
    include_str!("orders.txt").lines().map(order).collect()
}

/// Returns what DuckDB says of two columns, in either order.
pub fn expected(orders: &Orders, left: &Column, right: &Column) -> Option<Vec<Vec<char>>> {
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

pub fn is_otherwise(left: &Column, right: &Column) -> bool {
    let (a, b) = (plain(left.name), plain(right.name));
    let is = |a: &str, b: &str| OTHERWISE.iter().any(|(left, right, _)| left.contains(&a) && right.contains(&b));
    is(a, b) || is(b, a)
}

/// Returns the query of a table with these columns, and the places of their values in a column `i`.
pub fn table_of(columns: &[Column]) -> String {
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
    format!("SELECT i, {casts} FROM (VALUES {values}) AS v (i, {names})")
}

/// Returns the pairs of places that a condition selects, of those with these orders.
pub fn selected(orders: &[Vec<char>], is_wanted: fn(char) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    for (left, row) in orders.iter().enumerate() {
        let wanted = row.iter().enumerate().filter(|(_, order)| is_wanted(**order));
        found.extend(wanted.map(|(right, _)| format!("{left},{right}")));
    }
    found.sort_unstable();
    found
}

/// A condition on `$l` and `$r`, and which orders of the two satisfy it.
pub type Condition = (&'static str, fn(char) -> bool);

pub const CONDITIONS: [Condition; 5] = [
    ("$l = $r", |order| order == '='),
    ("$l < $r", |order| order == '<'),
    ("$l <= $r", |order| order != '>'),
    ("$l BETWEEN $r AND $r", |order| order == '='),
    ("$l IN ($r)", |order| order == '='),
];
