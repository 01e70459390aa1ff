//! `annulus-lab bench roundabout`, run as a user runs it.

use std::process::{Command, Output};

fn bench(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_annulus-lab")).args(["bench", "roundabout"]).args(args).output().unwrap()
}

#[test]
fn every_way_is_checked_and_measured() {
    let out = bench(&["--elements", "4K,64K", "--bytes", "2M", "--rounds", "1", "--json"]);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let lines: Vec<serde_json::Value> =
        String::from_utf8(out.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let cells: Vec<_> =
        lines.iter().map(|line| (line["element_bytes"].as_u64().unwrap(), line["way"].as_str().unwrap())).collect();
    let mut ways = vec!["plain", "tcp", "rustls", "tls", "shared"];
    if cfg!(feature = "ofi") {
        ways.extend(["ofi-tcp", "ofi-shm"]);
    }
    let expected: Vec<_> =
        [4096, 65536].into_iter().flat_map(|bytes| ways.iter().map(move |&way| (bytes, way))).collect();
    assert_eq!(cells, expected);
    assert!(
        lines.iter().all(|line| line["gb_per_s"].as_f64().unwrap() > 0.0 && line["elements"].as_u64().unwrap() >= 2)
    );
    assert!(lines.iter().filter(|line| line["way"] == "plain").all(|line| line["ratio"] == 1.0));
    assert!(lines.iter().all(|line| line["too_short"].is_boolean()), "{lines:?}");
}

/// Whatever the value of `--bytes`, more elements are sent than fit in the buffers of both hosts.
#[test]
fn few_bytes_are_more_than_the_buffers_hold() {
    let out = bench(&["--elements", "64K", "--bytes", "64K", "--rounds", "1", "--ways", "tls", "--json"]);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let line: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(line["elements"], 2 * (6 + 4));
}

#[test]
fn wrong_options_say_what_to_write() {
    for (args, expected) in
        [(["--elements", "1K"], "4K to 1G"), (["--places", "1"], "2..=65536"), (["--ways", "rdma"], "shared")]
    {
        let out = bench(&args);
        assert!(!out.status.success());
        let error = String::from_utf8(out.stderr).unwrap();
        assert!(error.contains(expected), "{error}");
    }
}
