//! Rings of machines: nodes that run already, on loopback, with certificates of their ring.

use std::{
    fs,
    io::{self, ErrorKind, Read, Write},
    net::TcpStream,
    path::Path,
    time::{Duration, Instant},
};

use annulus_roundabout::secure::{self, HostFiles, HostName, Identity};

use crate::{
    ring::{HOSTS, Ring, SUBMITTER, make_certificates},
    support::Annulus,
    tables::rows_of_files,
};

fn join(folder: &Path, output: &str, more: &[&str]) -> Annulus {
    let all = ["join", "a", "b", "--on", "k", "--type", "full", "--output", output];
    Annulus::new(all.iter().chain(more)).at(folder)
}

const ON_RING: [&str; 4] = ["--ring", "ring.toml", "--name", SUBMITTER];

/// By TLS, in the clear, and by libfabric, sealed or not.
pub const WAYS: &[&str] = if cfg!(feature = "ofi") {
    &["", "trusted_network = true", "fabric = 'tcp'", "fabric = 'tcp'\ntrusted_network = true", "fabric = 'shm'"]
} else {
    &["", "trusted_network = true"]
};

#[test]
fn machines_give_what_one_process_gives_by_each_way() {
    for settings in WAYS {
        let ring = Ring::new(settings, 300);
        let _nodes = ring.nodes(["ring.toml"; 3]);
        join(ring.path(), "alone", &[]).succeeds();
        let rows = rows_of_files(&ring.path().join("alone"));
        // One join after the other.
        for output in ["one", "two"] {
            join(ring.path(), output, &ON_RING).succeeds();
            assert_eq!(rows_of_files(&ring.path().join(output)), rows);
        }
    }
}

#[test]
fn a_machine_that_is_lost_is_named_and_retried_without() {
    let ring = Ring::new("", 300);
    let mut nodes = ring.nodes(["ring.toml"; 3]);
    nodes[1].signal("KILL");
    nodes[1].exit_code();
    let done = join(ring.path(), "out", &ON_RING).fails();
    assert!(done.stderr.contains("host 1 ('beta') has failed"), "{}", done.stderr);
    assert!(!ring.path().join("out").exists());
    let retry = [&ON_RING[..], &["--retry"]].concat();
    let done = join(ring.path(), "out", &retry).succeeds();
    assert!(done.stderr.contains("starting over on the other 2"), "{}", done.stderr);
    join(ring.path(), "alone", &[]).succeeds();
    assert_eq!(rows_of_files(&ring.path().join("out")), rows_of_files(&ring.path().join("alone")));
}

/// It would do so without the rows of the host that is lost.
#[test]
fn machines_with_files_of_their_own_do_not_start_over() {
    let ring = Ring::new("", 300);
    let done = join(ring.path(), "out", &[&ON_RING[..], &["--inputs", "each", "--retry"]].concat()).fails();
    assert!(done.stderr.contains("--retry") && done.stderr.contains("--inputs each"), "{}", done.stderr);
}

/// On one machine all of them have the same, so that each pair of rows is there nine times.
#[test]
fn machines_read_files_of_their_own() {
    let ring = Ring::new("", 300);
    let _nodes = ring.nodes(["ring.toml"; 3]);
    let inner = |output, more: &[&str]| {
        let all = ["join", "a", "b", "--on", "k", "--output", output];
        Annulus::new(all.iter().chain(more)).at(ring.path()).succeeds();
        rows_of_files(&ring.path().join(output))
    };
    let alone = inner("alone", &[]);
    let each = inner("each", &[&ON_RING[..], &["--inputs", "each"]].concat());
    let nine_times: Vec<String> = alone.iter().flat_map(|row| std::iter::repeat_n(row.clone(), 9)).collect();
    assert_eq!(each, nine_times);
}

#[test]
fn members_of_another_ring_are_refused() {
    let ring = Ring::new("", 300);
    let _nodes = ring.nodes(["ring.toml"; 3]);
    make_certificates(ring.path(), "others");
    let text = fs::read_to_string(ring.path().join("ring.toml")).expect("a file");
    fs::write(ring.path().join("other.toml"), text.replace("'certs'", "'others'")).expect("a file");
    let done = join(ring.path(), "out", &["--ring", "other.toml", "--name", SUBMITTER]).fails();
    assert!(done.stderr.contains("cannot be secured"), "{}", done.stderr);
    assert!(!ring.path().join("out").exists());
    // And those of this one are not disturbed.
    join(ring.path(), "out", &ON_RING).succeeds();
}

/// Whoever can reach a machine can connect to it; these are more than it hears at a time.
#[test]
fn silent_strangers_keep_nobody_from_a_join() {
    let ring = Ring::new("", 300);
    let _nodes = ring.nodes(["ring.toml"; 3]);
    let silent = ring.addresses.map(|addresses| [(); 100].map(|()| TcpStream::connect(addresses.control)));
    assert!(silent.iter().flatten().all(Result::is_ok));
    join(ring.path(), "out", &[&ON_RING[..], &["--timeout", "2"]].concat()).succeeds();
    for oldest in silent.into_iter().filter_map(|strangers| strangers.into_iter().next()?.ok()) {
        // Long before it has been silent for as long as it may.
        oldest.set_read_timeout(Some(Duration::from_secs(2))).expect("a time");
        assert!(has_ended((&oldest).read(&mut [0])), "it is still heard");
    }
}

/// A member of the ring that says something all the time, and never what it is for.
#[test]
fn who_does_not_come_to_the_point_is_not_heard_for_ever() {
    let ring = Ring::new("", 300);
    let _node = ring.node(0, "ring.toml");
    let [me, alpha] = [SUBMITTER, HOSTS[0]].map(|name| HostName::new(name).expect("a name"));
    let files = HostFiles::of(&ring.path().join("certs"), &me);
    let identity = Identity::load(&files.authority, &files.certificate, &files.key).expect("certificates");
    let stream = TcpStream::connect(ring.addresses[0].control).expect("a node");
    let (mut stream, begin) = (secure::connect(stream, &identity, &alpha).expect("a node"), Instant::now());
    stream.stream().set_read_timeout(Some(Duration::from_millis(200))).expect("a time");
    // Spaces before a message are none of it.
    while stream.write_all(b" ").is_ok() && !has_ended(stream.read(&mut [0])) {
        assert!(begin.elapsed() < Duration::from_secs(10), "it is still heard");
    }
}

fn has_ended(read: io::Result<usize>) -> bool {
    match read {
        Ok(bytes) => bytes == 0,
        Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
    }
}

#[test]
fn a_ring_file_that_is_none_says_what_is_missing() {
    let ring = Ring::new("", 300);
    for (text, says) in [
        ("certificates = 'certs'\n", "host"),
        ("hosts = 3\n", "hosts"),
        ("[[host]]\nname = 'a b'\ncontrol = 'x:1'\ndata = 'x:2'\n", "a b"),
    ] {
        fs::write(ring.path().join("bad.toml"), text).expect("a file");
        let done = join(ring.path(), "out", &["--ring", "bad.toml"]).fails();
        assert!(done.stderr.contains("bad.toml") && done.stderr.contains(says), "{}", done.stderr);
    }
    let done = join(ring.path(), "out", &["--ring", "ring.toml"]).fails();
    assert!(done.stderr.contains("--name"), "{}", done.stderr);
    if cfg!(not(feature = "ofi")) {
        let text = fs::read_to_string(ring.path().join("ring.toml")).expect("a file");
        fs::write(ring.path().join("fabric.toml"), format!("fabric = 'verbs'\n{text}")).expect("a file");
        let done = join(ring.path(), "out", &["--ring", "fabric.toml"]).fails();
        assert!(done.stderr.contains("built without libfabric"), "{}", done.stderr);
    }
    let unknown = Annulus::new(["node", "--ring", "ring.toml", "--name", SUBMITTER]).at(ring.path()).fails();
    assert!(unknown.stderr.contains("no host 'me'"), "{}", unknown.stderr);
}
