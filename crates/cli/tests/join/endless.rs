//! Joins that would run for minutes, stopped at a random moment: by Ctrl-C, or because a host or
//! the coordinator ends. When they report their end, no process runs and no file is left.
//!
//! `ANNULUS_JOIN_STOPS` sets the number of seeds (4) of each test.

use std::{
    fs,
    ops::Range,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::{
    disturbed::{Ended, Scene, tree},
    ring::{HOSTS, Ring, SUBMITTER},
    support::{Annulus, Running, processes::ticks},
    tables::write_parquet,
};

/// The number of rows of either side. They make billions of pairs, and each fragment meets all rows
/// of a host.
const ROWS: i64 = 60_000;
/// A cross join, a join with a single key, and a join with a band that contains all rows.
const JOINS: [&[&str]; 3] = [
    &["--where", "a.n + b.n >= 0", "--algorithm", "loops"],
    &["--on", "hot", "--algorithm", "hash"],
    &["--where", "a.n BETWEEN b.n - 1000000 AND b.n + 1000000"],
];
const TYPES: [&str; 3] = ["inner", "full", "semi"];
/// The time within which hosts are free, and the additional time on a busy machine.
const FREE: Duration = Duration::from_secs(2);
const SLACK: Duration = Duration::from_secs(10);
/// The processor time of a host after which it is stopped, in hundredths of a second.
const MOMENTS: Range<u64> = 1..150;

fn seeds() -> Range<u64> {
    crate::seeds("ANNULUS_JOIN_STOPS", 4)
}

/// Writes inputs whose join takes minutes, in two folders.
fn write_inputs(folder: &Path) {
    for name in ["a", "b"] {
        let column = |value: fn(i64) -> i64| Arc::new((0..ROWS).map(value).collect::<Int64Array>()) as ArrayRef;
        let columns = [("hot", column(|_| 7)), ("n", column(|row| row))];
        fs::remove_dir_all(folder.join(name)).ok();
        write_parquet(&folder.join(name), &RecordBatch::try_from_iter(columns).expect("a table"), 3, 10_000);
    }
}

/// The choices of a seed: how rows are joined, and when the join is stopped.
struct Plan {
    arguments: Vec<&'static str>,
    moment: u64,
}

impl Plan {
    fn new(seed: u64, rng: &mut StdRng) -> Self {
        let join = JOINS[seed as usize % JOINS.len()];
        let inner = ["--type", TYPES[rng.random_range(0..TYPES.len())]];
        // A semi join would need only one pair of each row.
        let inner = if inner[1] == "semi" && join[1] != "hot" { ["--type", "left"] } else { inner };
        let format = ["--format", ["parquet", "arrow"][rng.random_range(0..2)]];
        let arguments = [join, &inner[..], &format[..]].concat();
        Self { arguments, moment: rng.random_range(MOMENTS) }
    }
}

fn signal(pid: u32, name: &str) {
    // The process may have ended just now.
    Command::new("kill").args(["-s", name, &pid.to_string()]).stderr(Stdio::null()).status().expect("kill runs");
}

/// Waits until one of the processes has computed for `moment` ticks since `before`.
fn wait_for_moment(running: &mut Running, pids: impl Fn() -> Vec<u32>, before: &[u64], moment: u64) {
    let reached = || {
        let now = pids().into_iter().map(|pid| ticks(pid).unwrap_or(0));
        now.zip(before.iter().chain(std::iter::repeat(&0))).any(|(now, before)| now >= before + moment)
    };
    while !reached() {
        assert!(!running.has_ended(), "it ended too early: {}", running.stderr());
        thread::yield_now();
    }
}

/// Returns the files below a folder that a process has open, including deleted ones.
fn open_files(pid: u32, folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| fs::read_link(entry.path()).ok())
        .filter(|path| path.starts_with(folder))
        .collect()
}

/// Runs a join on this machine, which `stop` stops; it gets the join's processes. Returns how the
/// join ended.
fn stopped_here(scene: &Scene, seed: u64, stop: impl Fn(&mut StdRng, &Running, &[u32])) -> Ended {
    let mut rng = StdRng::seed_from_u64(seed);
    let Plan { arguments, moment } = Plan::new(seed, &mut rng);
    let hosts = rng.random_range(1..=3);
    let mut running = scene.join_by(hosts, &[&arguments[..], &["--timeout", "2"]].concat()).start();
    let coordinator = running.id();
    wait_for_moment(&mut running, || scene.hosts(coordinator), &[], moment);
    let processes = scene.hosts(coordinator);
    stop(&mut rng, &running, &processes);
    let ended = Ended::of(running);
    println!("seed {seed}, {arguments:?} on {hosts} after {moment} ticks: {:?} after {:?}", ended.code, ended.after);
    ended
}

fn scene() -> Scene {
    let scene = Scene::new();
    write_inputs(scene.path());
    scene
}

#[track_caller]
fn assert_in_time(after: Duration) {
    assert!(after < FREE + SLACK, "it took {after:?}");
}

#[test]
fn an_endless_join_that_is_interrupted_leaves_nothing() {
    let scene = scene();
    for seed in seeds() {
        let ended = stopped_here(&scene, seed, |_, running, _| running.signal("INT"));
        assert_eq!(ended.code, Some(130), "{}", ended.stderr);
        assert!(ended.stderr.contains("the partial output is removed"), "{}", ended.stderr);
        scene.assert_nothing_left();
        assert_in_time(ended.after);
    }
}

#[test]
fn an_endless_join_whose_host_is_killed_leaves_nothing() {
    let scene = scene();
    for seed in seeds() {
        let ended = stopped_here(&scene, seed, |rng, _, hosts| signal(hosts[rng.random_range(0..hosts.len())], "KILL"));
        assert_eq!(ended.code, Some(1), "{}", ended.stderr);
        assert!(ended.stderr.contains("has failed: its process ended with signal: 9"), "{}", ended.stderr);
        scene.assert_nothing_left();
        assert_in_time(ended.after);
    }
}

#[test]
fn hosts_of_an_endless_join_end_with_their_coordinator() {
    let scene = scene();
    for seed in seeds() {
        stopped_here(&scene, seed, |_, running, _| running.signal("KILL"));
        let killed = Instant::now();
        scene.wait_for_ends();
        assert_in_time(killed.elapsed());
        scene.assert_nothing_runs();
        // No process is left to remove the coordinator's own files.
        let left = tree(&scene.output);
        assert!(left.iter().all(|file| file.contains("out/.annulus/")), "{left:?} are left");
        fs::remove_dir_all(&scene.output).expect("it is removed");
    }
}

/// Without the second interrupt, the join would wait a minute for the frozen hosts.
#[test]
fn a_second_interrupt_ends_a_join_at_once() {
    let scene = scene();
    let mut running = scene.join_by(2, &[JOINS[0], &["--timeout", "60"]].concat()).start();
    let coordinator = running.id();
    wait_for_moment(&mut running, || scene.hosts(coordinator), &[], 1);
    let hosts = scene.hosts(coordinator);
    hosts.iter().for_each(|&host| signal(host, "STOP"));
    running.signal("INT");
    running.wait_for_stderr("Ctrl-C again");
    running.signal("INT");
    let ended = Ended::of(running);
    assert_eq!(ended.code, Some(130), "{}", ended.stderr);
    scene.assert_nothing_left();
}

/// Three machines, and inputs whose join would take minutes.
struct Machines {
    ring: Ring,
    nodes: [Running; 3],
}

impl Machines {
    fn new() -> Self {
        let ring = Ring::new("", 300);
        let nodes = ring.nodes(["ring.toml"; 3]);
        let endless = ring.path().join("endless");
        fs::create_dir(&endless).expect("a folder");
        write_inputs(&endless);
        Self { ring, nodes }
    }

    fn output(&self) -> PathBuf {
        self.ring.path().join("out")
    }

    fn join(&self, inputs: [&str; 2], output: &str, more: &[&str]) -> Annulus {
        let ring = ["--output", output, "--ring", "ring.toml", "--name", SUBMITTER, "--timeout", "2", "--threads", "1"];
        Annulus::new(["join"].iter().chain(&inputs).chain(&ring).chain(more)).at(self.ring.path())
    }

    /// Starts such a join, and waits until one of the nodes has computed for `moment` ticks.
    fn start(&self, arguments: &[&str], moment: u64) -> Running {
        let pids = self.nodes.each_ref().map(Running::id);
        let before = pids.map(|pid| ticks(pid).expect("a node"));
        let mut running = self.join(["a=endless/a", "b=endless/b"], "out", arguments).start();
        wait_for_moment(&mut running, || pids.to_vec(), &before, moment);
        running
    }

    /// Runs such a join, which `stop` stops; it gets the coordinator and a node's number.
    fn stopped(&self, seed: u64, stop: impl Fn(&Running, &Running)) -> (Ended, usize) {
        let mut rng = StdRng::seed_from_u64(seed);
        let Plan { arguments, moment } = Plan::new(seed, &mut rng);
        let running = self.start(&arguments, moment);
        let victim = rng.random_range(0..HOSTS.len());
        stop(&running, &self.nodes[victim]);
        let ended = Ended::of(running);
        println!("seed {seed}, {arguments:?} after {moment} ticks: {:?} after {:?}", ended.code, ended.after);
        (ended, victim)
    }

    /// Checks that no node has files of the join open, and that they accept another join.
    fn assert_free(&self, stopped: Instant) {
        let output = self.output();
        let busy = |node: &Running| !open_files(node.id(), &output).is_empty();
        while self.nodes.iter().any(busy) {
            assert_in_time(stopped.elapsed());
            thread::yield_now();
        }
        while let Err(failed) = self.join(["a", "b"], "next", &["--on", "k", "--overwrite"]).tries() {
            assert!(failed.stderr.contains("is busy with"), "{}", failed.stderr);
            assert_in_time(stopped.elapsed());
        }
        println!("free after {:?}", stopped.elapsed());
    }
}

#[test]
fn machines_are_free_when_an_endless_join_is_interrupted() {
    let machines = Machines::new();
    for seed in seeds() {
        let (ended, _) = machines.stopped(seed, |running, _| running.signal("INT"));
        let said = Instant::now();
        // When the command reports that the output is removed, it is removed.
        let output = machines.output();
        assert!(ended.stderr.contains("the partial output is removed"), "{}", ended.stderr);
        assert_eq!(ended.code, Some(130));
        assert!(!output.exists(), "{:?} is left", tree(&output));
        let open: Vec<_> = machines.nodes.iter().flat_map(|node| open_files(node.id(), &output)).collect();
        assert!(open.is_empty(), "{open:?} are open");
        assert_in_time(ended.after);
        machines.assert_free(said);
    }
}

#[test]
fn machines_are_free_when_one_of_an_endless_join_is_killed() {
    let mut machines = Machines::new();
    for seed in seeds() {
        let (ended, victim) = machines.stopped(seed, |_, node| node.signal("KILL"));
        let said = Instant::now();
        assert_eq!(ended.code, Some(1), "{}", ended.stderr);
        assert!(ended.stderr.contains(&format!("host {victim} ('{}') has failed", HOSTS[victim])), "{}", ended.stderr);
        assert!(!machines.output().exists(), "{:?} is left", tree(&machines.output()));
        machines.nodes[victim].exit_code();
        machines.nodes[victim] = machines.ring.node(victim, "ring.toml");
        machines.assert_free(said);
    }
}

#[test]
fn machines_are_free_when_the_coordinator_of_an_endless_join_is_killed() {
    let machines = Machines::new();
    for seed in seeds() {
        machines.stopped(seed, |running, _| running.signal("KILL"));
        machines.assert_free(Instant::now());
        let left = tree(&machines.output());
        assert!(left.iter().all(|file| file.contains("out/.annulus/")), "{left:?} are left");
        fs::remove_dir_all(machines.output()).ok();
    }
}

/// The join restarts at once, although the first attempt left files.
#[test]
fn an_endless_join_starts_over_without_a_machine_that_is_killed() {
    let mut machines = Machines::new();
    let mut running = machines.start(&[JOINS[1], &["--retry"]].concat(), 100);
    machines.nodes[1].signal("KILL");
    running.wait_for_stderr("restarting on the other 2");
    let others = [0, 2].map(|place| machines.nodes[place].id());
    let before = others.map(|pid| ticks(pid).expect("a node"));
    wait_for_moment(&mut running, || others.to_vec(), &before, 50);
    running.signal("INT");
    let ended = Ended::of(running);
    assert_eq!(ended.code, Some(130), "{}", ended.stderr);
    machines.nodes[1] = machines.ring.node(1, "ring.toml");
    machines.assert_free(Instant::now());
}

/// Several joins at the same time: those that wait run in the order of their requests, and one that
/// is interrupted leaves the queue.
#[test]
fn joins_wait_for_machines_that_are_busy() {
    let machines = Machines::new();
    let mut first = machines.start(JOINS[1], 100);
    let refused = machines.join(["a", "b"], "next", &["--on", "k"]).fails();
    assert!(
        refused.stderr.contains("is busy with other joins") && refused.stderr.contains("--wait"),
        "{}",
        refused.stderr
    );
    assert!(!refused.stderr.contains("has failed"), "{}", refused.stderr);
    let wait = |output| machines.join(["a", "b"], output, &["--on", "k", "--wait", "60"]).start();
    let mut second = wait("second");
    second.wait_for_stderr("is busy with another join; waiting for up to 60 s");
    let mut third = wait("third");
    third.wait_for_stderr("is busy with 2 other joins; waiting for up to 60 s");
    let late = machines.join(["a", "b"], "late", &["--on", "k", "--wait", "1"]).fails();
    assert!(late.stderr.contains("is busy with other joins, after a wait of 1 s"), "{}", late.stderr);
    second.signal("INT");
    let ended = Ended::of(second);
    assert_eq!(ended.code, Some(130), "{}", ended.stderr);
    assert!(!first.has_ended(), "{}", first.stderr());
    first.signal("INT");
    assert_eq!(Ended::of(first).code, Some(130));
    assert_eq!(third.exit_code(), Some(0));
    assert!(machines.ring.path().join("third/manifest.json").exists());
    for gone in ["next", "second", "late"] {
        assert!(!machines.ring.path().join(gone).exists(), "{gone} is left");
    }
}
