//! Joins that are killed or interrupted, or whose disk is full, in one process and on workers of this machine.
//! They leave no files, or whole ones that the next join removes. `workers.rs` disturbs workers.
//!
//! `ANNULUS_JOIN_FAULTS` and `ANNULUS_JOIN_STOPS` set the number of seeds (2 and 3).

use std::{
    iter,
    ops::Range,
    path::PathBuf,
    process::{Command, Stdio},
    thread,
};

use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::{
    disturbed::{CONDITIONS, Ended, Scene, tree},
    support::{
        Running,
        processes::{children, connections, state, ticks},
        workers::TINY,
    },
};

fn seeds() -> Range<u64> {
    crate::seeds("ANNULUS_JOIN_FAULTS", 2)
}

/// Where a join runs: in its process, and on workers, in stages and around a ring.
const PLACES: [&[&str]; 3] = [
    &["--threads", "2"],
    &["--cluster", "2", TINY[0], TINY[1]],
    &["--cluster", "3", TINY[0], TINY[1], "--set", "annulus.cyclo_join=always"],
];

/// Returns cases: a seed, a place and the number of a condition. Each place and each condition has some.
fn cases() -> impl Iterator<Item = (u64, &'static [&'static str], usize)> {
    let places = move |seed: u64| PLACES.into_iter().enumerate().map(move |(number, place)| (seed, place, number));
    let cases = seeds().flat_map(places);
    cases.map(|(seed, place, number)| (seed, place, (seed as usize * PLACES.len() + number) % CONDITIONS.len()))
}

/// Starts a join, and waits until it has begun and its processes have then computed for a random part of
/// `whole`, or ended.
fn reach(scene: &Scene, rng: &mut StdRng, whole: u64, options: &[&str]) -> Running {
    let mut running = scene.join(options).start();
    running.wait_until(|| scene.output.exists());
    // Early moments are more frequent, because a signal arrives late on a busy machine.
    let part = (whole as f64 * rng.random_range(0.0f64..0.9).powi(3)) as u64;
    let (pid, begun) = (running.id(), work(running.id()));
    // A process that has ended is kept until its parent asks for its exit code.
    while state(pid) != Some('Z') && work(pid) < begun + part {
        thread::yield_now();
    }
    running
}

/// Returns the processor time of a process and of those that it has started, in hundredths of a second.
fn work(pid: u32) -> u64 {
    iter::once(pid).chain(children(pid)).filter_map(ticks).sum()
}

/// The rows of an undisturbed join, and the processor time that it takes in its process after it has begun.
struct Undisturbed {
    rows: u64,
    whole: u64,
}

impl Undisturbed {
    /// Measures the joins by all conditions.
    fn measure_all(scene: &mut Scene) -> Vec<Self> {
        let measured = CONDITIONS.map(|condition| {
            scene.condition = condition;
            Self::measure(scene)
        });
        measured.into()
    }

    fn measure(scene: &Scene) -> Self {
        let mut running = scene.join(&[]).start();
        running.wait_until(|| scene.output.exists());
        let (pid, begun) = (running.id(), work(running.id()));
        let mut ended = begun;
        while state(pid) != Some('Z') {
            ended = ended.max(work(pid));
            thread::yield_now();
        }
        assert_eq!(running.exit_code(), Some(0), "{}", running.stderr());
        let undisturbed = Self { rows: scene.rows_told(), whole: ended - begun };
        std::fs::remove_dir_all(&scene.output).expect("it is removed");
        undisturbed
    }
}

#[test]
fn workers_end_with_their_command_and_the_next_run_works() {
    let mut scene = Scene::new();
    let undisturbed = Undisturbed::measure_all(&mut scene);
    for (seed, place, condition) in cases() {
        scene.condition = CONDITIONS[condition];
        let undisturbed = &undisturbed[condition];
        let mut rng = StdRng::seed_from_u64(seed);
        let running = reach(&scene, &mut rng, undisturbed.whole * 4 / 5, place);
        running.signal("KILL");
        let ended = Ended::wait_for(running);
        scene.wait_for_ends();
        println!("seed {seed}, {place:?}, {:?} killed: {:?} after {:?}", scene.condition, ended.code, ended.after);
        // The signal may come when all is done but the exit.
        if !scene.output.join(".annulus/manifest").exists() {
            assert_ne!(ended.code, Some(0));
            scene.assert_only_whole_files();
            assert_eq!(scene.join(place).succeeds().stderr, "", "the next run works");
        }
        assert_eq!(scene.rows_told(), undisturbed.rows);
        std::fs::remove_dir_all(&scene.output).expect("it is removed");
    }
}

#[test]
fn an_interrupted_join_leaves_nothing() {
    let mut scene = Scene::new();
    let undisturbed = Undisturbed::measure_all(&mut scene);
    let mut interrupted = 0;
    let mut signals = [("INT", 130), ("TERM", 143), ("HUP", 129)].into_iter().cycle();
    for (seed, place, condition) in cases() {
        scene.condition = CONDITIONS[condition];
        let undisturbed = &undisturbed[condition];
        let mut rng = StdRng::seed_from_u64(seed);
        let (name, code) = signals.next().expect("without end");
        let running = reach(&scene, &mut rng, undisturbed.whole, place);
        running.signal(name);
        let ended = Ended::wait_for(running);
        let Ended { code: found, after, stderr } = &ended;
        println!("seed {seed}, {name} to {place:?}, {:?}: {found:?} after {after:?}: {stderr}", scene.condition);
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
    assert!(interrupted > 0, "all joins had ended before");
}

/// A cross join, a join with a single key, and a join with a band that contains all rows.
const ENDLESS: [&[&str]; 3] =
    [&["--where", "a.n + b.n >= 0"], &["--on", "hot"], &["--where", "a.n BETWEEN b.n - 1000000 AND b.n + 1000000"]];

/// Joins that would run for minutes, interrupted when the process has computed for a random time.
#[test]
fn an_endless_join_that_is_interrupted_leaves_nothing() {
    let scene = Scene::endless();
    for seed in crate::seeds("ANNULUS_JOIN_STOPS", 3) {
        let mut rng = StdRng::seed_from_u64(seed);
        let join = ENDLESS[seed as usize % ENDLESS.len()];
        let options = ["--type", ["inner", "full"][rng.random_range(0..2)], "--format", "arrow"];
        let mut running = scene.join_by(&[join, &options].concat()).start();
        let (pid, moment) = (running.id(), rng.random_range(10..150));
        running.wait_until(|| scene.output.exists() && ticks(pid).is_some_and(|ticks| ticks > moment));
        running.signal("INT");
        let ended = Ended::wait_for(running);
        println!("seed {seed}, {join:?}, {options:?} after {moment} ticks: {:?} after {:?}", ended.code, ended.after);
        assert_eq!(ended.code, Some(130), "{}", ended.stderr);
        assert!(ended.stderr.contains("the partial output is removed"), "{}", ended.stderr);
        scene.assert_nothing_left();
    }
}

/// Ctrl-Z, and `fg` when a worker has sent something that the command could not read.
#[test]
fn a_command_that_stood_still_goes_on() {
    let scene = Scene::new();
    let mut running = reach(&scene, &mut StdRng::seed_from_u64(0), 0, PLACES[1]);
    let pid = running.id();
    running.wait_until(|| !connections(pid).is_empty());
    running.signal("STOP");
    // At the latest, workers send a sign of life.
    running.wait_until(|| state(pid) == Some('T') && connections(pid).into_iter().any(|unread| unread > 0));
    running.signal("CONT");
    assert_eq!(running.exit_code(), Some(0), "{}", running.stderr());
    scene.assert_nothing_runs();
}

#[test]
fn a_full_disk_fails_the_join_and_nothing_is_left() {
    let mut scene = Scene::new();
    let undisturbed = Undisturbed::measure_all(&mut scene);
    let disk = scene.path().join("disk");
    std::fs::create_dir(&disk).expect("a folder");
    scene.output = disk.join("out");
    let mut failed = 0;
    for (seed, place, condition) in cases() {
        scene.condition = CONDITIONS[condition];
        let undisturbed = &undisturbed[condition];
        let mut rng = StdRng::seed_from_u64(seed);
        let pages = rng.random_range(4..40);
        let Some(_mounted) = Mounted::new(&disk, pages * 4096) else {
            println!("skipped: a file system in memory can only be mounted by root");
            return;
        };
        let ended = Ended::wait_for(scene.join(place).start());
        let (joined, error) = (scene.condition, ended.stderr.trim());
        println!("seed {seed}, {place:?}, {joined:?}, {pages} pages: {:?}: {error}", ended.code);
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
        assert_eq!(scene.rows(place), undisturbed.rows, "the next run works");
    }
    assert!(failed > 0, "no disk was full");
}

/// A small file system in memory, until it is dropped.
struct Mounted(PathBuf);

impl Mounted {
    /// Returns `None` if this user cannot mount one.
    fn new(dir: &std::path::Path, bytes: usize) -> Option<Self> {
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
