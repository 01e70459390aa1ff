//! `annulus-lab bench repartition` as a process. Its measurements are tested in `annulus-bench`.

mod support;

use serde_json::Value;
use support::Annulus;

const SMALL: [&str; 10] = [
    "bench",
    "repartition",
    "--scale=0.01",
    "--rounds=1",
    "--threads=2",
    "--shapes=2x2",
    // Forces rows onto the disk. Stock's operator can hang then, so the timeout is short.
    "--memory-limit=200K",
    "--timeout=20",
    "--consumers=unpolled",
    "--json",
];

#[test]
fn a_case_is_a_line() {
    let done = Annulus::new(SMALL.iter().chain(&["--payloads=c"])).succeeds();
    let line: Value = serde_json::from_str(&done.stdout).expect("one line");
    assert_eq!((line["payload"].as_str(), line["consumers"].as_str()), (Some("c"), Some("unpolled")));
}

#[test]
#[cfg(unix)]
fn an_interrupt_ends_it_and_leaves_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let several = SMALL.iter().chain(&["--ways=ring,ring+cluster,reserve,auto"]);
    let mut running = Annulus::new(several).temp(folder.path()).start();
    running.wait_for("unpolled");
    running.signal("INT");
    assert_eq!(running.exit_code(), Some(130));
    assert!(support::names(folder.path()).is_empty(), "spill files are left");
}
