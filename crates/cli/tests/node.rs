//! `annulus node`, run as a user runs it.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Output},
};

use annulus_roundabout::secure::Identity;

fn node(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_annulus")).arg("node").args(args).current_dir(folder).output().unwrap()
}

fn error(out: &Output) -> String {
    assert!(!out.status.success());
    assert!(out.stdout.is_empty());
    String::from_utf8(out.stderr.clone()).unwrap()
}

#[test]
fn a_ring_gets_an_authority_and_hosts() {
    let folder = tempfile::tempdir().unwrap();
    let out = node(folder.path(), &["init-ca", "--ring", "sales", "--folder", "ring"]);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    assert!(String::from_utf8(out.stdout).unwrap().contains("annulus node add-host NAME --folder ring"));
    let out = node(folder.path(), &["add-host", "alpha", "--address", "10.0.0.1", "--folder", "ring", "--json"]);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let files: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!((&files["ring"], &files["host"]), (&"sales".into(), &"alpha".into()));
    let path = |name: &str| folder.path().join(files[name].as_str().unwrap());
    let identity = Identity::load(&path("authority"), &path("certificate"), &path("key")).unwrap();
    assert_eq!(identity.member().to_string(), "host alpha of ring sales");
    for key in [path("key"), folder.path().join("ring/ca-key.pem")] {
        assert_eq!(fs::metadata(key).unwrap().permissions().mode() & 0o777, 0o600);
    }
}

#[test]
fn what_cannot_be_done_says_why() {
    let folder = tempfile::tempdir().unwrap();
    assert!(error(&node(folder.path(), &["add-host", "alpha"])).contains("annulus node init-ca --ring NAME"));
    assert!(node(folder.path(), &["init-ca", "--ring", "sales"]).status.success());
    assert!(error(&node(folder.path(), &["init-ca", "--ring", "other"])).contains("ca.pem exists already"));
    assert!(error(&node(folder.path(), &["init-ca", "--ring", "a b"])).contains("letters, digits"));
    assert!(node(folder.path(), &["add-host", "alpha"]).status.success());
    assert!(error(&node(folder.path(), &["add-host", "alpha"])).contains("exists already"));
    assert!(error(&node(folder.path(), &["add-host", "../beta"])).contains("letters, digits"));
    assert!(node(folder.path(), &["add-submitter", "alpha"]).status.success());
    assert!(folder.path().join("submitter-alpha-key.pem").exists());
    assert!(error(&node(folder.path(), &["add-submitter", "alpha"])).contains("exists already"));
}

/// The sample is meant to be pasted, so none of its lines may be wrapped.
#[test]
fn the_sample_in_the_help_is_a_ring_file() {
    let folder = tempfile::tempdir().unwrap();
    for columns in ["80", "100"] {
        let help =
            Command::new(env!("CARGO_BIN_EXE_annulus")).args(["node", "--help"]).env("COLUMNS", columns).output();
        let help = String::from_utf8(help.unwrap().stdout).unwrap();
        let sample = help.split_once("  certificates = ").expect("a sample").1.split_once("\n\n").expect("its end").0;
        fs::write(folder.path().join("ring.toml"), format!("certificates = {sample}\n")).unwrap();
        let said = error(&node(folder.path(), &["--ring", "ring.toml", "--name", "alpha"]));
        assert!(said.contains("no 'certs/host-alpha-key.pem'"), "{columns} columns: {said}\n{help}");
    }
}
