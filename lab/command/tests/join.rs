//! `annulus-lab bench join`, run as a user runs it.

use std::{
    fs::File,
    net::TcpListener,
    process::{Command, Output},
    thread,
};

use arrow::ipc::reader::FileReader;
use serde_json::Value;

fn bench(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_annulus-lab")).args(["bench", "join"]).args(args).output().unwrap()
}

/// Runs the benchmark, and returns its lines, one for each number of hosts.
fn lines(args: &[&str]) -> Vec<Value> {
    let out = bench(&[&["--rounds", "1", "--element", "16K", "--json"], args].concat());
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn number(line: &Value, column: &str) -> u64 {
    line[column].as_u64().unwrap_or_else(|| panic!("{column} of {line}"))
}

#[test]
fn rings_of_any_size_give_the_same_answer() {
    for keys in [&[][..], &["--zipf", "0.9"]] {
        let lines = lines(&[&["--rows", "20k", "--hosts", "1,3"], keys].concat());
        assert_eq!(lines.iter().map(|line| number(line, "hosts")).collect::<Vec<_>>(), [1, 3]);
        assert!(lines.iter().all(|line| number(line, "matches") > 10_000));
        assert_eq!((&lines[0]["matches"], &lines[0]["sum"]), (&lines[1]["matches"], &lines[1]["sum"]));
        assert_eq!(lines[0].get("zipf").is_some(), !keys.is_empty());
    }
}

/// Results that do not depend on the machine are the same if hosts run all at once or one at a
/// time.
#[test]
fn hosts_do_the_same_one_at_a_time() {
    let args = ["--rows", "20k", "--zipf", "0.9", "--hosts", "1,4"];
    let (together, alone) = (lines(&args), lines(&[&args[..], &["--one-at-a-time"]].concat()));
    for (together, alone) in together.iter().zip(&alone) {
        for column in ["hosts", "matches", "sum", "host_probed", "host_compared", "host_mb"] {
            assert_eq!(together[column], alone[column], "{column}");
        }
        assert_eq!((&together["one_at_a_time"], &alone["one_at_a_time"]), (&Value::Bool(false), &Value::Bool(true)));
        assert!(alone.get("cpu_load").is_none());
    }
    let [one, four] = &alone[..] else { panic!("two lines") };
    // Every host probes all rows, and compares about its share of the pairs.
    assert_eq!((number(one, "host_probed"), number(four, "host_probed")), (20_000, 20_000));
    let (pairs, share) = (number(one, "host_compared"), number(four, "host_compared"));
    assert!(pairs >= number(one, "matches") && (pairs / 5..pairs / 3).contains(&share), "{share} of {pairs}");
}

#[test]
fn bands_are_joined_over_every_link_and_orders_with_their_lines() {
    let band = ["--data", "band", "--rows", "2k", "--hosts", "1,2"];
    let tpch = ["--data", "tpch", "--scale", "0.001", "--hosts", "1,2"];
    for (tables, by, links) in [(&band[..], "sort", &["shared", "tcp", "tls"][..]), (&tpch[..], "hash", &["shared"])] {
        let mut answers = Vec::new();
        for &link in links {
            for mode in [&["--link", link][..], &["--link", link, "--one-at-a-time"]] {
                for line in lines(&[tables, mode].concat()) {
                    assert_eq!((&line["by"], &line["link"]), (&Value::from(by), &Value::from(link)));
                    answers.push((number(&line, "matches"), line["sum"].clone()));
                }
            }
        }
        answers.dedup();
        assert_eq!(answers.len(), 1, "{answers:?}");
    }
}

#[test]
fn saved_tables_are_those_that_are_joined() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("tables");
    let args = ["--rows", "70k", "--save", to.to_str().unwrap()];
    assert!(bench(&args).status.success());
    let rows = |name: &str| -> usize {
        let reader = FileReader::try_new_buffered(File::open(to.join(name)).unwrap(), None).unwrap();
        let names: Vec<_> = reader.schema().fields().iter().map(|field| field.name().clone()).collect();
        assert_eq!(names, ["key", "number"]);
        reader.map(|batch| batch.unwrap().num_rows()).sum()
    };
    assert_eq!((rows("left.arrow"), rows("right.arrow")), (70_000, 70_000));
}

/// Three processes connect to each other, and their parts of the result add up to the whole.
#[test]
fn hosts_may_be_processes() {
    // The system does not soon give these ports to another process.
    let listeners: Vec<_> = (0..3).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let ring: Vec<_> = listeners.iter().map(|listener| listener.local_addr().unwrap().to_string()).collect();
    let ring = ring.join(",");
    drop(listeners);
    let hosts: Vec<Value> = thread::scope(|scope| {
        let host = |place: &'static str| {
            let ring = &ring;
            scope.spawn(move || lines(&["--rows", "20k", "--ring", ring, "--place", place]).remove(0))
        };
        let hosts = ["0", "1", "2"].map(host);
        hosts.into_iter().map(|host| host.join().unwrap()).collect()
    });
    let sum = |column| hosts.iter().map(|host| host[column].as_i64().unwrap()).fold(0, i64::wrapping_add);
    assert_eq!(sum("matches"), hosts[0]["all_matches"].as_i64().unwrap());
    assert_eq!(sum("sum"), hosts[0]["all_sum"].as_i64().unwrap());
    assert!(hosts.iter().all(|host| number(host, "host_probed") == 20_000 && number(host, "matches") > 0));
}

#[test]
fn wrong_options_say_what_to_write() {
    for (args, expected) in [
        (&["--hosts", "0"][..], "1..=1024"),
        (&["--element", "1K"], "4K to 1G"),
        (&["--rows", "x"], "500k"),
        (&["--scale", "0"], "0.001 to 100"),
        (&["--zipf", "0.5", "--data", "band"], "--data even"),
        (&["--rows", "9", "--ring", "127.0.0.1:1,127.0.0.1:2", "--place", "2"], "places 0 to 1"),
        (&["--rows", "9", "--ring", "127.0.0.1:1", "--place", "0"], "name all of them"),
        (&["--rows", "9", "--ring", "127.0.0.1:1,127.0.0.1:2"], "--place"),
    ] {
        let out = bench(args);
        assert!(!out.status.success());
        let error = String::from_utf8(out.stderr).unwrap();
        assert!(error.contains(expected), "{error}");
    }
}
