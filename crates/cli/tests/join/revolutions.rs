//! Joins whose memory limit forces several revolutions. Their rotating rows are read and prepared
//! once, and kept on disk meanwhile.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;
use tempfile::TempDir;

use crate::{
    disturbed::{Ended, tree},
    faults::{Mounted, signal},
    support::{Annulus, Running, processes::children},
    tables::rows_of_files,
};

const ROTATING: u64 = 60_000;

/// Two inputs. The stationary one has 40 MB in 4,000 rows, of which 50 have a partner in the other.
struct Inputs {
    folder: TempDir,
    output: PathBuf,
}

impl Inputs {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |query: &str, file: &str| {
            Annulus::new(["sql", query, "--output", file]).at(folder.path()).succeeds();
        };
        let text = "repeat(cast(value + 100000 AS varchar), 1700) AS text";
        write(&format!("SELECT value AS id, {text} FROM generate_series(1, 4000)"), "a.parquet");
        let note = "'a note that is not inlined: ' || cast(value AS varchar) AS note";
        write(&format!("SELECT value * 80 AS id, {note} FROM generate_series(1, {ROTATING})"), "b.parquet");
        let output = folder.path().join("out");
        Self { folder, output }
    }

    fn join(&self, options: &[&str]) -> Annulus {
        let output = self.output.to_str().expect("UTF-8");
        let join = ["join", "a.parquet", "b.parquet", "--on", "id", "--type", "right", "--rotate", "right"];
        let size = ["--local", "2", "--threads", "1", "--fragment-size", "64K", "--timeout", "2", "--output", output];
        Annulus::new(join.into_iter().chain(size).chain(options.iter().copied())).at(self.folder.path())
    }

    /// Returns the smallest memory limit with which `revolutions` suffice. It leaves less than a
    /// MiB for rotating rows between revolutions.
    fn limit(&self, revolutions: &str) -> String {
        let error =
            self.join(&["--explain", "--json", "--revolutions", revolutions, "--memory-limit", "1K"]).fails().stderr;
        let (before, _) = error.split_once(" MiB").unwrap_or_else(|| panic!("no amount: {error}"));
        format!("{}M", before.rsplit(' ').next().unwrap_or_default())
    }

    /// Starts a join that takes many revolutions, and waits until a host keeps rows on disk.
    fn start(&self) -> (Running, u32) {
        let mut running = self.join(&["--revolutions", "60", "--memory-limit", &self.limit("60")]).start();
        let mut host = None;
        while host.is_none() {
            assert!(!running.has_ended(), "no host has kept rows on disk: {}", running.stderr());
            host = children(running.id()).into_iter().find(|&host| self.keeps_rows(host));
            std::thread::yield_now();
        }
        (running, host.expect("a host"))
    }

    /// Returns whether a process has an open file without a name in the folder of the result.
    fn keeps_rows(&self, process: u32) -> bool {
        let Ok(files) = fs::read_dir(format!("/proc/{process}/fd")) else { return false };
        let links = files.flatten().filter_map(|file| fs::read_link(file.path()).ok());
        links.into_iter().any(|link| {
            link.starts_with(&self.output) && link.to_string_lossy().ends_with("(deleted)") && !is_empty(process, &link)
        })
    }

    #[track_caller]
    fn assert_nothing_left(&self) {
        assert_eq!(tree(&self.output), [""; 0]);
        assert!(!self.output.exists());
    }
}

/// Returns whether a process's open file, known by its link, has no bytes.
fn is_empty(process: u32, link: &Path) -> bool {
    let files = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
    let mut same = files.filter(|file| fs::read_link(file.path()).is_ok_and(|found| found == link));
    same.all(|file| fs::metadata(file.path()).is_ok_and(|file| file.len() == 0))
}

/// Returns the sum of a field over all hosts.
fn sum(report: &Value, field: impl Fn(&Value) -> &Value) -> u64 {
    report["per_host"].as_array().expect("hosts").iter().map(|host| field(host).as_u64().expect("a number")).sum()
}

#[test]
fn rotating_rows_are_read_and_prepared_once() {
    let inputs = Inputs::new();
    let run = |options: &[&str]| -> (Value, Vec<String>) {
        let done = inputs.join(&[options, &["--json", "--overwrite"]].concat()).succeeds();
        (serde_json::from_str(&done.stdout).expect("JSON"), rows_of_files(&inputs.output))
    };
    let (once, rows) = run(&[]);
    assert_eq!(once["revolutions"], 1);
    assert_eq!(sum(&once, |host| &host["bytes_kept"][0]) + sum(&once, |host| &host["bytes_kept"][1]), 0);
    let (often, same_rows) = run(&["--revolutions", "auto", "--memory-limit", &inputs.limit("4")]);
    assert!(often["revolutions"].as_u64() > Some(1), "{often}");
    assert!(rows.len() as u64 == ROTATING && same_rows == rows, "{} rows, then {}", rows.len(), same_rows.len());
    for report in [&once, &often] {
        assert_eq!(sum(report, |host| &host["rows_prepared"]), ROTATING);
    }
    assert_eq!(sum(&often, |host| &host["bytes_read"]), sum(&once, |host| &host["bytes_read"]));
    assert!(sum(&often, |host| &host["bytes_kept"][1]) > 0, "{often}");
    // Each revolution joins all fragments.
    let joined = |report: &Value| sum(report, |host| &host["joined"]);
    assert!(joined(&often) > joined(&once), "{often}");
}

/// Rows on disk have no name, so nothing is left of them, whatever ends the hosts.
#[test]
fn rows_that_are_kept_on_disk_are_never_left() {
    let inputs = Inputs::new();
    let (running, host) = inputs.start();
    signal(host, "KILL");
    let ended = Ended::of(running);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    inputs.assert_nothing_left();
    let (running, _) = inputs.start();
    running.signal("INT");
    let ended = Ended::of(running);
    assert_eq!(ended.code, Some(130), "{}", ended.stderr);
    inputs.assert_nothing_left();
    let (running, _) = inputs.start();
    let hosts = children(running.id());
    running.signal("KILL");
    Ended::of(running);
    while hosts.iter().any(|&host| inputs.keeps_rows(host)) {
        std::thread::yield_now();
    }
}

#[test]
fn a_disk_without_room_for_rotating_rows_fails_the_join() {
    let mut inputs = Inputs::new();
    let disk = inputs.folder.path().join("disk");
    fs::create_dir(&disk).expect("a folder");
    inputs.output = disk.join("out");
    let limit = inputs.limit("3");
    let Some(_mounted) = Mounted::new(&disk, 1 << 20) else {
        println!("skipped: a file system in memory can only be mounted by root");
        return;
    };
    let failed = inputs.join(&["--revolutions", "3", "--memory-limit", &limit]).fails().stderr;
    for text in ["cannot keep rows in '", "/disk/out/host-0", "for further revolutions: No space left"] {
        assert!(failed.contains(text), "{failed}");
    }
    inputs.assert_nothing_left();
}
