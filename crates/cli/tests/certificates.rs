//! The certificates that `annulus worker` makes.
#![cfg(unix)]

mod support;

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use annulus_roundabout::secure::Identity;
use serde_json::Value;
use support::{Annulus, Done};

fn worker(folder: &Path, args: &[&str]) -> Result<Done, Done> {
    Annulus::new(["worker"].iter().chain(args)).at(folder).tries()
}

#[track_caller]
fn error(done: Result<Done, Done>) -> String {
    let Err(failed) = done else { panic!("it succeeds") };
    assert!(failed.stdout.is_empty());
    failed.stderr
}

#[track_caller]
fn succeeds(done: Result<Done, Done>) -> String {
    done.unwrap_or_else(|failed| panic!("{}", failed.stderr)).stdout
}

#[test]
fn a_ring_gets_an_authority_and_hosts() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    let said = succeeds(worker(at, &["init-ca", "--ring", "sales", "--folder", "ring"]));
    assert!(said.contains("annulus worker add-host NAME --folder ring"), "{said}");
    let add = ["add-host", "alpha", "--address", "10.0.0.1", "--folder", "ring", "--json"];
    let files: Value = serde_json::from_str(&succeeds(worker(at, &add))).expect("JSON");
    assert_eq!((&files["ring"], &files["host"]), (&"sales".into(), &"alpha".into()));
    let path = |name: &str| at.join(files[name].as_str().expect("a path"));
    let identity = Identity::load(&path("authority"), &path("certificate"), &path("key")).expect("a certificate");
    assert_eq!(identity.member().to_string(), "host alpha of ring sales");
    for key in [path("key"), at.join("ring/ca-key.pem")] {
        assert_eq!(fs::metadata(key).expect("a file").permissions().mode() & 0o777, 0o600);
    }
}

#[test]
fn what_cannot_be_done_says_why() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    assert!(error(worker(at, &["add-host", "alpha"])).contains("annulus worker init-ca --ring NAME"));
    succeeds(worker(at, &["init-ca", "--ring", "sales"]));
    assert!(error(worker(at, &["init-ca", "--ring", "other"])).contains("ca.pem exists already"));
    assert!(error(worker(at, &["init-ca", "--ring", "a b"])).contains("letters, digits"));
    succeeds(worker(at, &["add-host", "alpha"]));
    assert!(error(worker(at, &["add-host", "alpha"])).contains("exists already"));
    assert!(error(worker(at, &["add-host", "../beta"])).contains("letters, digits"));
    succeeds(worker(at, &["add-submitter", "alpha"]));
    assert!(at.join("submitter-alpha-key.pem").exists());
    assert!(error(worker(at, &["add-submitter", "alpha"])).contains("exists already"));
}

#[test]
fn a_worker_needs_its_key_and_not_that_of_the_authority() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    let serve = ["--listen", "127.0.0.1:0", "--allow-read", ".", "--certificates"];
    fs::create_dir(at.join("certs")).expect("a folder");
    succeeds(worker(at, &["init-ca", "--ring", "sales", "--folder", "certs"]));
    let missing = error(worker(at, &[&serve[..], &["certs/host-alpha.pem"]].concat()));
    assert!(missing.contains("host-alpha") && missing.contains("annulus worker add-host alpha"), "{missing}");
    succeeds(worker(at, &["add-host", "alpha", "--folder", "certs"]));
    let refused = error(worker(at, &[&serve[..], &["certs"]].concat()));
    assert!(refused.contains("ca-key.pem") && refused.contains("must not be on"), "{refused}");
}
