//! Rings of machines: nodes that run already, on loopback, with certificates of their ring.

use std::{
    fs,
    net::{TcpListener, TcpStream},
    path::Path,
};

use rand::{SeedableRng, rngs::StdRng};
use tempfile::TempDir;

use crate::{
    support::{Annulus, Running},
    tables::{Shape, rows_of_files, write_parquet},
};

/// Members of the ring: its hosts, and who submits joins.
const HOSTS: [&str; 3] = ["alpha", "beta", "gamma"];
const SUBMITTER: &str = "me";

/// A folder with a ring's file, certificates and two inputs.
fn ring(settings: &str) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    make_certificates(folder.path(), "certs");
    let mut text = format!("certificates = 'certs'\n{settings}\n");
    // Ports that are free now.
    let listeners: Vec<_> = (0..2 * HOSTS.len()).map(|_| TcpListener::bind("127.0.0.1:0").expect("a port")).collect();
    for (host, listeners) in HOSTS.iter().zip(listeners.chunks(2)) {
        let [control, data] = [0, 1].map(|place: usize| listeners[place].local_addr().expect("an address"));
        text.push_str(&format!("[[host]]\nname = '{host}'\ncontrol = '{control}'\ndata = '{data}'\n"));
    }
    fs::write(folder.path().join("ring.toml"), text).expect("a file");
    let mut rng = StdRng::seed_from_u64(2);
    for name in ["a", "b"] {
        let shape = Shape { rows: 300, keys: 50, nulls: 0.1, skewed: false };
        write_parquet(&folder.path().join(name), &shape.table(&mut rng, name == "a"), 3, 50);
    }
    folder
}

fn make_certificates(folder: &Path, name: &str) {
    Annulus::new(["node", "init-ca", "--ring", "test", "--folder", name]).at(folder).succeeds();
    for member in HOSTS.iter().chain([&SUBMITTER]) {
        Annulus::new(["node", "add-host", member, "--folder", name]).at(folder).succeeds();
    }
}

/// Nodes that take orders.
fn nodes(folder: &Path) -> Vec<Running> {
    let start = |host: &&str| Annulus::new(["node", "--ring", "ring.toml", "--name", host]).at(folder).start();
    let mut nodes: Vec<Running> = HOSTS.iter().map(start).collect();
    let text = fs::read_to_string(folder.join("ring.toml")).expect("a file");
    let controls = text.lines().filter_map(|line| line.strip_prefix("control = "));
    for (node, control) in nodes.iter_mut().zip(controls) {
        node.wait_until(|| TcpStream::connect(control.trim_matches('\'')).is_ok());
    }
    nodes
}

fn join(folder: &Path, output: &str, more: &[&str]) -> Annulus {
    let all = ["join", "a", "b", "--on", "k", "--type", "full", "--output", output];
    Annulus::new(all.iter().chain(more)).at(folder)
}

const ON_RING: [&str; 4] = ["--ring", "ring.toml", "--name", SUBMITTER];

#[test]
fn machines_give_what_one_process_gives_by_tls_and_in_the_clear() {
    for settings in ["", "trusted_network = true"] {
        let folder = ring(settings);
        let _nodes = nodes(folder.path());
        join(folder.path(), "alone", &[]).succeeds();
        let rows = rows_of_files(&folder.path().join("alone"));
        // One join after the other.
        for output in ["one", "two"] {
            join(folder.path(), output, &ON_RING).succeeds();
            assert_eq!(rows_of_files(&folder.path().join(output)), rows);
        }
    }
}

#[test]
fn a_machine_that_is_lost_is_named_and_retried_without() {
    let folder = ring("");
    let mut nodes = nodes(folder.path());
    nodes[1].signal("KILL");
    nodes[1].exit_code();
    let done = join(folder.path(), "out", &ON_RING).fails();
    assert!(done.stderr.contains("host 1 has failed: 'beta'"), "{}", done.stderr);
    assert!(!folder.path().join("out").exists());
    let retry = [&ON_RING[..], &["--retry"]].concat();
    let done = join(folder.path(), "out", &retry).succeeds();
    assert!(done.stderr.contains("starting over on the other 2"), "{}", done.stderr);
    join(folder.path(), "alone", &[]).succeeds();
    assert_eq!(rows_of_files(&folder.path().join("out")), rows_of_files(&folder.path().join("alone")));
}

/// On one machine all of them have the same, so that each pair of rows is there nine times.
#[test]
fn machines_read_files_of_their_own() {
    let folder = ring("");
    let _nodes = nodes(folder.path());
    let inner = |output, more: &[&str]| {
        let all = ["join", "a", "b", "--on", "k", "--output", output];
        Annulus::new(all.iter().chain(more)).at(folder.path()).succeeds();
        rows_of_files(&folder.path().join(output))
    };
    let alone = inner("alone", &[]);
    let each = inner("each", &[&ON_RING[..], &["--inputs", "each"]].concat());
    let nine_times: Vec<String> = alone.iter().flat_map(|row| std::iter::repeat_n(row.clone(), 9)).collect();
    assert_eq!(each, nine_times);
}

#[test]
fn members_of_another_ring_are_refused() {
    let folder = ring("");
    let _nodes = nodes(folder.path());
    make_certificates(folder.path(), "others");
    let text = fs::read_to_string(folder.path().join("ring.toml")).expect("a file");
    fs::write(folder.path().join("other.toml"), text.replace("'certs'", "'others'")).expect("a file");
    let done = join(folder.path(), "out", &["--ring", "other.toml", "--name", SUBMITTER]).fails();
    assert!(done.stderr.contains("cannot be secured"), "{}", done.stderr);
    assert!(!folder.path().join("out").exists());
    // And those of this one are not disturbed.
    join(folder.path(), "out", &ON_RING).succeeds();
}

#[test]
fn a_ring_file_that_is_none_says_what_is_missing() {
    let folder = ring("");
    for (text, says) in [
        ("certificates = 'certs'\n", "host"),
        ("hosts = 3\n", "hosts"),
        ("[[host]]\nname = 'a b'\ncontrol = 'x:1'\ndata = 'x:2'\n", "a b"),
    ] {
        fs::write(folder.path().join("bad.toml"), text).expect("a file");
        let done = join(folder.path(), "out", &["--ring", "bad.toml"]).fails();
        assert!(done.stderr.contains("bad.toml") && done.stderr.contains(says), "{}", done.stderr);
    }
    let done = join(folder.path(), "out", &["--ring", "ring.toml"]).fails();
    assert!(done.stderr.contains("--name"), "{}", done.stderr);
    let unknown = Annulus::new(["node", "--ring", "ring.toml", "--name", SUBMITTER]).at(folder.path()).fails();
    assert!(unknown.stderr.contains("no host 'me'"), "{}", unknown.stderr);
}
