//! The output of `--json` and the schemas that document it. A field that its schema does not name
//! fails here.

mod queries;
#[path = "support/schema.rs"]
mod schema;
mod support;

use std::{fs, net::TcpListener, path::Path};

use schema::expect_lines;
use serde_json::Value;
use support::{Annulus, names};

/// Runs a command, whose words are separated by spaces, and checks what it prints.
#[track_caller]
fn expect(folder: &Path, command: &str, file: &str) {
    let done = Annulus::new(command.split(' ')).at(folder).succeeds();
    expect_lines(&done.stdout, file);
}

#[test]
fn tpch() {
    let folder = tempfile::tempdir().expect("a folder");
    expect(folder.path(), "tpch --scale 0.001 --iterations 1 --queries 1,6 --data data --json", "tpch.json");
    // A query that fails has no times.
    let failing = "tpch --scale 0.001 --iterations 1 --queries 18 --data data --json --memory-limit 10K";
    let done = Annulus::new(failing.split(' ')).at(folder.path()).fails();
    assert!(done.stdout.contains("null"), "{}", done.stdout);
    expect_lines(&done.stdout, "tpch.json");
}

#[test]
fn served_queries() {
    let folder = tempfile::tempdir().expect("a folder");
    let texts = queries::clickbench();
    let serve = format!("clickbench --queries-from {texts} --rows 500 --cache cache --queries 2,18 --serve auto");
    let requests = "{\"query\": 2}\n{\"query\": 18, \"witness\": true}\n";
    let done = Annulus::new(serve.split(' ')).at(folder.path()).input(requests);
    let (offers, replies) = done.stdout.split_once('\n').expect("lines");
    expect_lines(offers, "serve-queries.json");
    expect_lines(replies, "serve.json");
    let failing = format!("{serve} --memory-limit 1K");
    let done = Annulus::new(failing.split(' ')).at(folder.path()).input("{\"query\": 18}\n");
    let reply = done.stdout.lines().last().expect("a reply");
    assert!(reply.contains("\"ms\":null") && reply.contains("Resources exhausted"), "{reply}");
    expect_lines(reply, "serve.json");
}

#[test]
fn clickbench() {
    let folder = tempfile::tempdir().expect("a folder");
    let texts = queries::clickbench();
    let rows = "--rows 500 --iterations 1 --cache cache --json --queries 2,18";
    let clickbench = format!("clickbench --queries-from {texts} {rows}");
    expect(folder.path(), &clickbench, "clickbench.json");
    expect(folder.path(), &format!("{clickbench} --strategies auto,ring+cluster"), "strategies.json");
    let tpch = "tpch --scale 0.001 --iterations 1 --queries 6 --data data --json --strategies ring";
    expect(folder.path(), tpch, "strategies.json");
    // A way that fails has no times.
    let failing = tpch.replace("--queries 6", "--queries 18 --memory-limit 10K");
    let done = Annulus::new(failing.split(' ')).at(folder.path()).fails();
    assert!(done.stdout.contains("null"), "{}", done.stdout);
    expect_lines(&done.stdout, "strategies.json");
}

#[test]
fn benchmarks() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    let repartition = "bench repartition --scale 0.01 --rounds 1 --shapes 2x2 --payloads b --json";
    expect(at, repartition, "bench-repartition.json");
    let exchange = "bench exchange --threads 2x3 --row-bytes 8,20 --volume 1M --rounds 1 --json";
    expect(at, exchange, "bench-exchange.json");
    let pages = "bench pages --tuples 20k --partitions 4 --tuple-bytes 16 --threads 2 --rounds 1 --page-sizes 64K,16K \
                 --counters --zipf 1.1 --layout compact --json";
    expect(at, pages, "bench-pages.json");
    let stream = "bench pages --tuples 20k --partitions 4 --tuple-bytes 16 --rounds 1 --page-sizes 16K --sizes normal \
                  --stream --json";
    expect(at, stream, "bench-pages.json");
    let roundabout = "bench roundabout --elements 4K --bytes 1M --rounds 1 --json";
    expect(at, roundabout, "bench-roundabout.json");
    expect(at, "bench roundabout --elements 4K --bytes 1M --rounds 1 --ways tcp --json", "bench-roundabout.json");
    let join = "bench join --rows 20k --hosts 1,2 --rounds 1 --element 16K --json";
    expect(at, join, "bench-join.json");
    expect(at, &format!("{join} --one-at-a-time --zipf 0.9"), "bench-join.json");
}

#[test]
fn simulations() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    let small = "simulate exchange --cores 2,4 --domains 1,4 --row-bytes 8 --out here --json";
    let done = Annulus::new(small.split(' ')).at(at).succeeds();
    expect_lines(&done.stdout, "simulate-exchange.json");
    assert_eq!(names(&at.join("here")), ["exchange.csv", "exchange.html", "exchange.json"]);
    let file = |name: &str| fs::read_to_string(at.join("here").join(name)).expect(name);
    assert_eq!(file("exchange.json"), done.stdout);
    // Two machines with one domain, and one with four; eight strategies each.
    assert_eq!(file("exchange.csv").lines().count(), 1 + 3 * 8);
    assert!(file("exchange.html").contains("<polyline"));

    let report: Value = serde_json::from_str(&done.stdout).expect("JSON");
    assert!(report["command"].as_str().expect("a command").starts_with("annulus-lab simulate exchange --cores 2,4"));
    assert_eq!(report["leads"].as_array().map(Vec::len), Some(2 * 2), "two rivals with one domain and with four");
    assert!(file("exchange.html").contains("Where ring leads") && file("exchange.html").contains("--cores 2,4"));
    let winners = report["predictions"].as_array().expect("predictions").iter().filter(|line| line["winner"] == true);
    assert_eq!(winners.count(), 3);
    // The same on every machine: the fit is stored, and the simulation is deterministic.
    assert_eq!(report["held_out"]["winners_right"], 10);
}

#[test]
fn a_simulation_that_cannot_be_says_why() {
    for (arguments, expected) in [
        ("--cores 2000", "invalid --cores 2000: expected at most 1024"),
        ("--cores 2 --domains 4", "--domains 4 leaves no machine: give --cores of at least 4"),
        ("--strategies rings", "invalid strategy 'rings': expected one of ring, paper-ring"),
        ("--row-bytes 0", "invalid count '0': expected 1 to 65536"),
    ] {
        let done = Annulus::new("simulate exchange".split(' ').chain(arguments.split(' '))).fails();
        assert!(done.stderr.contains(expected), "{}", done.stderr);
    }
}

#[test]
fn a_host_of_a_benchmark() {
    // The system does not soon give these ports to another process.
    let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").expect("a port"));
    let [first, second] = listeners.map(|listener| listener.local_addr().expect("an address"));
    let host = |place: &str| {
        let ring = format!("{first},{second}");
        let args = ["bench", "join", "--rows", "20k", "--element", "16K", "--ring", &ring, "--place", place];
        Annulus::new(args)
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| host("1").succeeds());
        expect_lines(&host("0").succeeds().stdout, "bench-join-host.json");
        expect_lines(&other.join().expect("a host").stdout, "bench-join-host.json");
    });
}

#[test]
fn figures() {
    let folder = tempfile::tempdir().expect("a folder");
    let reproduce = |command: &str| {
        Annulus::new(command.split(' ')).at(folder.path()).succeeds();
    };
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).expect(name);
    reproduce("reproduce cyclo-join --quick --figures 5,12 --out figures");
    let lines = read("figures/cyclo-join.jsonl");
    expect_lines(&lines, "reproduce-cyclo-join.json");
    let first: Value = serde_json::from_str(lines.lines().next().expect("the setting")).expect("JSON");
    let machine = first["machine"].as_str().expect("a label");
    assert!(machine.contains("last-level cache") && machine.contains("NUMA"), "{machine}");
    let texts = queries::clickbench();
    let ring = "reproduce ring --quick --volume 512K --cache cache --out figures";
    reproduce(&format!("{ring} --clickbench {texts}"));
    let ring: Value = serde_json::from_str(&read("figures/ring.json")).expect("JSON");
    schema::check(&ring, &schema::schema("reproduce-ring.json")).expect("as documented");
    assert_eq!(ring["queries"]["lines"].as_array().map(Vec::len), Some(8));
    assert_eq!(ring["origin"]["datafusion"], datafusion::DATAFUSION_VERSION);
    reproduce("reproduce pages --quick --skip-flink --out figures");
    let pages: Value = serde_json::from_str(&read("figures/pages.json")).expect("JSON");
    schema::check(&pages, &schema::schema("reproduce-pages.json")).expect("as documented");
}

#[test]
fn every_schema_is_on_the_page_and_describes_its_fields() {
    schema::check_page();
}
