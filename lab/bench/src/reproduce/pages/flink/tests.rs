use std::os::unix::fs::PermissionsExt;

use parking_lot::{Mutex, MutexGuard};

use super::*;

/// Makes the tests run one at a time. A process that starts while a script is being written
/// inherits the open file for a moment, and then the script cannot run.
fn one_at_a_time() -> MutexGuard<'static, ()> {
    static LOCK: Mutex<()> = Mutex::new(());
    LOCK.lock()
}

fn script(folder: &Path, text: &str) -> PathBuf {
    let path = folder.join("run");
    fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn run_script(text: &str) -> Result<FlinkLine> {
    let _alone = one_at_a_time();
    let folder = tempfile::tempdir().unwrap();
    let script = find(Some(&script(folder.path(), text))).unwrap();
    run(&script, (16, 300_000, 2), 3, &ProgressBar::hidden(), &Stop::default())
}

fn json(rate: f64, peak: f64) -> String {
    let line = serde_json::json!({
        "variant": "flink keyBy", "tuple_bytes": 16, "partitions": 1024, "threads": 2, "tuples": 300_000,
        "mtuples_per_s": rate, "generate_s": 0.1, "shuffle_s": 0.2, "total_s": 0.3, "peak_mb": peak,
    });
    format!("echo '{line}'")
}

#[test]
fn rounds_become_medians() {
    let text = [json(5.0, 100.0), json(9.0, 300.0), json(6.0, 200.0)].join("\n");
    let line = run_script(&text).unwrap();
    assert_eq!((line.mtuples_per_s, line.peak_mb, line.tuples), (6.0, 300.0, 300_000));
}

#[test]
fn a_shuffle_under_a_millisecond_is_too_short() {
    let text = |shuffle_s: &str| json(5.0, 1.0).replace("\"shuffle_s\":0.2", &format!("\"shuffle_s\":{shuffle_s}"));
    assert!(run_script(&text("0.0009")).unwrap().too_short);
    assert!(!run_script(&text("0.001")).unwrap().too_short);
}

#[test]
fn versions_are_named_once() {
    let line = run_script(&json(5.0, 1.0).replace('{', r#"{"flink":"1.20.5","java":"21.0.1","#)).unwrap();
    let without = run_script(&json(5.0, 1.0)).unwrap();
    let other = FlinkLine { java: Some("17.0.9".to_owned()), ..line.clone() };
    assert_eq!(versions(&[line.clone(), without.clone(), other], |line| &line.java).unwrap(), "17.0.9 and 21.0.1");
    assert_eq!(versions(&[line.clone(), line], |line| &line.flink).unwrap(), "1.20.5");
    assert_eq!(versions(&[without], |line| &line.flink), None);
}

#[test]
fn it_is_asked_for_what_is_compared() {
    let arguments = "--tuples 300000 --tuple-bytes 16 --partitions 1024 --parallelism 2 --rounds 3";
    let text = format!("[ \"$*\" = '{arguments}' ] || {{ echo \"asked for $*\" >&2; exit 1; }}\n{}", json(5.0, 1.0));
    run_script(&text).unwrap();
}

#[test]
fn failures_say_why() {
    for (text, expected) in [
        ("echo 'java is missing: install a JDK' >&2; exit 3", "java is missing: install a JDK"),
        ("echo; echo broken >&2; exit 1", "Flink's benchmark failed: broken"),
        ("exit 0", "printed nothing"),
        ("echo nonsense", "Flink's benchmark printed 'nonsense'"),
    ] {
        let error = format!("{:#}", run_script(text).unwrap_err());
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_stop_ends_it() {
    let _alone = one_at_a_time();
    let folder = tempfile::tempdir().unwrap();
    let marker = folder.path().join("started");
    // Without the stop this would never end.
    let text = format!("mkfifo '{0}/never'; touch '{0}/started'; exec cat '{0}/never'", folder.path().display());
    let script = script(folder.path(), &text);
    let stop = Stop::default();
    std::thread::scope(|scope| {
        let running = scope.spawn(|| run(&script, (16, 1, 1), 1, &ProgressBar::hidden(), &stop));
        while !marker.exists() {
            assert!(!running.is_finished(), "it ended too early");
            std::thread::yield_now();
        }
        stop.cancel();
        assert!(running.join().unwrap().is_err());
    });
}

#[test]
fn a_folder_stands_for_the_script_in_it() {
    let folder = tempfile::tempdir().unwrap();
    assert!(find(Some(folder.path())).unwrap_err().contains("--flink"));
    let path = script(folder.path(), "");
    assert_eq!(find(Some(folder.path())), Ok(fs::canonicalize(path).unwrap()));
}
