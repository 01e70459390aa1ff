//! Random joins, whose rows are compared with those of unmodified DataFusion.
//!
//! `ANNULUS_JOINS` sets their number (16).

use std::path::Path;

use datafusion::prelude::{CsvReadOptions, ParquetReadOptions, SessionContext};
use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};

use crate::{
    seeds,
    support::Annulus,
    tables::{Shape, rows_of, rows_of_files, write_csv, write_parquet},
};

/// The names of the join types in the command and in DataFusion's SQL.
const TYPES: [(&str, &str); 8] = [
    ("inner", "INNER"),
    ("left", "LEFT"),
    ("right", "RIGHT"),
    ("full", "FULL"),
    ("semi", "LEFT SEMI"),
    ("anti", "LEFT ANTI"),
    ("right-semi", "RIGHT SEMI"),
    ("right-anti", "RIGHT ANTI"),
];

const KEYS: [&[(&str, &str)]; 8] = [
    &[],
    &[],
    &[("k", "k")],
    &[("k", "k")],
    &[("g", "g")],
    &[("k", "k"), ("g", "g")],
    &[("k", "x")],
    &[("x", "t"), ("g", "name")],
];

/// Bands of integers and times; any host can sort by their keys.
const BANDS: [&str; 7] = [
    "a.t BETWEEN b.t - 5 AND b.t + 5",
    "b.t BETWEEN a.t AND a.t + 3",
    "a.t - b.t < 4 AND a.t >= b.t - 2",
    "a.t > b.t - 7 AND a.t < b.t",
    "a.x BETWEEN b.x - 1 AND b.x + 1",
    "a.ts BETWEEN b.ts - INTERVAL '5 seconds' AND b.ts + INTERVAL '5 seconds'",
    "b.ts >= a.ts AND b.ts < a.ts + INTERVAL '1 minute'",
];

const OTHERS: [&str; 19] = [
    "a.f BETWEEN b.f - 0.5 AND b.f + 0.5",
    "b.f <= a.f + 0.1 AND b.f >= a.f - 0.3",
    "a.f - 0.1 <= b.f",
    "a.t < b.t",
    "a.t <> b.t",
    "a.ts >= b.ts",
    "a.f > b.f",
    "a.g <= b.g",
    "a.x + b.x > 10",
    "a.name LIKE b.pattern",
    "a.x * 2 = b.x + 1",
    "(a.k = b.k OR a.t > b.t + 20)",
    "(a.name IS NULL OR b.x > 2)",
    "(a.g IS NOT DISTINCT FROM b.g)",
    "(a.k IS DISTINCT FROM b.k)",
    "coalesce(a.x, b.x) > 3",
    "NOT (a.t = b.t)",
    "a.g || 'b' = b.name",
    "CASE WHEN a.x > 5 THEN a.t < b.t ELSE a.k = b.k END",
];

const ALONE: [&str; 8] =
    ["a.x > 3", "b.name IS NOT NULL", "b.x % 3 = 0", "a.g IN ('a', 'ab')", "a.f IS NULL", "b.t < 0", "1 = 1", "NULL"];

/// Lists of expressions of both sides, of the left one, and of the right one.
const SELECTS: [&[&str]; 3] = [
    &[
        "b.name AS n, a.k",
        "a.*, b.x * 2 AS double",
        "coalesce(a.k, b.k) AS k, a.t - b.t AS apart",
        "b.k IS NULL AS lone, a.g || b.g AS g, b.ts",
        "a.f * 2 AS f, 1 AS one, upper(b.name) AS u",
        "CASE WHEN a.x IS NULL THEN 'none' ELSE b.pattern END AS c",
        "1 AS one",
    ],
    &["a.k, a.x * 2 AS double, name", "a.*", "1 AS one", "g IS NULL AS n, a.f", "*"],
    &["b.pattern, b.k", "b.*", "upper(name) AS u, 'x' AS x", "b.x > 3 AS large"],
];

/// A random join.
struct Case {
    join: (&'static str, &'static str),
    on: &'static [(&'static str, &'static str)],
    predicate: String,
    select: Option<&'static str>,
    options: Vec<String>,
}

impl Case {
    fn random(rng: &mut StdRng, seed: u64) -> Self {
        let join = TYPES[seed as usize % TYPES.len()];
        let on = *KEYS.choose(rng).expect("one");
        let mut predicates: Vec<&str> = Vec::new();
        let has_band = rng.random_bool(0.5);
        if has_band {
            predicates.extend(BANDS.choose(rng));
        }
        if rng.random_bool(0.4) || on.is_empty() && !has_band {
            predicates.extend(OTHERS.choose(rng));
        }
        if rng.random_bool(0.3) {
            predicates.extend(ALONE.choose(rng));
        }
        let predicate = predicates.join(" AND ");
        let options = Self::options(rng, !on.is_empty(), has_band);
        let lists = match join.0 {
            "semi" | "anti" => SELECTS[1],
            "right-semi" | "right-anti" => SELECTS[2],
            _ => SELECTS[0],
        };
        let select = if rng.random_bool(0.5) { lists.choose(rng).copied() } else { None };
        Self { join, on, predicate, select, options }
    }

    fn options(rng: &mut StdRng, has_keys: bool, has_band: bool) -> Vec<String> {
        if rng.random_bool(0.3) {
            // A single host, which runs a query of DataFusion unless a ring is asked for.
            return vec![format!("--threads={}", rng.random_range(1..=3))];
        }
        let mut options = vec![format!("--local={}", rng.random_range(1..=6)), "--timeout=60".to_owned()];
        options.push(format!("--revolutions={}", rng.random_range(1..=3)));
        options.push(format!("--threads={}", rng.random_range(1..=2)));
        let mut algorithms = vec!["loops"];
        algorithms.extend(has_keys.then_some("hash"));
        algorithms.extend((has_keys || has_band).then_some("merge"));
        if rng.random_bool(0.6) {
            options.push(format!("--algorithm={}", algorithms.choose(rng).expect("one")));
        }
        if rng.random_bool(0.5) {
            options.push(format!("--rotate={}", ["left", "right"].choose(rng).expect("one")));
        }
        if rng.random_bool(0.3) {
            options.push("--fragment-size=4K".to_owned());
        }
        options
    }

    /// Adds the option for a key filter, if one is possible.
    fn with_key_filter(mut self, rng: &mut StdRng, folder: &Path) -> Self {
        if rng.random_bool(0.7) {
            let form = ["never", "bloom", "exact"].choose(rng).expect("one");
            self.options.push(format!("--key-filter={form}"));
            let explain = self.arguments().into_iter().chain(["--explain".to_owned()]);
            if let Err(refused) = Annulus::new(explain).at(folder).tries() {
                assert!(refused.stderr.contains("--key-filter: not possible"), "{}", refused.stderr);
                self.options.pop();
            }
        }
        self
    }

    fn arguments(&self) -> Vec<String> {
        let mut arguments: Vec<String> =
            ["join", "a", "b", "--output", "out", "--type", self.join.0].map(str::to_owned).into();
        if !self.on.is_empty() {
            let keys: Vec<_> = self.on.iter().map(|(a, b)| format!("{a}={b}")).collect();
            arguments.extend(["--on".to_owned(), keys.join(",")]);
        }
        if !self.predicate.is_empty() {
            arguments.extend(["--where".to_owned(), self.predicate.clone()]);
        }
        arguments.extend(self.select.into_iter().flat_map(|list| ["--select".to_owned(), list.to_owned()]));
        arguments.extend_from_slice(&self.options);
        arguments
    }

    fn query(&self) -> String {
        let equal = self.on.iter().map(|(a, b)| format!("a.{a} = b.{b}"));
        let predicate = (!self.predicate.is_empty()).then(|| format!("({})", self.predicate));
        let condition: Vec<_> = equal.chain(predicate).collect();
        let select = self.select.unwrap_or("*");
        format!("SELECT {select} FROM a {} JOIN b ON {}", self.join.1, condition.join(" AND "))
    }
}

/// Writes the tables a and b, and registers them with DataFusion.
async fn write(rng: &mut StdRng, folder: &Path) -> SessionContext {
    let stock = SessionContext::new();
    let is_text = rng.random_bool(0.2);
    for name in ["a", "b"] {
        let path = folder.join(name);
        let shape = if is_text { Shape::of_text(rng) } else { Shape::random(rng) };
        let table = shape.table(rng, name == "a");
        let url = path.to_str().expect("UTF-8").to_owned() + "/";
        if is_text {
            write_csv(&path, &table);
            // With the types of the table: a column of nulls shows none.
            let (schema, options) = (table.schema(), CsvReadOptions::new());
            stock.register_csv(name, &url, options.schema(&schema)).await.expect("a table");
        } else {
            write_parquet(&path, &table, rng.random_range(1..4), *[20, 1000].choose(rng).expect("one"));
            stock.register_parquet(name, &url, ParquetReadOptions::new()).await.expect("a table");
        }
    }
    stock
}

#[tokio::test]
async fn random_joins_are_those_of_datafusion() {
    let mut most = 0;
    for seed in seeds("ANNULUS_JOINS", 16) {
        let mut rng = StdRng::seed_from_u64(seed);
        let folder = tempfile::tempdir().expect("a folder");
        let stock = write(&mut rng, folder.path()).await;
        let case = Case::random(&mut rng, seed).with_key_filter(&mut rng, folder.path());
        let told = format!("seed {seed}: {:?}", case.arguments());
        println!("{told}");
        Annulus::new(case.arguments()).at(folder.path()).succeeds();
        let expected = stock.sql(&case.query()).await.expect("a query").collect().await.expect("rows");
        let expected = rows_of(&expected);
        let found = rows_of_files(&folder.path().join("out"));
        assert!(found == expected, "{told}: {} rows, not {}", found.len(), expected.len());
        most = most.max(found.len());
    }
    assert!(most > 100, "all results were small");
}

/// The rotating relation is read in many waves, once for each revolution. Match bits record which
/// rows have met a partner in an earlier revolution.
#[tokio::test]
async fn sides_of_many_waves_are_joined_as_by_datafusion() {
    let mut rng = StdRng::seed_from_u64(3);
    let (folder, stock) = (tempfile::tempdir().expect("a folder"), SessionContext::new());
    for name in ["a", "b"] {
        let (path, shape) = (folder.path().join(name), Shape { rows: 12_000, keys: 9000, nulls: 0.05, skewed: false });
        write_parquet(&path, &shape.table(&mut rng, name == "a"), 3, 500);
        let url = path.to_str().expect("UTF-8").to_owned() + "/";
        stock.register_parquet(name, &url, ParquetReadOptions::new()).await.expect("a table");
    }
    let on = &[("k", "k")];
    for (join, more) in [
        (TYPES[3], ["--rotate=left", "--local=3", "--revolutions=2", "--threads=2", "--algorithm=hash"]),
        (TYPES[3], ["--rotate=right", "--local=2", "--revolutions=3", "--threads=1", "--algorithm=merge"]),
        (TYPES[7], ["--rotate=right", "--local=1", "--revolutions=2", "--threads=2", "--algorithm=hash"]),
    ] {
        let options =
            more.map(str::to_owned).into_iter().chain(["--fragment-size=4K", "--overwrite"].map(str::to_owned));
        let case = Case { join, on, predicate: "a.t < b.t".to_owned(), select: None, options: options.collect() };
        Annulus::new(case.arguments()).at(folder.path()).succeeds();
        let expected = stock.sql(&case.query()).await.expect("a query").collect().await.expect("rows");
        let (expected, found) = (rows_of(&expected), rows_of_files(&folder.path().join("out")));
        assert!(found == expected, "{:?}: {} rows, not {}", case.arguments(), found.len(), expected.len());
    }
}
