//! Workers on networks: in namespaces of their own, behind slow links and links that are cut, and with
//! strangers at all of their ports.
#![cfg(target_os = "linux")]

mod support;

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    path::Path,
    process::{self, Command, Stdio},
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use annulus_roundabout::secure::{HostName, Identity, Role, connect};
use rand::{Rng, RngCore, SeedableRng, rngs::StdRng};
use support::{
    Annulus, Running, names,
    processes::{listening, ticks},
    workers::{TINY, certificates, list, serving, worker_apart},
};

/// The longest time until an error, on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

/// Writes the tables a and b, each of six files: each task has some.
fn write_tables(folder: &Path) {
    for (table, step) in [("a", 3), ("b", 5)] {
        fs::create_dir(folder.join(table)).expect("a folder");
        for part in 0..6 {
            let (first, last) = (part * 5_000, part * 5_000 + 4_999);
            let query = format!("SELECT value * {step} AS k, value % 13 AS v FROM generate_series({first}, {last})");
            let file = format!("{table}/{part}.parquet");
            Annulus::new(["sql", &query, "--output", &file]).at(folder).succeeds();
        }
    }
}

/// Queries whose rows go through repartitions, around a ring, and to a result that workers write.
const BAND: &str = "SELECT a.v, count(*), sum(b.k) FROM 'a/' a JOIN 'b/' b ON a.k BETWEEN b.k - 4 AND b.k + 4 GROUP BY \
                    a.v ORDER BY a.v";
const SHUFFLE: &str = "SELECT a.v, count(*), sum(b.k) FROM 'a/' a JOIN 'b/' b ON a.k = b.k GROUP BY a.v ORDER BY a.v";
const AROUND: [&str; 2] = ["--set", "annulus.cyclo_join=always"];

fn sql(folder: &Path, more: &[&str]) -> Annulus {
    Annulus::new(["sql", "--format", "csv"].iter().chain(more)).at(folder).temp(folder)
}

/// Hosts with a network each, which meet at a switch. All is removed when this is dropped.
struct Network {
    spaces: Vec<String>,
    switch: String,
}

impl Network {
    /// Returns `None` if this user cannot make networks, or the commands for that are not there.
    fn new(hosts: usize) -> Option<Self> {
        let name = |what: &str| format!("annulus-{}-{what}", process::id());
        let mut network = Self { spaces: Vec::new(), switch: name("switch") };
        if !ip(&["netns", "add", &network.switch]) {
            return None;
        }
        let within = |space: &str, command: &[&str]| ip(&[&["netns", "exec", space][..], command].concat());
        within(&network.switch, &["ip", "link", "add", "bridge", "type", "bridge"]).then_some(())?;
        within(&network.switch, &["ip", "link", "set", "bridge", "up"]).then_some(())?;
        for host in 0..hosts {
            let (space, port, address) = (name(&host.to_string()), format!("port{host}"), format!("{}/24", at(host)));
            ip(&["netns", "add", &space]).then_some(())?;
            network.spaces.push(space.clone());
            let (link, switch) = (["ip", "link"], network.switch.as_str());
            for command in [
                &["add", "ring", "type", "veth", "peer", "name", &port, "netns", switch][..],
                &["set", "ring", "up"],
                &["set", "lo", "up"],
            ] {
                within(&space, &[&link[..], command].concat()).then_some(())?;
            }
            within(&space, &["ip", "address", "add", &address, "dev", "ring"]).then_some(())?;
            within(switch, &["ip", "link", "set", &port, "master", "bridge", "up"]).then_some(())?;
        }
        Some(network)
    }

    /// Lets what a host sends come late, and at no more than this rate. Some systems can limit the rate alone.
    fn slow(&self, host: usize, delay: &str, rate: &str) {
        let queue = ["netns", "exec", &self.spaces[host], "tc", "qdisc", "replace", "dev", "ring", "root"];
        let late = ["netem", "delay", delay, "rate", rate];
        let limited = ["tbf", "rate", rate, "burst", "100kb", "latency", "50ms"];
        let is_slow = [&late[..], &limited].into_iter().any(|kind| ip(&[&queue[..], kind].concat()));
        assert!(is_slow, "the link of host {host} cannot be slowed");
    }

    /// Cuts a host off, without a word to the others.
    fn cut(&self, host: usize) {
        assert!(ip(&["netns", "exec", &self.spaces[host], "ip", "link", "set", "ring", "down"]));
    }

    /// Starts a worker on each host.
    fn workers(&self, folder: &Path) -> Vec<(Running, String)> {
        let start = |(host, space): (usize, &String)| {
            let address = format!("{}:7500", at(host));
            let fixed = ["worker", "--listen", &address, "--insecure", "--allow-read", ".", "--allow-write", "."];
            let all = fixed.iter().chain(&["--silence", "5"]);
            serving(Annulus::new(all).at(folder).temp(folder).within(space))
        };
        self.spaces.iter().enumerate().map(start).collect()
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for space in self.spaces.iter().chain([&self.switch]) {
            ip(&["netns", "delete", space]);
        }
    }
}

fn at(host: usize) -> String {
    format!("10.77.0.{}", host + 1)
}

fn ip(arguments: &[&str]) -> bool {
    let status = Command::new("ip").args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

#[test]
fn workers_on_slow_links_have_the_same_answers_and_a_cut_link_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    write_tables(at);
    let Some(network) = Network::new(3) else {
        println!("skipped: root and the commands ip and tc make networks");
        return;
    };
    let mut workers = network.workers(at);
    let all = list(&workers);
    (0..3).for_each(|host| network.slow(host, "10ms", "50mbit"));
    for (query, more) in [(SHUFFLE, &[][..]), (BAND, &AROUND)] {
        let here = sql(at, &[query]).succeeds();
        let on = [&["--workers", &all, query][..], more, &TINY].concat();
        assert_eq!(sql(at, &on).within(&network.spaces[0]).succeeds().stdout, here.stdout, "{query}");
    }
    let join = |workers: &str, more: &[&str]| {
        let all = ["join", "a", "b", "--on", "k", "--output", "out", "--silence", "5", "--workers", workers];
        let all = all.iter().chain(&TINY).chain(more);
        Annulus::new(all).at(at).temp(at).within(&network.spaces[0])
    };
    join(&all, &[]).succeeds();
    fs::remove_dir_all(at.join("out")).expect("the result");
    // 300 million pairs.
    let long = "SELECT a.v, sum(a.k * b.v) FROM 'a/' a JOIN 'b/' b ON a.k % 3 = b.k % 3 GROUP BY a.v";
    for (host, more) in [(2, &[][..]), (1, &AROUND)] {
        let all = list(&workers);
        let on = [&["--workers", &all, "--silence", "5", "--retries", "0", long][..], more, &TINY].concat();
        let before = ticks(workers[host].0.id()).expect("a worker");
        let mut running = sql(at, &on).within(&network.spaces[0]).start();
        running.wait_until(|| ticks(workers[host].0.id()).is_some_and(|now| now > before + 20));
        network.cut(host);
        let start = Instant::now();
        let (code, address) = (running.exit_code(), &workers[host].1);
        let (took, said) = (start.elapsed(), running.stderr());
        assert!(code == Some(1) && took < LIMIT && said.contains(address), "{code:?} after {took:?}: {said}");
        // The others go on, and write.
        workers.remove(host).0.end_by("KILL", 137);
        join(&list(&workers), &["--overwrite"]).succeeds();
        Annulus::new(["verify", "out"]).at(at).succeeds();
    }
    workers.into_iter().for_each(|(process, _)| process.end_by("TERM", 143));
    fs::remove_dir_all(at.join("out")).expect("the result");
    sql(at, &["SELECT 1"]).succeeds();
    assert_eq!(names(at), ["a", "b"], "nothing is left");
}

/// What a stranger does at a port.
fn disturb(port: u16, others: &Identity, random: &mut StdRng) -> Option<TcpStream> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_millis(200))).ok()?;
    match random.random_range(0..5) {
        0 => {
            stream.write_all(b"GET / HTTP/1.1\r\nHost: worker\r\n\r\n").ok()?;
            stream.read_to_end(&mut Vec::new()).ok();
        }
        1 => {
            let mut garbage = vec![0; random.random_range(1..100_000)];
            random.fill_bytes(&mut garbage);
            stream.write_all(&garbage).ok();
        }
        // A member of another ring, which knows how to speak.
        2 => drop(connect(stream.try_clone().ok()?, others, &HostName::new("alpha").expect("a name"))),
        // A greeting of TLS that never goes on.
        3 => stream.write_all(&[22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3]).ok()?,
        // Silence.
        _ => {}
    }
    Some(stream)
}

#[test]
fn strangers_at_all_ports_disturb_no_query() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    write_tables(at);
    let hosts = ["alpha", "beta", "gamma"];
    certificates(&at.join("certs"), "sales", &hosts);
    certificates(&at.join("others"), "thieves", &[]);
    let others = Identity::in_folder(&at.join("others"), Role::Submitter, None).expect("certificates");
    let workers: Vec<_> = hosts
        .into_iter()
        .map(|host| {
            let own = ["--certificates", &format!("certs/host-{host}.pem"), "--status", "127.0.0.1:0"];
            worker_apart(at, &[&own[..], &["--allow-read", ".", "--allow-write", "."]].concat())
        })
        .collect();
    let all = list(&workers);
    let on = [&["--workers", &all, "--certificates", "certs"][..], &TINY].concat();
    let expected = [SHUFFLE, BAND].map(|query| sql(at, &[query]).succeeds().stdout);
    let (is_over, came) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        for seed in 0..5 {
            let (workers, others, is_over, came) = (&workers, &others, &is_over, &came);
            scope.spawn(move || {
                let (mut random, mut open) = (StdRng::seed_from_u64(seed), Vec::new());
                while !is_over.load(Relaxed) {
                    let ports: Vec<u16> = workers.iter().flat_map(|(process, _)| listening(process.id())).collect();
                    let Some(&port) = ports.get(random.random_range(0..ports.len().max(1))) else { continue };
                    came.fetch_add(1, Relaxed);
                    open.extend(disturb(port, others, &mut random));
                    // At most ten stay, of each of five.
                    let more = open.len().saturating_sub(10);
                    open.drain(..more);
                }
            });
        }
        let begin = Instant::now();
        let mut rounds = 0;
        // Also at the ports of rings, which are open for a moment.
        while rounds < 3 || came.load(Relaxed) < 50 {
            for (query, expected) in [SHUFFLE, BAND].iter().zip(&expected) {
                let more = [query, "--set", "annulus.cyclo_join=always"];
                let there = sql(at, &[&on[..], &more].concat()).tries();
                let there = there.unwrap_or_else(|failed| {
                    is_over.store(true, Relaxed);
                    panic!("{query}: {}", failed.stderr)
                });
                is_over.fetch_or(there.stdout != *expected, Relaxed);
                assert_eq!(there.stdout, *expected, "{query}");
            }
            rounds += 1;
            assert!(begin.elapsed() < 3 * LIMIT, "strangers hold up queries");
        }
        is_over.store(true, Relaxed);
    });
    println!("{} strangers came", came.load(Relaxed));
    let output = ["join", "a", "b", "--on", "k", "--output", "out"];
    Annulus::new(output.iter().chain(&on)).at(at).temp(at).succeeds();
    workers.into_iter().for_each(|(process, _)| process.end_by("TERM", 143));
}
