//! `annulus demo` as a process.

mod support;

use support::{Annulus, names};

#[test]
fn every_step_is_shown_and_the_answers_agree() {
    let folder = tempfile::tempdir().expect("a folder");
    let done = Annulus::new(["demo", "--rows", "20000"]).at(folder.path()).succeeds();
    for shown in [
        "1. Make the visits to a web site",
        "$ annulus partition visits.parquet --by visitor --into 8 --output by-visitor",
        "$ annulus join v=by-visitor/ a=alerts.csv --where \"v.time BETWEEN",
        "The answers of ",
        "cd annulus-demo",
    ] {
        assert!(done.stdout.contains(shown), "{shown}: {}", done.stdout);
    }
    let expected =
        ["alerts.csv", "answer-of-annulus.csv", "answer-of-datafusion.csv", "by-visitor", "near", "visits.parquet"];
    assert_eq!(names(&folder.path().join("annulus-demo")), expected);
    // Its files can be used by the commands, and are not replaced.
    let count = "SELECT count(*) > 0 AS b FROM 'annulus-demo/near/'";
    assert_eq!(Annulus::new(["sql", "--format", "csv", count]).at(folder.path()).succeeds().stdout, "b\ntrue\n");
    let again = Annulus::new(["demo"]).at(folder.path()).fails();
    assert!(again.stderr.contains("'annulus-demo' exists: remove it, or name another folder"), "{}", again.stderr);
}

#[test]
#[cfg(unix)]
fn an_interrupt_leaves_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let visits = folder.path().join("visits");
    let mut running = Annulus::new(["demo", "visits", "--rows", "1G"]).at(folder.path()).start();
    // The first command handles signals when its file exists.
    running.wait_until(|| visits.is_dir() && names(&visits).iter().any(|name| name.starts_with(".annulus-")));
    running.signal("INT");
    assert_eq!(running.exit_code(), Some(130));
    assert!(names(folder.path()).is_empty(), "{:?}", names(folder.path()));
}
