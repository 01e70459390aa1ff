//! Joins on workers, which write what they have joined.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::{
    support::{
        Annulus, Running, names,
        processes::ticks,
        workers::{self, TINY, certificates, list},
    },
    tables::{Shape, rows_of_files, write_csv, write_parquet},
};

/// Writes the tables a and b, each of six files: each task has some.
fn write_tables(folder: &Path, rows: usize) {
    let mut rng = StdRng::seed_from_u64(1);
    for name in ["a", "b"] {
        let shape = Shape { rows, keys: 50, nulls: 0.1, skewed: false };
        write_parquet(&folder.join(name), &shape.table(&mut rng, name == "a"), 6, 40);
    }
}

fn join(folder: &Path, condition: &[&str], output: &str, more: &[&str]) -> Annulus {
    let all = ["join", "a", "b", "--output", output];
    Annulus::new(all.iter().chain(condition).chain(more)).at(folder).temp(folder)
}

fn worker(folder: &Path, more: &[&str]) -> (Running, String) {
    workers::worker(folder, &[&["--allow-read", ".", "--silence", "5"], more].concat())
}

#[test]
fn workers_write_what_one_process_writes() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    write_tables(at, 300);
    for (number, condition) in [
        &["--on", "k"][..],
        &["--on", "k", "--type", "full"],
        &["--where", "a.t BETWEEN b.t - 2 AND b.t + 2", "--type", "left"],
        &["--on", "g", "--where", "a.t < b.t", "--type", "anti"],
        &["--on", "k", "--select", "a.k + 1 AS n, b.name", "--suffix", "_b"],
        &["--where", "a.k = b.k AND a.x > 100"],
        &["--on", "k", "--asof", "a.t >= b.t", "--type", "left", "--select", "a.k, a.t, b.t AS bt"],
        &["--nearest", "2 BY DISTANCE abs(a.t - b.t)", "--type", "left", "--select", "a.k, abs(a.t - b.t) AS d"],
    ]
    .into_iter()
    .enumerate()
    {
        let (here, there, around) = (format!("here{number}"), format!("there{number}"), format!("around{number}"));
        join(at, condition, &here, &[]).succeeds();
        let rows = rows_of_files(&at.join(&here));
        join(at, condition, &there, &[&["--cluster", "2"][..], &TINY].concat()).succeeds();
        assert_eq!(rows_of_files(&at.join(&there)), rows, "{condition:?}");
        let always = ["--cluster", "3", "--set", "annulus.cyclo_join=always"];
        join(at, condition, &around, &[&always[..], &TINY].concat()).succeeds();
        assert_eq!(rows_of_files(&at.join(&around)), rows, "{condition:?} around a ring");
        for output in [&there, &around] {
            Annulus::new(["verify", output]).at(at).succeeds();
            // DataFusion computes the casts of a band's sums in the command's own stage, and so joins there.
            let is_here = output == &there && condition.contains(&"a.t BETWEEN b.t - 2 AND b.t + 2");
            let is_divided = at.join(output).join("host-01").exists();
            assert!(is_divided || is_here || rows.is_empty(), "{condition:?}: one worker only");
        }
        // Readers of a result without rows find its columns.
        let count = format!("SELECT count(*) FROM '{around}/'");
        let counted = Annulus::new(["sql", "--format", "csv", &count]).at(at).succeeds();
        assert!(counted.stdout.ends_with(&format!("\n{}\n", rows.len())), "{}", counted.stdout);
    }
}

#[test]
fn workers_read_text_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    let mut rng = StdRng::seed_from_u64(2);
    for name in ["a", "b"] {
        write_csv(&at.join(name), &Shape::of_text(&mut rng).table(&mut rng, name == "a"));
        // A second file: a scan of one part stays in one task.
        fs::copy(at.join(name).join("0.csv"), at.join(name).join("1.csv")).expect("a copy");
    }
    let condition = ["--on", "k", "--type", "full"];
    join(at, &condition, "here", &[]).succeeds();
    let done = join(at, &condition, "there", &[&["--cluster", "2", "--json"][..], &TINY].concat()).succeeds();
    assert_eq!(rows_of_files(&at.join("there")), rows_of_files(&at.join("here")));
    assert!(!done.stdout.contains("this process"), "{}", done.stdout);
    assert_eq!(names(at), ["a", "b", "here", "there"], "nothing is left");
}

/// On one machine all workers have the same files, so each pair of rows comes out nine times.
#[test]
fn workers_read_files_of_their_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    write_tables(at, 300);
    for (number, condition) in [&["--on", "k"][..], &["--where", "a.t BETWEEN b.t - 1 AND b.t"]].into_iter().enumerate()
    {
        let (here, each) = (format!("here{number}"), format!("each{number}"));
        join(at, condition, &here, &[]).succeeds();
        join(at, condition, &each, &["--cluster", "3", "--inputs", "each"]).succeeds();
        let alone = rows_of_files(&at.join(&here));
        let nine_times: Vec<String> = alone.iter().flat_map(|row| std::iter::repeat_n(row.clone(), 9)).collect();
        assert!(!alone.is_empty() && rows_of_files(&at.join(&each)) == nine_times, "{condition:?}");
    }
    // What would read the files of one worker only is refused.
    for (more, says) in [
        (&["--cluster", "1"][..], "two or more workers"),
        (&["--cluster", "3", "--set", "distributed.max_tasks_per_stage=2"], "2 of 3"),
        (&["--cluster", "2", "--retry"], "--retries"),
        (&["--cluster", "2", "--retries", "2"], "--retries"),
        (&[], "--workers"),
    ] {
        let error = join(at, &["--on", "k"], "out", &[more, &["--inputs", "each"]].concat()).fails().stderr;
        assert!(error.contains(says), "{more:?}: {error}");
    }
    assert!(!at.join("out").exists());
}

#[test]
fn workers_write_below_their_folders_for_submitters_only() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    write_tables(at, 300);
    fs::create_dir(at.join("out")).expect("a folder");
    let hosts = ["alpha", "beta"];
    certificates(&at.join("certs"), "sales", &hosts);
    let serve = |host| worker(at, &["--certificates", &format!("certs/host-{host}.pem"), "--allow-write", "out"]);
    let workers = hosts.map(serve);
    let all = list(&workers);
    let on = [&["--workers", &all, "--certificates", "certs"][..], &TINY].concat();
    join(at, &["--on", "k"], "out/joined", &on).succeeds();
    join(at, &["--on", "k"], "here", &[]).succeeds();
    assert_eq!(rows_of_files(&at.join("out/joined")), rows_of_files(&at.join("here")));
    let error = join(at, &["--on", "k"], "elsewhere", &on).fails().stderr;
    assert!(error.contains("--allow-write") && error.contains("elsewhere"), "{error}");
    assert!(!at.join("elsewhere").exists());
    // A dataset that is there stays.
    let error = join(at, &["--on", "k"], "out/joined", &on).fails().stderr;
    assert!(error.contains("--overwrite"), "{error}");
    join(at, &["--on", "k", "--overwrite"], "out/joined", &on).succeeds();
    // Nobody else sends queries.
    let error = join(at, &["--on", "k"], "out/two", &[&["--workers", &all][..], &TINY].concat()).fails().stderr;
    assert!(error.contains(&workers[0].1) || error.contains(&workers[1].1), "{error}");
    assert_eq!(names(&at.join("out")), ["joined"], "nothing is left");
}

/// An output, and a condition of which there are 400 million pairs to compare.
const LONG: [&str; 2] = ["--where", "(a.k * 7 + b.k * 5) % 1009 = 5"];

/// Starts a join of two workers that takes a while, and returns it when a worker has computed for this long.
fn disturbed(folder: &Path, workers: &[(Running, String)], ticks_of: u64, more: &[&str]) -> Running {
    let all = list(workers);
    let silence = if more.contains(&"--silence") { &[][..] } else { &["--silence", "5"] };
    let on = [&["--workers", &all][..], silence, more, &TINY].concat();
    let computed = || workers.iter().filter_map(|(process, _)| ticks(process.id())).sum::<u64>();
    let mut running = join(folder, &LONG, "out", &on).start();
    // Workers may still compute for a join before this one.
    running.wait_until(|| folder.join("out").exists());
    let before = computed();
    running.wait_until(|| computed() > before + ticks_of);
    running
}

/// The longest time until an error, on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

/// `ANNULUS_JOIN_FAULTS` sets the number of seeds.
#[test]
fn a_lost_worker_is_named_and_nothing_is_left() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    write_tables(at, 20_000);
    for seed in crate::seeds("ANNULUS_JOIN_FAULTS", 2) {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut workers: Vec<_> = (0..3).map(|_| worker(at, &["--allow-write", "."])).collect();
        let retries = rng.random_bool(0.5);
        let around = ["--set", "annulus.cyclo_join=always"];
        let more =
            [if retries { &[][..] } else { &["--retries", "0"] }, if rng.random_bool(0.5) { &around } else { &[] }];
        let mut running = disturbed(at, &workers, rng.random_range(10..120), &more.concat());
        let (lost, address) = workers.remove(rng.random_range(0..3));
        lost.signal(if rng.random_bool(0.5) { "KILL" } else { "STOP" });
        let start = Instant::now();
        let code = running.exit_code();
        let (took, said) = (start.elapsed(), running.stderr());
        println!("seed {seed}, {more:?}: {code:?} after {took:?}: {said}");
        assert!(took < LIMIT);
        match retries {
            true => {
                assert!(
                    code == Some(0) && said.contains("the join starts again on 2 of 3 workers"),
                    "{code:?}: {said}"
                );
                Annulus::new(["verify", "out"]).at(at).succeeds();
            }
            false => assert!(code == Some(1) && said.contains("--retries"), "{code:?}: {said}"),
        }
        assert!(said.contains(&address), "{address}: {said}");
        drop(lost);
        let all = list(&workers);
        let again = ["--on", "k", "--overwrite", "--workers", &all];
        join(at, &again, "out", &TINY).succeeds();
        workers.into_iter().for_each(|(process, _)| process.end_by("TERM", 143));
        fs::remove_dir_all(at.join("out")).expect("the result");
        // A process that was killed leaves its folder of spilled rows, and the next one removes it.
        Annulus::new(["sql", "SELECT 1"]).at(at).temp(at).succeeds();
        assert_eq!(names(at), ["a", "b"], "nothing is left");
    }
}

#[test]
fn workers_that_stop_let_a_join_end() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    write_tables(at, 20_000);
    let workers: Vec<_> = (0..2).map(|_| worker(at, &["--allow-write", ".", "--drain", "600"])).collect();
    let mut running = disturbed(at, &workers, 40, &[]);
    workers.iter().for_each(|(process, _)| process.signal("TERM"));
    assert_eq!(running.exit_code(), Some(0), "{}", running.stderr());
    Annulus::new(["verify", "out"]).at(at).succeeds();
    for (mut process, _) in workers {
        assert_eq!(process.exit_code(), Some(143));
    }
}

#[test]
fn an_interrupted_join_leaves_nothing_on_workers() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    write_tables(at, 20_000);
    let workers: Vec<_> = (0..2).map(|_| worker(at, &["--allow-write", "."])).collect();
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        let mut running = disturbed(at, &workers, 20, &[]);
        running.signal(signal);
        assert_eq!(running.exit_code(), Some(code));
        let said = running.stderr();
        assert!(said.contains("the partial output is removed"), "{said}");
        let start = Instant::now();
        // A worker may encode a batch before it notices.
        while at.join("out").exists() {
            assert!(start.elapsed() < LIMIT, "{:?} is left", names(&at.join("out")));
            std::thread::yield_now();
        }
    }
    // A command that is killed cannot tell the workers. They notice that its connections are gone.
    let running = disturbed(at, &workers, 20, &[]);
    running.end_by("KILL", 137);
    let all = list(&workers);
    let start = Instant::now();
    while join(at, &["--on", "k", "--overwrite", "--workers", &all], "out", &TINY).tries().is_err() {
        assert!(start.elapsed() < LIMIT, "the folder stays in use");
    }
    workers.into_iter().for_each(|(process, _)| process.end_by("TERM", 143));
    Annulus::new(["verify", "out"]).at(at).succeeds();
}

/// Without the second interrupt, the command would wait for the frozen workers.
#[test]
fn a_second_interrupt_ends_a_join_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    write_tables(at, 20_000);
    let workers: Vec<_> = (0..2).map(|_| worker(at, &["--allow-write", "."])).collect();
    let mut running = disturbed(at, &workers, 5, &["--silence", "60"]);
    workers.iter().for_each(|(process, _)| process.signal("STOP"));
    running.signal("INT");
    running.wait_for_stderr("Ctrl-C again");
    running.signal("INT");
    assert_eq!(running.exit_code(), Some(130));
}

#[test]
fn what_workers_cannot_do_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    write_tables(at, 60);
    let usage = |more: &[&str]| {
        let mut running = join(at, &["--on", "k"], "out", more).start();
        (running.exit_code(), running.stderr())
    };
    for (more, says) in [
        (&["--cluster", "2", "--workers", "127.0.0.1:1"][..], "--workers"),
        (&["--retry"], "--workers"),
        (&["--certificates", "certs"], "--workers"),
    ] {
        let (code, said) = usage(more);
        assert!(code == Some(1) && said.contains(says), "{more:?}: {said}");
    }
    let (code, said) = usage(&["--workers", "127.0.0.1:1", "--memory-limit", "1G"]);
    assert!(code == Some(1) && said.contains("--memory-limit"), "{said}");
    let (code, said) = usage(&[&["--cluster", "2", "--set", "annulus.colour=red"][..], &TINY].concat());
    assert!(code == Some(1) && said.contains("annulus.colour"), "{said}");
    let done = join(at, &["--on", "k"], "a/out", &["--cluster", "2"]).fails();
    assert!(done.stderr.contains("would read what is written there"), "{}", done.stderr);
    assert_eq!(names(at), ["a", "b"]);
}
