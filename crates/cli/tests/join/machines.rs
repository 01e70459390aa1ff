//! Rings of machines: running nodes on loopback, with certificates of their ring.

use std::{
    fs,
    io::{self, ErrorKind, Read, Write},
    net::TcpStream,
    path::Path,
    time::{Duration, Instant},
};

use annulus_roundabout::secure::{self, HostFiles, HostName, Identity, Role};

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

/// The ways in which rows travel: by TLS, in the clear, and by libfabric, sealed or not.
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
    assert!(done.stderr.contains("restarting on the other 2"), "{}", done.stderr);
    join(ring.path(), "alone", &[]).succeeds();
    assert_eq!(rows_of_files(&ring.path().join("out")), rows_of_files(&ring.path().join("alone")));
}

/// A join that restarted would lack the rows of the lost host.
#[test]
fn machines_with_files_of_their_own_do_not_start_over() {
    let ring = Ring::new("", 300);
    let done = join(ring.path(), "out", &[&ON_RING[..], &["--inputs", "each", "--retry"]].concat()).fails();
    assert!(done.stderr.contains("--retry") && done.stderr.contains("--inputs each"), "{}", done.stderr);
}

/// On one machine all hosts have the same files, so each pair of rows comes out nine times.
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
    for more in [&[][..], &["--retry", "2"]] {
        let of_others = [&["--ring", "other.toml", "--name", SUBMITTER], more].concat();
        let error = join(ring.path(), "out", &of_others).fails().stderr;
        assert!(error.contains("cannot be secured") && error.contains("one authority: copy them again"), "{error}");
        // The machines are there, so a join without one of them would fail, too.
        assert!(!error.contains("--retry") && !error.contains("start it again"), "{error}");
        assert!(!error.contains("restarting"), "{error}");
    }
    assert!(!ring.path().join("out").exists());
    // The node still accepts joins.
    join(ring.path(), "out", &ON_RING).succeeds();
}

/// Anyone who can reach a machine can connect to it. These are more connections than it hears at a
/// time.
#[test]
fn silent_strangers_keep_nobody_from_a_join() {
    let ring = Ring::new("", 300);
    let _nodes = ring.nodes(["ring.toml"; 3]);
    let silent = ring.addresses.map(|addresses| [(); 100].map(|()| TcpStream::connect(addresses.control)));
    assert!(silent.iter().flatten().all(Result::is_ok));
    join(ring.path(), "out", &[&ON_RING[..], &["--timeout", "2"]].concat()).succeeds();
    for oldest in silent.into_iter().filter_map(|strangers| strangers.into_iter().next()?.ok()) {
        // Long before its time to send a greeting is over.
        oldest.set_read_timeout(Some(Duration::from_secs(2))).expect("a time");
        assert!(has_ended((&oldest).read(&mut [0])), "it is still heard");
    }
}

/// A member of the ring that sends bytes all the time, but never a whole greeting.
#[test]
fn who_does_not_come_to_the_point_is_not_heard_for_ever() {
    let ring = Ring::new("", 300);
    let _node = ring.node(0, "ring.toml");
    let [me, alpha] = [SUBMITTER, HOSTS[0]].map(|name| HostName::new(name).expect("a name"));
    let files = HostFiles::of_role(&ring.path().join("certs"), Role::Submitter, &me);
    let identity = Identity::load(&files.authority, &files.certificate, &files.key).expect("certificates");
    let stream = TcpStream::connect(ring.addresses[0].control).expect("a node");
    let (mut stream, begin) = (secure::connect(stream, &identity, &alpha).expect("a node"), Instant::now());
    stream.stream().set_read_timeout(Some(Duration::from_millis(200))).expect("a time");
    // Spaces before a message are not part of it.
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
        ("[[host]]\nname = 'a b'\ncontrol = 'x:1'\ndata = 'x:2'\n", "line 2: name: invalid host name 'a b'"),
        ("[[host]]\nname = 'a'\ncontrol = 'foo'\ndata = 'x:2'\n", "line 3: control of host 'a': invalid address 'foo'"),
        (
            "[[host]]\nname = 'a'\ncontrol = 'x:1'\ndata = 'x:70000'\n",
            "line 4: data of host 'a': invalid address 'x:70000'",
        ),
        ("[[host]]\nname = 'a'\ncontrol = 'x:0'\ndata = 'x:1'\n", "'x:0'"),
        ("[[host]]\nname = 'a'\ncontrol = 'fd00::1:7400'\ndata = 'x:1'\n", "[fd00::1]:7400"),
        ("[[host]]\nname = 'a'\ncontrol = 'x:1'\ndata = 'x:1'\n", "'x:1' is control of host 'a' in line 3, too"),
        (
            "[[host]]\nname = 'a'\ncontrol = 'x:1'\ndata = 'x:2'\n[[host]]\nname = 'b'\ncontrol = 'x:3'\ndata = \
                'x:1'\n",
            "line 8: data of host 'b': 'x:1' is control of host 'a' in line 3, too",
        ),
        (
            "[[host]]\nname = 'a'\ncontrol = 'x:1'\ndata = 'x:2'\n[[host]]\nname = 'a'\ncontrol = 'x:3'\ndata = \
                'x:4'\n",
            "line 6: host 'a' is in line 2, too",
        ),
    ] {
        fs::write(ring.path().join("bad.toml"), text).expect("a file");
        let done = join(ring.path(), "out", &["--ring", "bad.toml"]).fails();
        assert!(done.stderr.contains("bad.toml") && done.stderr.contains(says), "{}", done.stderr);
    }
    let done = Annulus::new(["node", "--ring", "ring.toml"]).at(ring.path()).fails();
    assert!(done.stderr.contains("several keys of hosts") && done.stderr.contains("--name"), "{}", done.stderr);
    if cfg!(not(feature = "ofi")) {
        let text = fs::read_to_string(ring.path().join("ring.toml")).expect("a file");
        fs::write(ring.path().join("fabric.toml"), format!("fabric = 'verbs'\n{text}")).expect("a file");
        let done = join(ring.path(), "out", &["--ring", "fabric.toml"]).fails();
        assert!(done.stderr.contains("built without libfabric"), "{}", done.stderr);
    }
    let unknown = Annulus::new(["node", "--ring", "ring.toml", "--name", SUBMITTER]).at(ring.path()).fails();
    // A submitter is not a host, even if its certificate exists.
    assert!(unknown.stderr.contains("no 'certs/host-me-key.pem'"), "{}", unknown.stderr);
}

/// A host's certificate does not allow orders to other hosts.
#[test]
fn hosts_submit_no_joins() {
    let ring = Ring::new("", 300);
    let done = join(ring.path(), "out", &["--ring", "ring.toml", "--name", HOSTS[0]]).fails();
    assert!(done.stderr.contains("submitter-alpha-key.pem"), "{}", done.stderr);
    let _nodes = ring.nodes(["ring.toml"; 3]);
    let certs = ring.path().join("certs");
    for end in [".pem", "-key.pem"] {
        fs::copy(certs.join(format!("host-alpha{end}")), certs.join(format!("submitter-alpha{end}"))).expect("a copy");
    }
    let done = join(ring.path(), "out", &["--ring", "ring.toml", "--name", HOSTS[0]]).fails();
    assert!(done.stderr.contains("cannot be secured") && done.stderr.contains("role"), "{}", done.stderr);
    assert!(!ring.path().join("out").exists());
}

#[test]
fn nodes_read_and_write_in_their_folders_alone() {
    let ring = Ring::new("", 300);
    fs::create_dir(ring.path().join("joined")).expect("a folder");
    let start = |more: &[&str]| {
        let node = ["node", "--ring", "ring.toml", "--name", HOSTS[0]];
        Annulus::new(node.iter().chain(more)).at(ring.path())
    };
    let done = start(&["--allow-write", "joined"]).fails();
    assert!(done.stderr.contains("--allow-read"), "{}", done.stderr);
    let done = start(&["--allow-read", "a"]).fails();
    assert!(done.stderr.contains("--allow-write"), "{}", done.stderr);

    let allow = ["--allow-read", "a", "--allow-read", "b", "--allow-write", "joined"];
    let _nodes = [0, 1, 2].map(|place| ring.node_with(place, "ring.toml", &allow));
    join(ring.path(), "joined/one", &ON_RING).succeeds();
    let done = join(ring.path(), "elsewhere", &ON_RING).fails();
    assert!(done.stderr.contains("cannot write to '") && done.stderr.contains("elsewhere"), "{}", done.stderr);
    assert!(!ring.path().join("elsewhere").exists());
    let secret = ["join", "certs/*.csv", "b", "--on", "k", "--output", "joined/two"];
    fs::write(ring.path().join("certs/keys.csv"), "k\n1\n").expect("a file");
    let done = Annulus::new(secret.iter().chain(&ON_RING)).at(ring.path()).fails();
    assert!(done.stderr.contains("cannot read '") && done.stderr.contains("certs"), "{}", done.stderr);
}

#[test]
fn a_node_beside_the_authoritys_key_does_not_start() {
    let ring = Ring::new("", 300);
    fs::write(ring.path().join("certs/ca-key.pem"), "").expect("a file");
    let node = ["node", "--ring", "ring.toml", "--name", HOSTS[0], "--allow-read", ".", "--allow-write", "."];
    let done = Annulus::new(node).at(ring.path()).fails();
    assert!(done.stderr.contains("ca-key.pem") && done.stderr.contains("move it"), "{}", done.stderr);
}

#[test]
fn nodes_log_what_becomes_of_joins() {
    let ring = Ring::new("", 300);
    let mut nodes = ring.nodes(["ring.toml"; 3]);
    join(ring.path(), "out", &ON_RING).succeeds();
    let failing = ["join", "a", "b", "--where", "1 / (a.k - a.k) = b.k", "--output", "failed"];
    Annulus::new(failing.iter().chain(&ON_RING)).at(ring.path()).fails();
    // Any host may be the first that fails. The others then log that it gave up.
    let stopped = nodes.iter_mut().map(|node| {
        node.signal("INT");
        assert_eq!(node.exit_code(), Some(130));
        node.stderr()
    });
    let log: String = stopped.collect();
    let line =
        |text: &str| log.lines().find(|line| line.contains(text)).unwrap_or_else(|| panic!("no '{text}' in {log}"));
    for (text, level) in [
        ("host alpha accepts joins", " INFO "),
        ("orders from submitter me", " INFO "),
        ("the join begins", " INFO "),
        ("the join succeeded", " INFO "),
        ("the join failed", " ERROR "),
    ] {
        let line = line(text);
        // As in 2026-01-31T12:00:00.000000Z.
        assert!(line.starts_with("20") && line.contains('T') && line.contains(level), "{line}");
    }
    let id = |text: &str| line(text).rsplit_once("join=").map(|(_, id)| id.to_owned());
    assert_eq!((id("the join begins"), id("the join begins").is_some()), (id("the join succeeded"), true));
    assert_ne!(id("the join failed"), id("the join succeeded"));
}
