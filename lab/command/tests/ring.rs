//! `annulus-lab reproduce ring`, run as a user runs it.

mod killed;

use std::{collections::BTreeSet, fs, path::Path, process::Command};

use annulus_bench::Stop;
use annulus_bench::reproduce::ring::{
    self, Hits, QueryArgs, QueryCell, QueryFailed, QueryLine, QueryRunner, QueryTables, RingArgs, Suite, WAYS, WayTime,
    Whole,
};
use anyhow::{Result, bail};
use clap::Parser;
use serde_json::Value;

fn reproduce(folder: &Path, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_annulus-lab"));
    let tables = ["--cache", "cache", "--scale", "0.001", "--hits-rows", "1k", "--query-threads", "1"];
    command.args(["reproduce", "ring", "--quick", "--volume", "512K", "--out", "out"]).args(tables).args(more);
    command.current_dir(folder);
    command
}

#[test]
fn all_figures_are_in_all_three_files() {
    let folder = tempfile::tempdir().unwrap();
    let out = reproduce(folder.path(), &[]).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let read = |name: &str| fs::read_to_string(folder.path().join("out").join(name)).unwrap();
    let results: Value = serde_json::from_str(&read("ring.json")).unwrap();
    let parts: BTreeSet<_> =
        results["cells"].as_array().unwrap().iter().map(|cell| cell["part"].as_str().unwrap()).collect();
    let expected = ["figure-5", "figure-7", "skew", "table-2-normal", "table-2-uniform", "two-rings", "unequal"];
    assert_eq!(parts, BTreeSet::from(expected));
    let origin = &results["origin"];
    assert!(origin["command"].as_str().unwrap().contains("reproduce ring"), "{origin}");
    assert!(origin["build"].as_str().is_some_and(|build| build.len() == 16), "{origin}");
    assert!(origin["datafusion"].is_string(), "{origin}");
    assert_eq!(results["published"].as_array().unwrap().len(), 24);

    let csv = read("ring.csv");
    let lines: usize =
        results["cells"].as_array().unwrap().iter().map(|cell| cell["lines"].as_array().unwrap().len()).sum();
    assert_eq!(csv.lines().count(), 1 + lines);
    let fields: BTreeSet<_> = csv.lines().map(|line| line.split(',').count()).collect();
    assert!(csv.starts_with("part,") && fields.len() == 1, "{fields:?}");

    let page = read("ring.html");
    for heading in ["Figure 5", "Table 1", "Table 2", "Figure 6", "Table 3", "Figure 7", "left out", "Figure 8"] {
        assert!(page.to_lowercase().contains(&heading.to_lowercase()), "{heading}");
    }
    assert!(page.contains("(quick run)") && page.contains("other hardware") && page.contains("39.82"));
    assert!(page.contains(results["origin"]["cpu"].as_str().unwrap()), "the page names the processor");
    // Section 4.4 has numbers for figure 7.
    for lead in ["<td>8, 16</td><td>2, 3 over 1</td><td>9 to 17</td>", "<td>64</td><td>2 over 1</td><td>14</td>"] {
        assert!(page.contains(lead), "{lead}");
    }
    // Events are listed, or the reason why there are none stands there.
    let reason = results["no_counters"].as_str().map(|reason| reason.replace('\'', "&#39;"));
    assert!(page.contains(&reason.unwrap_or("instructions/row".to_owned())), "{page}");
    assert!(!page.contains("src="), "the page needs nothing else");
    // The queries of ClickBench need a file, and the page says so.
    assert_eq!(results["queries"]["lines"].as_array().map(Vec::len), Some(4));
    assert!(page.contains("name their file with --clickbench"));
    assert!(folder.path().join("out/ring-queries.csv").exists());
    assert!(!folder.path().join("out/ring.partial.jsonl").exists());
}

/// Their operations and their memory are known all the same.
#[test]
fn runs_that_are_too_short_have_counts_and_no_throughput() {
    let folder = tempfile::tempdir().unwrap();
    let out = reproduce(folder.path(), &["--threads", "1"]).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let read = |name: &str| fs::read_to_string(folder.path().join("out").join(name)).unwrap();
    let results: Value = serde_json::from_str(&read("ring.json")).unwrap();
    let page = read("ring.html");
    let cells = results["cells"].as_array().unwrap();
    let lines = |part: &str| -> Vec<&Value> {
        cells.iter().filter(|cell| cell["part"] == part).flat_map(|cell| cell["lines"].as_array().unwrap()).collect()
    };
    let short = |line: &&&Value| line["too_short"] == true;
    let section = |heading: &str| page.split("<h2>").find(|section| section.starts_with(heading)).unwrap();
    for line in lines("figure-5") {
        let row = format!(
            "<td>{}</td><td>1</td><td>{:.1}</td>",
            line["strategy"].as_str().unwrap(),
            line["peak_mb"].as_f64().unwrap()
        );
        assert!(section("Table 1").contains(&row), "{row}");
    }
    let parts = [
        ("Table 2", vec!["table-2-uniform", "table-2-normal"]),
        ("What the", vec!["unequal", "skew"]),
        ("Two rings", vec!["two-rings"]),
    ];
    for (heading, parts) in parts {
        let expected = parts.into_iter().flat_map(lines).filter(|line| short(&line)).count();
        assert_eq!(section(heading).matches("too short").count(), expected, "{heading}");
    }
    let two: Vec<_> =
        lines("two-rings").iter().map(|line| (line["strategy"].clone(), line["domains"].clone())).collect();
    assert!(two.contains(&("ring-per-domain".into(), 2.into())), "{two:?}");
}

#[test]
fn an_unfinished_run_goes_on_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let partial = folder.path().join("out/ring.partial.jsonl");
    killed::killed_after(2, &mut reproduce(folder.path(), &[]), &partial);

    let other = reproduce(folder.path(), &["--seed", "2"]).output().unwrap();
    assert!(String::from_utf8_lossy(&other.stderr).contains("--restart"), "{other:?}");
    // Results of another build are not mixed in.
    let kept = fs::read_to_string(&partial).unwrap();
    let run: Value = serde_json::from_str(kept.lines().next().unwrap()).unwrap();
    fs::write(&partial, kept.replace(run["build"].as_str().unwrap(), "0123456789abcdef")).unwrap();
    let other = reproduce(folder.path(), &[]).output().unwrap();
    let error = String::from_utf8_lossy(&other.stderr);
    assert!(!other.status.success() && error.contains("(build: \"0123456789abcdef\" instead of "), "{error}");
    fs::write(&partial, kept).unwrap();
    let out = reproduce(folder.path(), &[]).output().unwrap();
    let error = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success() && error.contains("going on with"), "{error}");
    assert!(folder.path().join("out/ring.html").exists());
}

/// A command line with the options of whole queries.
#[derive(Parser)]
struct Line {
    #[command(flatten)]
    ring: RingArgs,
    #[command(flatten)]
    queries: QueryArgs,
}

/// Answers every query, until it is interrupted after the first `most`. The ring takes 2 ms or less,
/// stock 1 ms, and the others 3 to 15 ms.
struct Answers {
    most: usize,
    /// The query of TPC-H whose answers differ.
    unequal: Option<u8>,
    tables: Option<QueryTables>,
    cells: Vec<QueryCell>,
}

impl QueryRunner for Answers {
    fn datafusion_version(&self) -> String {
        "55.9".to_owned()
    }

    fn prepare(&mut self, tables: &QueryTables) -> Result<()> {
        self.tables = Some(tables.clone());
        Ok(())
    }

    fn measure(&mut self, cell: &QueryCell) -> Result<QueryLine> {
        if self.cells.len() == self.most {
            bail!("interrupted");
        }
        self.cells.push(*cell);
        if cell.suite == Suite::Tpch && self.unequal == Some(cell.query) {
            let QueryCell { query, threads, .. } = cell;
            return Err(QueryFailed(format!("TPC-H query {query} on {threads}: 2 rows <> 3 rows")).into());
        }
        // The query with 90 sums has no groups, so nothing is shuffled.
        let shuffled_rows = if cell.query == 30 { 0 } else { 5 };
        let time = |(way, ms): (ring::QueryWay, f64)| WayTime {
            way: way.way.to_owned(),
            groups: way.groups,
            ms,
            spread: 0.25,
            shuffled_rows,
        };
        // One query is too short to measure with the ring.
        let ring_ms = if (cell.suite, cell.query) == (Suite::Clickbench, 2) { 0.9 } else { 2.0 };
        let ways = WAYS.into_iter().zip([1.0, ring_ms, 3.0, 4.0, 8.0, 5.0, 15.0, 6.0]).map(time).collect();
        Ok(QueryLine { suite: cell.suite, query: cell.query, threads: cell.threads, rows: 7, ways })
    }
}

/// Runs the command with a runner that answers `most` queries, one of them with other rows.
fn answered(folder: &Path, most: usize, unequal: Option<u8>) -> (Result<()>, Answers) {
    let out = folder.join("out");
    let words = ["ring", "--quick", "--volume", "64K", "--threads", "1", "--query-threads", "3,1,3", "--seed", "9"];
    let files = ["--out", out.to_str().unwrap(), "--clickbench", "queries.sql"];
    let line = Line::parse_from(words.into_iter().chain(files));
    let mut runner = Answers { most, unequal, tables: None, cells: Vec::new() };
    let whole = Whole { args: &line.queries, runner: &mut runner };
    (ring::run(&line.ring, whole, &Stop::default()), runner)
}

#[test]
fn queries_are_measured_once_and_drawn_beside_the_published_ones() {
    let folder = tempfile::tempdir().unwrap();
    let (failed, first) = answered(folder.path(), 5, None);
    assert_eq!(failed.unwrap_err().to_string(), "interrupted");
    assert_eq!(first.tables.map(|tables| (tables.hits, tables.seed)), Some((Hits::Generated(20_000), 9)));
    let (done, rest) = answered(folder.path(), usize::MAX, None);
    done.unwrap();
    let measured: Vec<_> = first.cells.iter().chain(&rest.cells).map(|cell| (cell.threads, cell.query)).collect();
    let expected = [1, 3].map(|threads| [2, 5, 13, 22, 2, 14, 15, 30].map(|query| (threads, query))).concat();
    assert_eq!(measured, expected);
    assert!(first.cells.iter().all(|cell| cell.rounds == 1));
    assert_eq!(rest.cells.iter().filter(|cell| cell.suite == Suite::Tpch).count(), 4);

    let read = |name: &str| fs::read_to_string(folder.path().join("out").join(name)).unwrap();
    let results: Value = serde_json::from_str(&read("ring.json")).unwrap();
    assert_eq!(results["queries"]["lines"].as_array().unwrap().len(), 16);
    assert_eq!(results["queries"]["published_sums"][1]["channel_s"], 9.0);
    let csv = read("ring-queries.csv");
    assert_eq!(csv.lines().count(), 1 + 16 * WAYS.len());
    assert!(
        csv.contains("\ntpch,2,1,7,stock,,1,0.25,5\n") && csv.contains("\nclickbench,30,3,7,ring,2,2,0.25,0\n"),
        "{csv}"
    );
    let page = read("ring.html");
    // The channel with clustered rows takes 4 times as long as the ring, the other one twice, and the
    // paper's three times as long as its ring.
    assert!([">+2.00</text>", ">+1.00</text>", ">+1.58</text>"].iter().all(|bar| page.contains(bar)), "{page}");
    assert!(page.contains("<td>8.0 (0.25)</td>"), "the spread is there");
    for text in ["TPC-H, scale factor 0.01 on 1 thread", "ClickBench, 20,000 generated rows on 3 threads"] {
        assert!(page.contains(text), "{text}");
    }
    assert_eq!((page.matches(">+2.00</text>").count(), page.matches(">no exchange<").count()), (2 * 6, 2));
    let section = |heading: &str| page.split("<h2>").find(|section| section.starts_with(heading)).unwrap();
    assert_eq!(section("Figure 8").matches(">too short</text>").count(), 2);
    // Of so few bytes, the exchange alone is too short to measure.
    assert_eq!(section("Table 4").matches("<td>too short</td>").count(), 4, "{}", section("Table 4"));
    assert_eq!(results["origin"]["datafusion"], "55.9");
    assert!(page.contains(", DataFusion 55.9, rustc"), "the page names the engine");
    for published in
        ["-2.30 (its query 33)", "paper -2.07", "paper +0.55", "<td>86.6</td><td>83.9</td><td>92.9</td><td>1.07</td>"]
    {
        assert!(page.contains(published), "{published}");
    }
    assert!(page.contains("<td>0.008</td><td>0.012</td>"), "sums of four queries");
    assert!(!page.contains("Not measured") && results["absent"] == Value::Array(Vec::new()));
}

/// The other queries are measured, the page has them, and the same command repeats those that failed.
#[test]
fn a_query_that_fails_stands_on_the_page() {
    let folder = tempfile::tempdir().unwrap();
    let (failed, runner) = answered(folder.path(), usize::MAX, Some(13));
    let problems = [1, 3].map(|threads| format!("TPC-H query 13 on {threads}: 2 rows <> 3 rows"));
    assert_eq!(failed.unwrap_err().to_string(), problems.join("\n"));
    assert_eq!(runner.cells.len(), 16);
    let read = |name: &str| fs::read_to_string(folder.path().join("out").join(name)).unwrap();
    let results: Value = serde_json::from_str(&read("ring.json")).unwrap();
    assert_eq!(results["queries"]["lines"].as_array().unwrap().len(), 14);
    assert_eq!(results["absent"], serde_json::json!(problems));
    let page = read("ring.html");
    let line = "<li>TPC-H query 13 on 3: 2 rows &lt;&gt; 3 rows</li>";
    assert!(page.contains("<h2>Not measured</h2>") && page.contains(line), "{page}");
    let (done, runner) = answered(folder.path(), usize::MAX, None);
    done.unwrap();
    assert_eq!(runner.cells.iter().map(|cell| (cell.threads, cell.query)).collect::<Vec<_>>(), [(1, 13), (3, 13)]);
    assert!(!read("ring.html").contains("Not measured") && !folder.path().join("out/ring.partial.jsonl").exists());
}

#[test]
fn the_page_names_a_table_that_is_given() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let words = ["ring", "--volume", "64K", "--threads", "1", "--rounds", "1", "--query-threads", "1"];
    let words = words.into_iter().chain(["--hits-data", "my <hits>.parquet", "--out", out.to_str().unwrap()]);
    let line = Line::parse_from(words);
    let mut runner = Answers { most: usize::MAX, unequal: None, tables: None, cells: Vec::new() };
    ring::run(&line.ring, Whole { args: &line.queries, runner: &mut runner }, &Stop::default()).unwrap();
    assert_eq!(runner.tables.unwrap().hits, Hits::Data("my <hits>.parquet".to_owned()));
    let results: Value = serde_json::from_str(&fs::read_to_string(out.join("ring.json")).unwrap()).unwrap();
    let queries = &results["queries"];
    assert!(queries["hits_data"] == "my <hits>.parquet" && queries.get("hits_rows").is_none());
    let page = fs::read_to_string(out.join("ring.html")).unwrap();
    assert!(
        page.contains("<h3>ClickBench, &#39;my &lt;hits&gt;.parquet&#39; on 1 thread</h3>")
            || page.contains("<h3>ClickBench, 'my &lt;hits&gt;.parquet' on 1 thread</h3>")
    );
    assert!(!page.contains("&amp;lt;"), "escaped once");
    assert!(Line::try_parse_from(["ring", "--quick", "--hits-data", "hits.parquet"]).is_err());
}
