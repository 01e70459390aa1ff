//! Ctrl-C while the machines of a ring are connecting to each other.

use std::{cell::Cell, net::TcpListener, time::Duration};

use crate::{
    disturbed::{Ended, tree, visible},
    machines::WAYS,
    ring::{Addresses, Ring, SUBMITTER},
    support::{Annulus, Running},
    tables::rows_of_files,
};

/// The timeout of connecting; the machine that is waited for does not answer in this time.
const TIMEOUT: &str = "60";
/// A limit that is much shorter than the timeout, but long enough for a busy machine.
const SOON: Duration = Duration::from_secs(15);

/// A ring whose machines cannot connect: alpha takes a silent listener for beta.
struct Scene {
    ring: Ring,
    nodes: [Running; 3],
    silent: TcpListener,
}

impl Scene {
    fn new(settings: &str) -> Self {
        let ring = Ring::new(settings, 300);
        let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
        silent.set_nonblocking(true).expect("a listener");
        let [alpha, beta, gamma] = ring.addresses;
        let elsewhere = Addresses { data: silent.local_addr().expect("an address"), ..beta };
        ring.write_file("to-nobody.toml", &[alpha, elsewhere, gamma]);
        let nodes = ring.nodes(["to-nobody.toml", "ring.toml", "ring.toml"]);
        Self { ring, nodes, silent }
    }

    fn join(&self, options: &[&str]) -> Annulus {
        let arguments = ["join", "a", "b", "--on", "k", "--output", "out", "--ring", "ring.toml", "--name", SUBMITTER];
        let timeout = ["--timeout", TIMEOUT];
        Annulus::new(arguments.iter().chain(&timeout).chain(options)).at(self.ring.path())
    }

    /// Runs `disturb` when alpha has connected to the silent listener, and waits for the end of the
    /// join, which comes soon.
    fn disturbed(&mut self, options: &[&str], disturb: impl FnOnce(&Running, &mut [Running; 3])) -> Ended {
        let (mut running, connected) = (self.join(options).start(), Cell::new(None));
        running.wait_until(|| self.silent.accept().map(|stream| connected.set(Some(stream))).is_ok());
        disturb(&running, &mut self.nodes);
        let ended = Ended::of(running);
        assert!(ended.after < SOON, "after {:?}: {}", ended.after, ended.stderr);
        ended
    }
}

/// The join waits for its hosts, which leave no files.
#[test]
fn a_join_whose_machines_look_for_each_other_is_interrupted() {
    for settings in WAYS {
        let mut scene = Scene::new(settings);
        let ended = scene.disturbed(&[], |running, _| running.signal("INT"));
        assert_eq!(ended.code, Some(130), "{}", ended.stderr);
        let output = scene.ring.path().join("out");
        assert!(!output.exists(), "{settings}: {:?} are left", tree(&output));
    }
}

#[test]
fn a_node_that_looks_for_its_neighbours_is_interrupted() {
    let mut scene = Scene::new("");
    let output = scene.ring.path().join("out");
    let interrupt = |_: &Running, nodes: &mut [Running; 3]| {
        nodes[0].signal("INT");
        assert_eq!(nodes[0].exit_code(), Some(130));
        assert!(!output.join("host-00").exists());
    };
    let ended = scene.disturbed(&[], interrupt);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains("host 0 ('alpha') has failed"), "{}", ended.stderr);
    assert_eq!(visible(&output), [""; 0]);
}

/// As without a machine that is lost.
#[test]
fn machines_go_on_without_a_node_that_is_interrupted() {
    let mut scene = Scene::new("");
    let ended = scene.disturbed(&["--retry"], |_, nodes| nodes[0].signal("INT"));
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    Annulus::new(["join", "a", "b", "--on", "k", "--output", "alone"]).at(scene.ring.path()).succeeds();
    assert_eq!(rows_of_files(&scene.ring.path().join("out")), rows_of_files(&scene.ring.path().join("alone")));
}
