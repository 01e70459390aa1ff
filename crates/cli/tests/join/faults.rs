//! Joins whose hosts or coordinator are killed, frozen or interrupted, or whose disk is full. They
//! leave no files.
//!
//! `ANNULUS_JOIN_FAULTS` sets the number of seeds (2).

use std::{
    ops::Range,
    path::PathBuf,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::{
    disturbed::{Ended, Scene, tree},
    support::Running,
};

fn seeds() -> Range<u64> {
    crate::seeds("ANNULUS_JOIN_FAULTS", 2)
}

/// A running join, at the moment at which it will be disturbed.
struct Moment {
    running: Running,
    hosts: Vec<u32>,
}

impl Moment {
    /// Starts a join, and waits until all its hosts are running. Then waits for a random part of
    /// the time that a join takes.
    fn reach(scene: &Scene, rng: &mut StdRng, hosts: usize, whole: Duration, options: &[&str]) -> Self {
        let mut running = scene.join(hosts, options).start();
        let mut found = Vec::new();
        // When the last host has its folder, all hosts have received their task.
        let last = scene.output.join(format!("host-{:02}", hosts - 1));
        while found.len() < hosts || !last.exists() {
            assert!(!running.has_ended(), "it ended too early");
            found = scene.hosts(running.id());
            thread::yield_now();
        }
        // Early moments are more frequent, because a signal arrives late on a busy machine.
        // A real delay: the fault comes at a random moment.
        thread::sleep(whole.mul_f64(rng.random_range(0.0f64..0.9).powi(3)));
        Self { running, hosts: found }
    }
}

/// Returns the time that a join takes after its first host has created its folder.
fn whole(scene: &Scene, hosts: usize, options: &[&str]) -> Duration {
    let mut running = scene.join(hosts, options).start();
    running.wait_until(|| scene.output.join("host-00").exists());
    let start = Instant::now();
    assert_eq!(running.exit_code(), Some(0), "{}", running.stderr());
    start.elapsed()
}

/// The rows of an undisturbed join, and the time that it takes.
struct Undisturbed {
    rows: u64,
    whole: Duration,
}

impl Undisturbed {
    fn of(scene: &Scene) -> Self {
        let whole = whole(scene, 3, &["--overwrite"]);
        let rows = scene.rows_told();
        std::fs::remove_dir_all(&scene.output).expect("it is removed");
        Self { rows, whole }
    }
}

pub fn signal(pid: u32, name: &str) {
    // The process may have ended just now.
    Command::new("kill").args(["-s", name, &pid.to_string()]).stderr(Stdio::null()).status().expect("kill runs");
}

/// Sends a signal to a host, once for each seed. The number of joins that fail depends on the
/// machine, and is printed.
fn disturb_hosts(name: &str) {
    let scene = Scene::new();
    let undisturbed = Undisturbed::of(&scene);
    let (mut failed, mut longest) = (0, Duration::ZERO);
    for seed in seeds() {
        let mut rng = StdRng::seed_from_u64(seed);
        let hosts = rng.random_range(1..=4);
        let options = [["--algorithm", "hash"], ["--algorithm", "merge"], ["--revolutions", "3"]];
        let Moment { running, hosts } =
            Moment::reach(&scene, &mut rng, hosts, undisturbed.whole, &options[seed as usize % 3]);
        let victim = rng.random_range(0..hosts.len());
        signal(hosts[victim], name);
        let ended = Ended::of(running);
        println!(
            "seed {seed}, {name} to host {victim} of {}: {:?} after {:?}: {}",
            hosts.len(),
            ended.code,
            ended.after,
            ended.stderr.trim()
        );
        if ended.code == Some(0) {
            // It was already done.
            scene.assert_nothing_runs();
            assert_eq!(scene.rows_told(), undisturbed.rows);
        } else {
            failed += 1;
            longest = longest.max(ended.after);
            assert_eq!(ended.code, Some(1));
            let errors: Vec<_> = ended.stderr.lines().filter(|line| line.starts_with("error: ")).collect();
            assert_eq!(errors.len(), 1, "{}", ended.stderr);
            assert!(errors[0].contains(&format!("host {victim} has failed")), "not host {victim}: {}", ended.stderr);
            scene.assert_nothing_left();
        }
        std::fs::remove_dir_all(&scene.output).ok();
    }
    println!("{failed} joins failed, the slowest after {longest:?}");
    assert_eq!(scene.rows(2), undisturbed.rows, "the next run works");
}

#[test]
fn a_killed_host_fails_the_join_and_nothing_is_left() {
    disturb_hosts("KILL");
}

#[test]
fn a_frozen_host_fails_the_join_and_nothing_is_left() {
    disturb_hosts("STOP");
}

#[test]
fn hosts_end_with_their_coordinator_and_the_next_run_works() {
    let scene = Scene::new();
    let undisturbed = Undisturbed::of(&scene);
    for seed in seeds() {
        let mut rng = StdRng::seed_from_u64(seed);
        let hosts = rng.random_range(1..=4);
        let Moment { running, .. } = Moment::reach(&scene, &mut rng, hosts, undisturbed.whole.mul_f64(0.8), &[]);
        running.signal("KILL");
        let ended = Ended::of(running);
        scene.wait_for_ends();
        scene.assert_nothing_runs();
        println!("seed {seed}, coordinator of {hosts} killed: {:?} after {:?}", ended.code, ended.after);
        if ended.code != Some(0) {
            scene.assert_nothing_visible();
            assert_eq!(scene.rows(rng.random_range(1..=3)), undisturbed.rows, "the next run works");
        }
        std::fs::remove_dir_all(&scene.output).expect("it is removed");
    }
}

#[test]
fn an_interrupted_join_leaves_nothing() {
    let scene = Scene::new();
    let undisturbed = Undisturbed::of(&scene);
    let mut interrupted = 0;
    for seed in seeds() {
        let mut rng = StdRng::seed_from_u64(seed);
        let (name, code) = [("INT", 130), ("TERM", 143), ("HUP", 129)][seed as usize % 3];
        let hosts = rng.random_range(1..=4);
        let Moment { running, .. } = Moment::reach(&scene, &mut rng, hosts, undisturbed.whole, &[]);
        running.signal(name);
        let ended = Ended::of(running);
        println!(
            "seed {seed}, {name} to the coordinator of {hosts}: {:?} after {:?}: {}",
            ended.code,
            ended.after,
            ended.stderr.trim()
        );
        if ended.code == Some(0) {
            scene.assert_nothing_runs();
            assert_eq!(scene.rows_told(), undisturbed.rows);
            std::fs::remove_dir_all(&scene.output).expect("it is removed");
        } else {
            interrupted += 1;
            assert_eq!(ended.code, Some(code), "{}", ended.stderr);
            scene.assert_nothing_left();
        }
    }
    println!("{interrupted} joins were interrupted");
}

/// Ctrl-Z, and `fg` later: the hosts keep running, and their reports wait.
#[test]
fn a_coordinator_that_stood_still_goes_on() {
    let scene = Scene::new();
    let mut rng = StdRng::seed_from_u64(0);
    let Moment { mut running, .. } = Moment::reach(&scene, &mut rng, 3, Duration::ZERO, &[]);
    running.signal("STOP");
    // A real delay: the coordinator is stopped for longer than the hosts wait.
    thread::sleep(crate::disturbed::TIMEOUT.mul_f64(1.5));
    running.signal("CONT");
    assert_eq!(running.exit_code(), Some(0), "{}", running.stderr());
    scene.assert_nothing_runs();
}

#[test]
fn a_full_disk_fails_the_join_and_nothing_is_left() {
    let mut scene = Scene::new();
    let undisturbed = Undisturbed::of(&scene);
    let disk = scene.path().join("disk");
    std::fs::create_dir(&disk).expect("a folder");
    scene.output = disk.join("out");
    let mut failed = 0;
    for seed in seeds() {
        let mut rng = StdRng::seed_from_u64(seed);
        let pages = rng.random_range(4..40);
        let Some(_mounted) = Mounted::new(&disk, pages * 4096) else {
            println!("skipped: a file system in memory can only be mounted by root");
            return;
        };
        let hosts = rng.random_range(1..=3);
        let ended = Ended::of(scene.join(hosts, &[]).start());
        println!("seed {seed}, {pages} pages: {:?}: {}", ended.code, ended.stderr.trim());
        if ended.code == Some(0) {
            assert_eq!(scene.rows_told(), undisturbed.rows);
            continue;
        }
        failed += 1;
        assert_eq!(ended.code, Some(1));
        assert!(ended.stderr.contains("No space left") && ended.stderr.contains("/disk/out"), "{}", ended.stderr);
        scene.assert_nothing_left();
        assert_eq!(tree(&disk), [""; 0]);
        assert!(mount(&["-o", "remount,size=64M", disk.to_str().expect("UTF-8")]));
        assert_eq!(scene.rows(2), undisturbed.rows, "the next run works");
    }
    assert!(failed > 0, "no disk was full");
}

/// A small file system in memory, until it is dropped.
pub struct Mounted(PathBuf);

impl Mounted {
    /// Returns `None` if this user cannot mount one.
    pub fn new(dir: &std::path::Path, bytes: usize) -> Option<Self> {
        let size = format!("size={bytes}");
        mount(&["-t", "tmpfs", "-o", &size, "tmpfs", dir.to_str()?]).then(|| Self(dir.to_owned()))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        Command::new("umount").arg(&self.0).status().ok();
    }
}

fn mount(arguments: &[&str]) -> bool {
    Command::new("mount").args(arguments).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}
