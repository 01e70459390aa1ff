//! Joins with a filter of the stationary keys, which drops rotating rows before they are sent.

use std::{fs, path::Path};

use serde_json::Value;
use tempfile::TempDir;

use crate::{folder::assert_says, support::Annulus, tables::rows_of_files};

const ORDERS: u64 = 18_000;
const ITEMS: u64 = 4 * ORDERS;

/// Orders with prices from 0 to 999, and four items of each.
fn inputs() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |query: &str, file: &str| {
        Annulus::new(["sql", query, "--output", file]).at(folder.path()).succeeds();
    };
    let price = "value * 7919 % 1000 AS o_totalprice";
    let columns = format!(
        "value % {ORDERS} + 1 AS l_orderkey, value AS l_partkey, value % 50 AS l_quantity, \
        'a comment on item ' || cast(value AS varchar) AS l_comment"
    );
    for name in ["orders", "lineitem"] {
        fs::create_dir(folder.path().join(name)).expect("a folder");
    }
    // Each host reads three files of orders, and one of items.
    let rows = |all: u64, parts: u64, part: u64| {
        format!("FROM generate_series({}, {})", all / parts * part + 1, all / parts * (part + 1))
    };
    for part in 0..9 {
        let rows = rows(ORDERS, 9, part);
        write(&format!("SELECT value AS o_orderkey, {price} {rows}"), &format!("orders/{part}.parquet"));
    }
    for part in 0..3 {
        write(&format!("SELECT {columns} {}", rows(ITEMS, 3, part)), &format!("lineitem/{part}.parquet"));
    }
    folder
}

fn join(folder: &Path, options: &[&str]) -> Annulus {
    let join = ["join", "lineitem=lineitem", "orders=orders", "--on", "l_orderkey=o_orderkey"];
    let size = ["--rotate", "left", "--local", "3", "--threads", "1", "--fragment-size", "16K", "--output", "out"];
    Annulus::new(join.into_iter().chain(size).chain(options.iter().copied())).at(folder)
}

/// Returns the report of a join, and its rows.
fn run(folder: &Path, options: &[&str]) -> (Value, Vec<String>) {
    let done = join(folder, &[options, &["--json", "--overwrite"]].concat()).succeeds();
    (serde_json::from_str(&done.stdout).expect("JSON"), rows_of_files(&folder.join("out")))
}

/// Returns the bytes of all fragments that the hosts joined, and of the filter.
fn moved(report: &Value) -> u64 {
    let hosts = report["per_host"].as_array().expect("hosts");
    let bytes = |host: &Value| host["bytes_joined"].as_u64().zip(host["filter_bytes"].as_u64()).expect("numbers");
    hosts.iter().map(bytes).map(|(joined, filter)| joined + filter).sum()
}

/// The join of all items with the 7 % of the orders that are expensive.
#[test]
fn a_filter_reduces_what_rotates_to_a_quarter() {
    let folder = inputs();
    let at = |filter: &str, join: &str| {
        let expensive = ["--where", "orders.o_totalprice >= 930", "--key-filter", filter, "--type", join];
        run(folder.path(), &expensive)
    };
    for join in ["inner", "semi"] {
        let (without, rows) = at("never", join);
        assert_eq!((&without["key_filter"]["form"], &without["rows_dropped"]), (&"none".into(), &0.into()));
        for filter in ["auto", "bloom", "exact"] {
            let (with, same) = at(filter, join);
            assert!(same == rows && !rows.is_empty(), "{filter}, {join}: {} rows, not {}", same.len(), rows.len());
            assert!(4 * moved(&with) <= moved(&without), "{filter}: {with}");
            assert_ne!(with["key_filter"]["form"], "none");
            let (dropped, kept) = (with["rows_dropped"].as_u64().expect("a number"), ITEMS * 7 / 100);
            assert!((ITEMS - 2 * kept..=ITEMS - kept).contains(&dropped), "{with}");
        }
    }
}

#[test]
fn a_filter_that_saves_nothing_is_not_made() {
    let folder = inputs();
    // Each item may have a partner.
    let (report, _) = run(folder.path(), &[]);
    assert_eq!(report["key_filter"]["form"], "none", "{report}");
    assert_eq!(report["key_filter"]["reason"], "it would cost more than it saves");
    // Rotating rows without a partner come out.
    for join in ["left", "full", "anti"] {
        let (report, _) = run(folder.path(), &["--type", join, "--where", "orders.o_totalprice >= 930"]);
        assert_eq!(report["key_filter"]["form"], "none", "{report}");
    }
}

/// Each revolution has a filter of its part of the orders. All orders are joined, so one filter of
/// them all would drop nothing.
#[test]
fn each_revolution_has_its_filter() {
    let folder = inputs();
    let at = |filter: &str| run(folder.path(), &["--revolutions", "3", "--key-filter", filter]);
    let (without, rows) = at("never");
    assert_eq!(rows.len() as u64, ITEMS);
    for filter in ["auto", "bloom", "exact"] {
        let (with, same) = at(filter);
        assert!(same == rows, "{filter}: {} rows, not {}", same.len(), rows.len());
        assert_ne!(with["key_filter"]["form"], "none", "{with}");
        // A third of the rows in each revolution, and the filters.
        assert!(2 * moved(&with) <= moved(&without), "{filter}: {} of {}", moved(&with), moved(&without));
        let dropped = with["rows_dropped"].as_u64().expect("a number");
        assert!((2 * ITEMS - ITEMS / 10..=2 * ITEMS).contains(&dropped), "{with}");
    }
    // Items come out alone, once, though they meet several parts.
    let (report, _) = run(folder.path(), &["--revolutions", "3", "--type", "semi"]);
    assert_eq!(report["key_filter"]["reason"], "rotating rows come out alone, and there are several revolutions");
}

#[test]
fn a_filter_that_is_asked_for_and_not_possible_is_refused() {
    let folder = inputs();
    for (options, reason) in [
        (&["--type", "full"][..], "the condition has no equal keys, or rotating rows without a partner are output"),
        (&["--revolutions", "2", "--type", "semi"], "rotating rows come out alone, and there are several revolutions"),
        (&["--algorithm", "loops"], "the condition has no equal keys"),
    ] {
        let refused = join(folder.path(), &[options, &["--key-filter", "bloom"]].concat()).fails();
        assert_says(&refused, &format!("--key-filter: not possible: {reason}"));
    }
    let explained = join(folder.path(), &["--explain"]).succeeds().stdout;
    assert!(explained.contains("undecided: decided when the stationary rows have been read"), "{explained}");
}
