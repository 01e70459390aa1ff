//! Machines that are cut off by the network, or that freeze, in the middle of a join.
//!
//! `ANNULUS_JOIN_FAULTS` sets the number of seeds (2).

use std::{
    fs, thread,
    time::{Duration, Instant},
};

use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::{
    disturbed::{Ended, TIMEOUT, visible},
    network::Network,
    ring::{Addresses, Ring, SUBMITTER},
    support::{Annulus, Done, Running},
    tables::rows_of_files,
};

/// The machine that is lost.
const BETA: usize = 1;

/// A ring whose beta is behind a network, and the rows of an undisturbed join.
struct Scene {
    ring: Ring,
    network: Network,
    nodes: [Running; 3],
    rows: Vec<String>,
    /// The number of bytes that go to and from beta.
    bytes: u64,
}

impl Scene {
    fn new() -> Self {
        let ring = Ring::new("", 3000);
        let network = Network::default();
        let [alpha, beta, gamma] = ring.addresses;
        let far = Addresses { control: network.way(beta.control), data: network.way(beta.data) };
        ring.write_file("to-beta.toml", &[alpha, far, gamma]);
        ring.write_file("of-beta.toml", &[alpha, beta, Addresses { data: network.way(gamma.data), ..gamma }]);
        let nodes = ring.nodes(["to-beta.toml", "of-beta.toml", "to-beta.toml"]);
        let mut scene = Self { ring, network, nodes, rows: Vec::new(), bytes: 0 };
        scene.join(&[]).succeeds();
        (scene.rows, scene.bytes) = (rows_of_files(&scene.output()), scene.network.passed());
        fs::remove_dir_all(scene.output()).expect("it is removed");
        scene
    }

    fn output(&self) -> std::path::PathBuf {
        self.ring.path().join("out")
    }

    fn join(&self, options: &[&str]) -> Annulus {
        let arguments = ["join", "a", "b", "--on", "k", "--type", "full", "--output", "out", "--fragment-size", "8K"];
        let timeout = TIMEOUT.as_secs().to_string();
        let ring = ["--ring", "to-beta.toml", "--name", SUBMITTER, "--timeout", &timeout];
        Annulus::new(arguments.iter().chain(&ring).chain(options)).at(self.ring.path())
    }

    /// Runs a join in which beta is lost at a moment that depends on the seed.
    fn lose_beta(&self, seed: u64, way: Way, options: &[&str]) -> Ended {
        let bytes = StdRng::seed_from_u64(seed).random_range(0..self.bytes);
        self.network.mend();
        if way == Way::Cut {
            self.network.cut_after(bytes);
        }
        let mut running = self.join(options).start();
        let is_reached = |network: &Network| network.passed() >= bytes;
        while !is_reached(&self.network) && !running.has_ended() {
            thread::yield_now();
        }
        match way {
            Way::Cut => {}
            Way::Frozen => self.nodes[BETA].signal("STOP"),
            Way::Killed => self.nodes[BETA].signal("KILL"),
        }
        let ended = Ended::of(running);
        let (code, after) = (ended.code, ended.after);
        println!("seed {seed}, {way:?} after {bytes} of {} bytes: {code:?}, {after:?}: {}", self.bytes, ended.stderr);
        ended
    }

    /// Restores beta, and checks that the ring joins as before.
    fn find_beta(&mut self) {
        self.network.mend();
        if self.nodes[BETA].has_ended() {
            self.nodes[BETA] = self.ring.node(BETA, "of-beta.toml");
        } else {
            self.nodes[BETA].signal("CONT");
        }
        // Beta may not have noticed yet that it was cut off.
        let deadline = Instant::now() + Duration::from_secs(60);
        let done: Done = loop {
            match self.join(&["--overwrite"]).tries() {
                Ok(done) => break done,
                Err(failed) => assert!(Instant::now() < deadline, "{}", failed.stderr),
            }
        };
        assert_eq!(rows_of_files(&self.output()), self.rows, "{}", done.stderr);
        fs::remove_dir_all(self.output()).expect("it is removed");
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Cut,
    Frozen,
    Killed,
}

fn joins_fail(way: Way) {
    let mut scene = Scene::new();
    let mut failed = 0;
    for seed in crate::seeds("ANNULUS_JOIN_FAULTS", 2) {
        let ended = scene.lose_beta(seed, way, &[]);
        if ended.code == Some(0) {
            // It was already done.
            assert_eq!(rows_of_files(&scene.output()), scene.rows);
            fs::remove_dir_all(scene.output()).expect("it is removed");
        } else {
            failed += 1;
            assert_eq!(ended.code, Some(1));
            assert!(ended.stderr.contains("host 1 ('beta') has failed"), "{}", ended.stderr);
            assert_eq!(visible(&scene.output()), [""; 0]);
        }
        scene.find_beta();
    }
    println!("{failed} joins failed");
}

#[test]
fn a_machine_that_is_killed_is_named_and_nothing_is_seen() {
    joins_fail(Way::Killed);
}

/// The machines consider it gone and remove their files, including those that they have published.
#[test]
fn a_coordinator_that_stands_still_for_too_long_does_not_take_the_join_for_done() {
    let mut scene = Scene::new();
    for seed in crate::seeds("ANNULUS_JOIN_FAULTS", 2) {
        let bytes = StdRng::seed_from_u64(seed).random_range(0..scene.bytes);
        scene.network.mend();
        let mut running = scene.join(&[]).start();
        while scene.network.passed() < bytes && !running.has_ended() {
            thread::yield_now();
        }
        if !running.has_ended() {
            running.signal("STOP");
            // A real delay: it is frozen for longer than the others wait.
            thread::sleep(TIMEOUT.mul_f64(1.5));
            running.signal("CONT");
        }
        let ended = Ended::of(running);
        println!("seed {seed}, after {bytes} of {} bytes: {:?}: {}", scene.bytes, ended.code, ended.stderr);
        if ended.code == Some(0) {
            assert_eq!(rows_of_files(&scene.output()), scene.rows);
            fs::remove_dir_all(scene.output()).expect("it is removed");
        } else {
            assert!(ended.stderr.contains("received nothing from here"), "{}", ended.stderr);
            assert_eq!(visible(&scene.output()), [""; 0]);
        }
        scene.find_beta();
    }
}

/// The coordinator is frozen meanwhile.
#[test]
fn a_node_that_is_interrupted_takes_its_files_away() {
    let mut scene = Scene::new();
    let own = scene.output().join("host-01");
    scene.network.mend();
    scene.network.cut_after(scene.bytes / 2);
    let mut running = scene.join(&[]).start();
    running.wait_until(|| own.join(".annulus/work").exists());
    running.signal("STOP");
    scene.nodes[BETA].signal("INT");
    assert_eq!(scene.nodes[BETA].exit_code(), Some(130));
    assert!(!own.exists());
    running.signal("CONT");
    assert_eq!(Ended::of(running).code, Some(1));
    scene.find_beta();
}

#[test]
fn a_machine_that_is_cut_off_is_named_and_nothing_is_seen() {
    joins_fail(Way::Cut);
}

#[test]
fn a_machine_that_stands_still_is_named_and_nothing_is_seen() {
    joins_fail(Way::Frozen);
}

/// The lost machine keeps writing to its folder until it notices.
#[test]
fn joins_go_on_without_a_machine_that_is_lost() {
    let mut scene = Scene::new();
    let ways = [Way::Killed, Way::Cut, Way::Frozen].into_iter().cycle();
    for (seed, way) in crate::seeds("ANNULUS_JOIN_FAULTS", 3).zip(ways) {
        let ended = scene.lose_beta(seed, way, &["--retry"]);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        assert_eq!(rows_of_files(&scene.output()), scene.rows);
        scene.find_beta();
    }
}
