//! `annulus-bench bench join`, run as a user runs it.

use std::process::{Command, Output};

fn bench(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_annulus-bench")).args(["bench", "join"]).args(args).output().unwrap()
}

#[test]
fn rings_of_any_size_give_the_same_answer() {
    for keys in [&[][..], &["--zipf", "0.9"]] {
        let out = bench(
            &[&["--rows", "20k", "--hosts", "1,3", "--rounds", "1", "--element", "16K", "--json"], keys].concat(),
        );
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        let text = String::from_utf8(out.stdout).unwrap();
        let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.iter().map(|line| line["hosts"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 3]);
        assert!(lines.iter().all(|line| line["matches"].as_u64().unwrap() > 10_000));
        assert_eq!(lines[0]["matches"], lines[1]["matches"]);
        assert_eq!(lines[0].get("zipf").is_some(), !keys.is_empty());
    }
}

#[test]
fn wrong_options_say_what_to_write() {
    for (args, expected) in
        [(["--hosts", "0"], "1..=1024"), (["--element", "1K"], "4K to 1G"), (["--rows", "x"], "500k")]
    {
        let out = bench(&args);
        assert!(!out.status.success());
        let error = String::from_utf8(out.stderr).unwrap();
        assert!(error.contains(expected), "{error}");
    }
}
