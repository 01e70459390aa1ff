//! Random joins, whose rows are compared with those of unmodified DataFusion.
//!
//! `ANNULUS_JOINS` sets their number (24).

use std::path::Path;

use datafusion::prelude::{CsvReadOptions, ParquetReadOptions, SessionContext};
use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use tempfile::TempDir;

use crate::{
    seeds,
    support::{
        Annulus, Running,
        workers::{TINY, list, worker},
    },
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

/// Bands of integers and times.
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
    fn random(rng: &mut StdRng, seed: u64, workers: &str) -> Self {
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
        let options = Self::options(rng, workers);
        let lists = match join.0 {
            "semi" | "anti" => SELECTS[1],
            "right-semi" | "right-anti" => SELECTS[2],
            _ => SELECTS[0],
        };
        let select = if rng.random_bool(0.5) { lists.choose(rng).copied() } else { None };
        Self { join, on, predicate, select, options }
    }

    /// Returns where a join runs: in one process, or on workers.
    fn options(rng: &mut StdRng, workers: &str) -> Vec<String> {
        let mut options = vec![format!("--threads={}", rng.random_range(1..=3))];
        if rng.random_bool(0.6) {
            options.extend(TINY.iter().chain(&["--workers", workers]).map(|&text| text.to_owned()));
            let around = ["always", "auto", "never"].choose(rng).expect("one");
            options.extend(["--set".to_owned(), format!("annulus.cyclo_join={around}")]);
        }
        if rng.random_bool(0.3) {
            options.extend(["--set", "datafusion.optimizer.join_reordering=false"].map(str::to_owned));
        }
        options
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
    let (_folder, workers) = workers();
    for seed in seeds("ANNULUS_JOINS", 24) {
        let mut rng = StdRng::seed_from_u64(seed);
        let folder = tempfile::tempdir().expect("a folder");
        let stock = write(&mut rng, folder.path()).await;
        let case = Case::random(&mut rng, seed, &list(&workers));
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

#[tokio::test]
async fn sides_of_many_batches_are_joined_as_by_datafusion() {
    let mut rng = StdRng::seed_from_u64(3);
    let (folder, stock) = (tempfile::tempdir().expect("a folder"), SessionContext::new());
    for name in ["a", "b"] {
        let (path, shape) = (folder.path().join(name), Shape { rows: 12_000, keys: 9000, nulls: 0.05, skewed: false });
        write_parquet(&path, &shape.table(&mut rng, name == "a"), 3, 500);
        let url = path.to_str().expect("UTF-8").to_owned() + "/";
        stock.register_parquet(name, &url, ParquetReadOptions::new()).await.expect("a table");
    }
    let (_folder, workers) = workers();
    let workers = list(&workers);
    let on_workers = ["--workers", &workers, TINY[0], TINY[1]];
    let around = ["--set", "annulus.cyclo_join=always"];
    for join in [TYPES[3], TYPES[7]] {
        let mut expected = None;
        for options in [&["--threads=2"][..], &on_workers, &[&on_workers[..], &around].concat()] {
            let options = options.iter().chain(&["--overwrite"]).map(|&text| text.to_owned()).collect();
            let case = Case { join, on: &[("k", "k")], predicate: "a.t < b.t".to_owned(), select: None, options };
            Annulus::new(case.arguments()).at(folder.path()).succeeds();
            if expected.is_none() {
                let rows = stock.sql(&case.query()).await.expect("a query").collect().await.expect("rows");
                expected = Some(rows_of(&rows));
            }
            let found = rows_of_files(&folder.path().join("out"));
            assert!(Some(&found) == expected.as_ref(), "{:?}: {} rows", case.arguments(), found.len());
        }
    }
}

/// Three workers that read and write everywhere.
fn workers() -> (TempDir, Vec<(Running, String)>) {
    let folder = tempfile::tempdir().expect("a folder");
    let everywhere = ["--allow-read", "/", "--allow-write", "/"];
    let workers = (0..3).map(|_| worker(folder.path(), &everywhere)).collect();
    (folder, workers)
}
