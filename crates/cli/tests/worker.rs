//! `annulus worker`, and the queries of other commands on workers, as processes.
#![cfg(target_os = "linux")]

mod support;

use std::{
    env, fs,
    io::{Read, Write},
    net::TcpStream,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use rand::{Rng, SeedableRng, rngs::StdRng};
#[cfg(feature = "ofi")]
use support::workers::certificates;
use support::{
    Annulus, names,
    processes::{children, state, ticks},
    workers::{TINY, list, long_path, worker, worker_apart},
};

const QUERY: &str = "SELECT a.v, count(*) AS n, sum(b.k) AS s FROM 'a/' a JOIN 'b/' b ON a.k = b.k GROUP BY a.v \
                     ORDER BY a.v";

fn write_tables(folder: &Path) {
    for (table, step) in [("a", 3), ("b", 5)] {
        fs::create_dir(folder.join(table)).expect("a folder");
        // Enough files for each task.
        for part in 0..12 {
            let (first, last) = (part * 3_000, part * 3_000 + 2_999);
            let query = format!("SELECT value * {step} AS k, value % 13 AS v FROM generate_series({first}, {last})");
            let file = format!("{table}/{part}.parquet");
            Annulus::new(["sql", &query, "--output", &file]).at(folder).succeeds();
        }
    }
}

fn sql(folder: &Path, more: &[&str]) -> Annulus {
    Annulus::new(["sql", "--format", "csv"].iter().chain(more)).at(folder).temp(folder)
}

#[test]
fn queries_run_on_workers_that_are_started_for_them() {
    let folder = tempfile::tempdir().expect("a folder");
    write_tables(folder.path());
    let here = sql(folder.path(), &[QUERY]).succeeds();
    assert!(here.stdout.lines().count() > 10, "{}", here.stdout);
    let there = sql(folder.path(), &[&["--cluster", "3", QUERY][..], &TINY].concat()).succeeds();
    assert_eq!(there.stdout, here.stdout);
    let explain = format!("EXPLAIN {QUERY}");
    let plan = sql(folder.path(), &[&["--cluster", "3", &explain][..], &TINY].concat()).succeeds();
    assert!(plan.stdout.contains("NetworkShuffleExec") && plan.stdout.contains("tasks=3"), "{}", plan.stdout);
    assert_eq!(names(folder.path()), ["a", "b"], "nothing is left");
}

/// Returns the number of bad rows of which the notes on standard error tell.
fn skipped(stderr: &str) -> u64 {
    let notes = stderr.lines().filter_map(|line| line.split_once("skipped ")?.1.split_once(" bad row"));
    notes.map(|(rows, _)| rows.parse::<u64>().expect("a number")).sum()
}

#[test]
fn rows_that_workers_skip_are_told_where_the_query_was_sent() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("t")).expect("a folder");
    for part in 0..6 {
        let rows: String = (0..200).map(|row| format!("{row},{}\n", row % 7)).collect();
        let bad = if part % 2 == 0 { "x,1\ny,2\n" } else { "" };
        fs::write(folder.path().join(format!("t/{part}.csv")), format!("k,v\n{rows}{bad}")).expect("a file");
    }
    let query = "SELECT v, count(*) AS n, sum(k) AS s FROM 't/*.csv' GROUP BY v ORDER BY v";
    let skip = ["--types", "k=int", "--on-bad-row", "skip", query];
    let here = sql(folder.path(), &skip).succeeds();
    assert_eq!(skipped(&here.stderr), 6, "{}", here.stderr);
    for more in [&["--retries", "0"][..], &[]] {
        let there = sql(folder.path(), &[&["--cluster", "2"][..], &TINY, more, &skip].concat()).succeeds();
        assert_eq!((there.stdout, skipped(&there.stderr)), (here.stdout.clone(), 6), "{more:?}: {}", there.stderr);
    }
}

#[test]
fn all_kinds_of_tables_have_the_same_answers() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    write_tables(at);
    Annulus::new(["partition", "a/", "--by", "k", "--into", "4", "--output", "parts"]).at(at).succeeds();
    for name in ["c", "d"] {
        let query = "SELECT value * 3 AS k, value % 5 AS w FROM generate_series(0, 999)";
        Annulus::new(["sql", query, "--output", &format!("{name}.csv")]).at(at).succeeds();
    }
    // Both sides of joins are exchanged, if they are not partitioned already.
    let exchanged = [
        "--set",
        "datafusion.optimizer.hash_join_single_partition_threshold=0",
        "--set",
        "datafusion.optimizer.hash_join_single_partition_threshold_rows=0",
    ];
    // Text files are divided among the workers, too.
    fs::create_dir(at.join("texts")).expect("a folder");
    for part in 0..4 {
        fs::copy(at.join("c.csv"), at.join(format!("texts/{part}.csv"))).expect("a copy");
    }
    let texts = "SELECT w, count(*), sum(k) FROM 'texts/' GROUP BY w ORDER BY w";
    let plan = sql(at, &[&["--cluster", "2", &format!("EXPLAIN {texts}")][..], &TINY].concat()).succeeds();
    assert!(plan.stdout.contains("tasks=2") && plan.stdout.contains("file_type=csv"), "{}", plan.stdout);
    for query in [
        texts,
        "SELECT count(*), sum(p.v), sum(b.v) FROM 'parts/' p JOIN 'b/' b ON p.k = b.k",
        "SELECT count(*), count(b.k) FROM 'parts/' p LEFT JOIN 'b/' b ON p.k = b.k",
        "SELECT count(*), sum(n) FROM (SELECT k, count(*) AS n FROM 'parts/' GROUP BY k)",
        "SELECT count(*) FROM (SELECT * FROM 'c.csv' UNION ALL SELECT * FROM 'd.csv')",
        "SELECT c.w, count(*) FROM 'a/' a JOIN 'c.csv' c ON a.k = c.k GROUP BY c.w ORDER BY c.w",
    ] {
        for targets in ["2", "4"] {
            let options = [&exchanged[..], &["--threads", targets, query]].concat();
            let here = sql(at, &options).succeeds();
            let there = sql(at, &[&["--cluster", "2"][..], &TINY, &options].concat()).succeeds();
            assert_eq!(there.stdout, here.stdout, "{query} with {targets} partitions");
        }
    }
    // Workers write nothing, and need not.
    let output = ["sql", "--cluster", "2", "--output", "out.parquet", QUERY];
    Annulus::new(output.iter().chain(&TINY)).at(at).temp(at).succeeds();
    let written = "SELECT * FROM 'out.parquet' ORDER BY v";
    assert_eq!(sql(at, &[written]).succeeds().stdout, sql(at, &[QUERY]).succeeds().stdout);
}

#[test]
fn a_query_that_runs_has_time_to_end() {
    let folder = tempfile::tempdir().expect("a folder");
    write_tables(folder.path());
    let workers: Vec<_> = (0..2).map(|_| worker(folder.path(), &["--allow-read", ".", "--drain", "600"])).collect();
    let list = list(&workers);
    let long = "SELECT a.v, count(*) FROM 'a/' a JOIN 'b/' b ON a.k % 5 = b.k % 5 GROUP BY a.v ORDER BY a.v";
    let here = sql(folder.path(), &[long]).succeeds();
    let computed = || workers.iter().filter_map(|(process, _)| ticks(process.id())).sum::<u64>();
    let before = computed();
    let command = ["sql", "--workers", &list, "--output", "long.csv", long];
    let mut running = Annulus::new(command.iter().chain(&TINY)).at(folder.path()).temp(folder.path()).start();
    // By then, both have all of their plans.
    running.wait_until(|| computed() > before + 80);
    workers.iter().for_each(|(process, _)| process.signal("TERM"));
    assert_eq!(running.exit_code(), Some(0), "{}", running.stderr());
    assert_eq!(fs::read_to_string(folder.path().join("long.csv")).expect("the answer"), here.stdout);
    for (mut process, _) in workers {
        assert_eq!(process.exit_code(), Some(143));
    }
}

#[test]
fn a_worker_serves_until_a_signal() {
    let folder = tempfile::tempdir().expect("a folder");
    write_tables(folder.path());
    let here = sql(folder.path(), &[QUERY]).succeeds();
    let workers: Vec<_> = (0..2).map(|_| worker(folder.path(), &["--allow-read", "."])).collect();
    let list = list(&workers);
    for _ in 0..2 {
        let there = sql(folder.path(), &[&["--workers", &list, QUERY][..], &TINY].concat()).succeeds();
        assert_eq!(there.stdout, here.stdout);
    }
    let file = folder.path().join("workers.txt");
    fs::write(&file, format!("# ours\n{}\n", list.replace(',', "\n"))).expect("a file");
    let there = sql(folder.path(), &[&["--workers", "workers.txt", QUERY][..], &TINY].concat()).succeeds();
    assert_eq!(there.stdout, here.stdout);
    for (running, _) in workers {
        running.end_by("TERM", 143);
    }
    assert_eq!(names(folder.path()), ["a", "b", "workers.txt"], "nothing is left");
}

#[test]
fn a_worker_reads_only_what_it_may() {
    let folder = tempfile::tempdir().expect("a folder");
    write_tables(folder.path());
    let workers: Vec<_> = (0..2).map(|_| worker(folder.path(), &["--allow-read", "a"])).collect();
    let list = list(&workers);
    let count = |table: &str| format!("SELECT v, count(*) FROM '{table}/' GROUP BY v");
    sql(folder.path(), &[&["--workers", &list, &count("a")][..], &TINY].concat()).succeeds();
    let done = sql(folder.path(), &[&["--workers", &list, &count("b")][..], &TINY].concat()).fails();
    let is_named = workers.iter().any(|(_, address)| done.stderr.contains(address));
    assert!(is_named && done.stderr.contains("--allow-read"), "{}", done.stderr);
    for (running, _) in workers {
        running.end_by("INT", 130);
    }
}

#[test]
fn workers_that_are_not_there_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    write_tables(folder.path());
    let (lost, lost_address) = worker(folder.path(), &["--allow-read", "."]);
    let (_there, address) = worker(folder.path(), &["--allow-read", "."]);
    lost.end_by("KILL", 137);
    let list = format!("{address},{lost_address}");
    let done = sql(folder.path(), &[&["--workers", &list, QUERY][..], &TINY].concat()).succeeds();
    assert!(done.stderr.contains(&lost_address) && !done.stderr.contains(&address), "{}", done.stderr);
    assert_eq!(done.stdout, sql(folder.path(), &[QUERY]).succeeds().stdout);
}

/// The option that makes joins go around a ring.
const AROUND: &[&str] = &["--set", "annulus.cyclo_join=always"];

#[test]
fn joins_go_around_a_ring_of_workers() {
    let folder = tempfile::tempdir().expect("a folder");
    write_tables(folder.path());
    let band = "SELECT a.v, count(*), sum(b.k) FROM 'a/' a JOIN 'b/' b ON a.k BETWEEN b.k - 4 AND b.k + 4 GROUP BY a.v \
                ORDER BY a.v";
    let workers: Vec<_> = (0..3).map(|_| worker_apart(folder.path(), &["--allow-read", "."])).collect();
    let (list, long) = (list(&workers), long_path(folder.path()));
    for query in [band, QUERY] {
        let here = sql(folder.path(), &[query]).succeeds();
        // With certificates, and without; through shared memory, and not.
        for (workers, temp) in [
            (["--cluster", "3"], folder.path()),
            (["--cluster", "3"], &long),
            (["--workers", list.as_str()], folder.path()),
        ] {
            let there = sql(folder.path(), &[&[query][..], &workers, AROUND, &TINY].concat()).temp(temp).succeeds();
            assert_eq!(there.stdout, here.stdout, "{workers:?}, {}: {query}", temp.display());
            let explain = format!("EXPLAIN {query}");
            let plan = sql(folder.path(), &[&[explain.as_str()][..], &workers, AROUND, &TINY].concat()).succeeds();
            assert!(plan.stdout.contains("CycloJoinExec") && plan.stdout.contains("tasks=3"), "{}", plan.stdout);
        }
    }
    for (running, _) in workers {
        running.end_by("TERM", 143);
    }
    fs::remove_dir(long).expect("it is empty");
    assert_eq!(names(folder.path()), ["a", "b"], "nothing is left");
}

#[cfg(feature = "ofi")]
#[test]
fn joins_go_around_a_ring_over_the_fabric() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    write_tables(at);
    let here = sql(at, &[QUERY]).succeeds();
    let hosts = ["one", "two", "three"];
    certificates(&at.join("keys"), "sales", &hosts);
    for keys in [None, Some("keys")] {
        let certificates = |member: &str| keys.map(|keys| format!("--certificates={keys}/{member}.pem"));
        let start = |fabrics: [&'static str; 3]| -> Vec<_> {
            let each = hosts.into_iter().zip(fabrics).map(|(host, fabric)| {
                let certificates = certificates(&format!("host-{host}"));
                let options = ["--allow-read", ".", "--fabric", fabric];
                worker(at, &certificates.iter().map(String::as_str).chain(options).collect::<Vec<_>>())
            });
            each.collect()
        };
        // With another provider at one of them, they use sockets.
        for (fabrics, uses) in [(["tcp@127.0.0.1"; 3], true), (["tcp@127.0.0.1", "shm", "tcp@127.0.0.1"], false)] {
            let workers = start(fabrics);
            let list = list(&workers);
            let mut options = vec!["--workers".to_owned(), list];
            options.extend(certificates("submitter-me"));
            options.extend(AROUND.iter().chain(&TINY).map(ToString::to_string));
            let options: Vec<_> = options.iter().map(String::as_str).collect();
            let there = sql(at, &[&[QUERY][..], &options].concat()).succeeds();
            assert_eq!(there.stdout, here.stdout);
            let explain = format!("EXPLAIN ANALYZE {QUERY}");
            let plan = sql(at, &[&[explain.as_str()][..], &options].concat()).succeeds().stdout;
            assert_eq!(plan.contains("fabric=3"), uses, "{plan}");
            for (running, _) in workers {
                running.end_by("TERM", 143);
            }
        }
    }
    let unprotected = Annulus::new(["worker", "--allow-read", ".", "--fabric", "tcp"]).at(at).fails();
    assert!(unprotected.stderr.contains("without --certificates"), "{}", unprotected.stderr);
    let unknown = Annulus::new(["worker", "--allow-read", ".", "--fabric", "nowhere@127.0.0.1"]).at(at).fails();
    assert!(unknown.stderr.contains("--fabric") && unknown.stderr.contains("nowhere"), "{}", unknown.stderr);
    fs::remove_dir_all(at.join("keys")).expect("it is removed");
    assert_eq!(names(at), ["a", "b"], "nothing is left");
}

#[test]
fn a_worker_has_its_options_from_a_file_and_shows_what_it_does() {
    let folder = tempfile::tempdir().expect("a folder");
    write_tables(folder.path());
    let file = "listen = \"127.0.0.1:1\"\nallow-read = [\".\"]\nstatus = \"127.0.0.1:0\"\nmax-queries = 9\n";
    fs::write(folder.path().join("worker.toml"), file).expect("a file");
    let mut running =
        Annulus::new(["worker", "--config", "worker.toml", "--listen", "127.0.0.1:0"]).at(folder.path()).start();
    let line = running.line_of_stderr("status at http://");
    let status = line.rsplit("http://").next().expect("an address").trim().to_owned();
    let line = running.line_of_stderr("serving at ");
    let address = line.rsplit("serving at ").next().expect("an address").trim().to_owned();
    sql(folder.path(), &[&["--workers", &address, QUERY][..], &TINY].concat()).succeeds();
    let mut stream = TcpStream::connect(&status).expect("a status server");
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").expect("a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    assert!(answer.contains("annulus_ready 1.0") && answer.contains("annulus_tasks_running 0.0"), "{answer}");
    running.end_by("TERM", 143);
    fs::write(folder.path().join("worker.toml"), "colour = 1").expect("a file");
    let done = Annulus::new(["worker", "--config", "worker.toml"]).at(folder.path()).fails();
    assert!(done.stderr.contains("worker.toml") && done.stderr.contains("'colour'"), "{}", done.stderr);
}

/// The silence after which a worker is lost, in seconds, and the longest time until an error on a busy
/// machine.
const SILENCE: &str = "5";
const LIMIT: Duration = Duration::from_secs(60);

/// Kills or freezes one of three workers while they run a query, at a moment that `random` chooses.
fn lose_a_worker(random: &mut StdRng) {
    let folder = tempfile::tempdir().expect("a folder");
    write_tables(folder.path());
    let more = ["--allow-read", ".", "--silence", SILENCE];
    // A ring of workers that are apart uses connections.
    let (ring, is_apart) = [(&[][..], false), (AROUND, false), (AROUND, true)][random.random_range(0..3)];
    let start = if is_apart { worker_apart } else { worker };
    let mut workers: Vec<_> = (0..3).map(|_| start(folder.path(), &more)).collect();
    let sql = |list: &str, query: &str| {
        sql(folder.path(), &[&["--workers", list, "--silence", SILENCE, query][..], &TINY].concat())
    };
    // Four hundred million pairs.
    let long = "SELECT a.v, sum(a.k * b.v) FROM 'a/' a JOIN 'b/' b ON a.v % 3 = b.v % 3 GROUP BY a.v";
    let all = list(&workers);
    let more = [&["--workers", &all, "--silence", SILENCE, "--retries", "0", long][..], ring, &TINY].concat();
    let mut running = crate::sql(folder.path(), &more).start();
    let (lost, moment, signal) =
        (random.random_range(0..3), random.random_range(0..40), ["KILL", "STOP"][random.random_range(0..2)]);
    let before = ticks(workers[lost].0.id()).expect("a worker");
    let (process, address) = workers.remove(lost);
    running.wait_until(|| ticks(process.id()).is_some_and(|now| now >= before + moment));
    process.signal(signal);
    let start = Instant::now();
    let code = running.exit_code();
    let took = start.elapsed();
    let said = running.stderr();
    println!("worker {lost}, {signal} after {moment} ticks, {ring:?}, apart: {is_apart}: {took:?}, {said}");
    assert!(code == Some(1) && took < LIMIT && said.contains(&address), "{code:?} after {took:?}: {said}");
    drop(process);
    // The others go on.
    let here = Annulus::new(["sql", "--format", "csv", QUERY]).at(folder.path()).temp(folder.path()).succeeds();
    assert_eq!(sql(&list(&workers), QUERY).succeeds().stdout, here.stdout);
    for (process, _) in workers {
        process.end_by("TERM", 143);
    }
    // A process that was killed leaves its folder of spilled rows, and the next one removes it.
    let temp = if is_apart { long_path(folder.path()) } else { folder.path().to_owned() };
    Annulus::new(["sql", "SELECT 1"]).at(folder.path()).temp(&temp).succeeds();
    if is_apart {
        fs::remove_dir(temp).expect("it is empty");
    }
    assert_eq!(names(folder.path()), ["a", "b"], "nothing is left");
}

/// `ANNULUS_MOMENTS` and `ANNULUS_SEED` set how often, and when.
#[test]
fn a_worker_that_is_lost_is_named_and_the_others_go_on() {
    let given = |name: &str, default: u64| env::var(name).map_or(default, |text| text.parse().expect("a number"));
    let mut random = StdRng::seed_from_u64(given("ANNULUS_SEED", 18));
    (0..given("ANNULUS_MOMENTS", 4)).for_each(|_| lose_a_worker(&mut random));
}

/// Kills or freezes one of three workers while they run a query that takes some seconds, which starts again.
fn save_a_query(random: &mut StdRng) {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    write_tables(at);
    // Some million pairs.
    let query = "SELECT a.v, sum(a.k * b.v) FROM 'a/' a JOIN 'b/' b ON a.k % 401 = b.k % 401 GROUP BY a.v ORDER BY a.v";
    let here = sql(at, &[query]).succeeds();
    let more = ["--allow-read", ".", "--silence", SILENCE];
    let ring = [&[][..], AROUND][random.random_range(0..2)];
    let mut workers: Vec<_> = (0..3).map(|_| worker(at, &more)).collect();
    let all = list(&workers);
    let arguments =
        [&["--workers", &all, "--silence", SILENCE, "--output", "answer.csv", query][..], ring, &TINY].concat();
    let mut running = Annulus::new(["sql"].iter().chain(&arguments)).at(at).temp(at).start();
    let (lost, moment, signal) =
        (random.random_range(0..3), random.random_range(0..20), ["KILL", "STOP"][random.random_range(0..2)]);
    let before = ticks(workers[lost].0.id()).expect("a worker");
    let (process, address) = workers.remove(lost);
    // It may have ended before that.
    while !running.has_ended() && ticks(process.id()).is_some_and(|now| now < before + moment) {
        thread::yield_now();
    }
    let is_late = running.has_ended();
    process.signal(signal);
    let (start, code) = (Instant::now(), running.exit_code());
    let (took, said) = (start.elapsed(), running.stderr());
    println!("worker {lost}, {signal} after {moment} ticks, {ring:?}: {took:?}, {said}");
    assert!(code == Some(0) && took < LIMIT, "{code:?} after {took:?}: {said}");
    assert!(is_late || !said.contains("starts again") || said.contains(&address), "{said}");
    assert_eq!(fs::read_to_string(at.join("answer.csv")).expect("the answer"), here.stdout);
    drop(process);
    for (process, _) in workers {
        process.end_by("TERM", 143);
    }
    Annulus::new(["sql", "SELECT 1"]).at(at).temp(at).succeeds();
    assert_eq!(names(at), ["a", "answer.csv", "b"], "nothing is left");
}

#[test]
fn a_query_whose_worker_is_lost_starts_again() {
    let given = |name: &str, default: u64| env::var(name).map_or(default, |text| text.parse().expect("a number"));
    let mut random = StdRng::seed_from_u64(given("ANNULUS_SEED", 7));
    (0..given("ANNULUS_MOMENTS", 4)).for_each(|_| save_a_query(&mut random));
    let done = Annulus::new(["sql", "--retries", "1", "SELECT 1"]).fails();
    assert!(done.stderr.contains("--retries needs --workers or --cluster"), "{}", done.stderr);
}

#[test]
fn a_worker_stays_on_this_machine_unless_it_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let done = Annulus::new(["worker", "--listen", "0.0.0.0:0", "--allow-read", "."]).at(folder.path()).fails();
    assert!(done.stderr.contains("--insecure") && done.stderr.contains("0.0.0.0:0"), "{}", done.stderr);
    let done = Annulus::new(["worker", "--listen", "127.0.0.1:0", "--allow-read", "none"]).at(folder.path()).fails();
    assert!(done.stderr.contains("--allow-read") && done.stderr.contains("'none'"), "{}", done.stderr);
}

#[test]
fn a_worker_that_nohup_starts_outlives_its_terminal() {
    let folder = tempfile::tempdir().expect("a folder");
    let arguments = ["worker", "--listen", "127.0.0.1:0", "--allow-read", "."];
    let mut running = Annulus::by(&["nohup"], arguments).at(folder.path()).start();
    let line = running.line_of_stderr("serving at ");
    running.signal("HUP");
    let address = line.rsplit("serving at ").next().expect("an address").trim();
    Annulus::new(["worker", "ping", "--workers", address]).succeeds();
    running.end_by("TERM", 143);
}

#[test]
fn workers_end_with_a_command_that_is_killed() {
    let folder = tempfile::tempdir().expect("a folder");
    write_tables(folder.path());
    let endless = "SELECT count(*) FROM 'a/' a, 'a/' b, 'b/' c WHERE a.k + b.k > c.k";
    let mut running = sql(folder.path(), &[&["--cluster", "2", endless][..], &TINY].concat()).start();
    let command = running.id();
    running.wait_until(|| children(command).len() == 2);
    let workers = children(command);
    running.end_by("KILL", 137);
    // A process that nobody waits for stays as a zombie until init has seen it.
    let is_there = |pid: &u32| !matches!(state(*pid), None | Some('Z'));
    while workers.iter().any(is_there) {
        thread::yield_now();
    }
}
