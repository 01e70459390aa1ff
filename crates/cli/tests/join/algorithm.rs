//! The choice between hash and merge for equal columns.

use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;

use crate::{support::Annulus, tables::rows_of_files};

/// Twenty times as many items as orders, both sorted by key, and both in another order.
fn inputs() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |rows: u64, order: &str, file: &str| {
        let query = format!("SELECT value AS id, value * 3 AS n FROM generate_series(1, {rows}) ORDER BY {order}");
        Annulus::new(["sql", &query, "--output", file]).at(folder.path()).succeeds();
    };
    for (order, name) in [("value", "sorted"), ("value * 7919 % 100003", "shuffled")] {
        write(200_000, order, &format!("items-{name}.parquet"));
        write(10_000, order, &format!("orders-{name}.parquet"));
    }
    folder
}

fn plan(folder: &Path, order: &str, options: &[&str]) -> Value {
    let inputs = [format!("i=items-{order}.parquet"), format!("o=orders-{order}.parquet")];
    let join = ["join", &inputs[0], &inputs[1], "--local", "2", "--threads", "1", "--json"];
    let done = Annulus::new(join.into_iter().chain(options.iter().copied())).at(folder).succeeds();
    serde_json::from_str(&done.stdout).expect("JSON")
}

#[test]
fn sorted_inputs_are_merged_and_others_hashed() {
    let folder = inputs();
    let explain = |order, options: &[&str]| plan(folder.path(), order, &[options, &["--explain"]].concat());
    for (order, algorithm, reason) in [
        ("sorted", "merge", "it is expected to take less time than a hash join"),
        ("shuffled", "hash", "a merge join is not expected to take less time"),
    ] {
        let plan = explain(order, &["--on", "id"]);
        assert_eq!((&plan["algorithm"], &plan["algorithm_reason"]), (&algorithm.into(), &reason.into()), "{plan}");
        let total = |name: &str| {
            let cost = &plan["algorithm_costs"][name];
            cost["setup_ms"].as_f64().expect("a number") + cost["join_ms"].as_f64().expect("a number")
        };
        assert_eq!(total("merge") < total("hash"), algorithm == "merge", "{plan}");
        // The costs are shown, whatever the user asks for.
        let asked = explain(order, &["--on", "id", "--algorithm", "hash"]);
        assert_eq!((&asked["algorithm"], &asked["algorithm_reason"]), (&"hash".into(), &"as asked for".into()));
        assert_eq!(asked["algorithm_costs"], plan["algorithm_costs"]);
    }
    // An expression is not known to be sorted, and a band has no hash join.
    let computed = explain("sorted", &["--where", "i.id + 1 = o.id"]);
    assert_eq!(computed["algorithm"], "hash", "{computed}");
    let band = explain("sorted", &["--where", "i.id BETWEEN o.id AND o.id + 1"]);
    assert_eq!((&band["algorithm"], &band["algorithm_costs"]), (&"merge".into(), &Value::Null), "{band}");
    let text = Annulus::new(["join", "items-sorted.parquet", "orders-sorted.parquet", "--on", "id", "--explain"]);
    let text = text.at(folder.path()).succeeds().stdout;
    assert!(text.contains("cost of hash") && text.contains("cost of merge"), "{text}");
}

#[test]
fn the_answer_does_not_depend_on_the_algorithm() {
    let folder = inputs();
    for order in ["sorted", "shuffled"] {
        let rows = |algorithm: &[&str]| {
            let output = ["--on", "id", "--output", "out", "--overwrite"];
            plan(folder.path(), order, &[&output[..], algorithm].concat());
            rows_of_files(&folder.path().join("out"))
        };
        let chosen = rows(&[]);
        assert_eq!(chosen.len(), 10_000);
        for algorithm in ["hash", "merge"] {
            assert!(rows(&["--algorithm", algorithm]) == chosen, "{algorithm}, {order}");
        }
    }
}
