//! Rings of real processes, one of which is killed or frozen. The others name it, and end.
//! `ANNULUS_FAILURES` sets the number of seeds.

use std::{
    io::{BufRead, BufReader, Lines, Write},
    net::TcpListener,
    os::unix::net::UnixListener,
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::Duration,
};

use annulus_roundabout::{Address, Fragment, Host, HostBuilder, HostId, RingConfig, RingPosition, RoundaboutError};
use rand::{Rng, SeedableRng, rngs::StdRng};

const SESSION: u64 = 3;
const CHILD: &str = "ANNULUS_TEST_HOST";
/// The number of fragments that a host has joined when it reports that the ring turns.
const TURNING: u64 = 20;

/// Not a test: one host of a ring, started by the tests below. It turns until it fails, and prints
/// the reason.
#[test]
#[ignore = "started by other tests"]
fn host() {
    let Ok(spec) = std::env::var(CHILD) else { return };
    let mut words = spec.splitn(5, ' ');
    let numbers: Vec<u64> = words.by_ref().take(3).map(|number| number.parse().unwrap()).collect();
    let (net, folder) = (words.next().unwrap(), words.next().unwrap());
    let position = RingPosition::new(numbers[0] as u16, numbers[1] as u16).unwrap();
    let timeout = Duration::from_millis(numbers[2]);
    let config = RingConfig::default()
        .with_fragment_bytes(64 << 10)
        .with_places(3)
        .with_own(2)
        .with_timeout(timeout)
        .with_connect_timeout(Duration::from_secs(30));
    let started = start(net, position, config, folder);
    let mut joined = 0;
    let join = |fragment: Fragment<'_>| {
        assert!(fragment.bytes.iter().all(|&byte| byte == fragment.frame.origin.0 as u8), "a damaged fragment");
        joined += 1;
        if joined == TURNING {
            println!("turning");
        }
        Ok::<_, RoundaboutError>(())
    };
    let fill = |bytes: &mut [u8]| {
        bytes.fill(position.me().0 as u8);
        Ok(Some(bytes.len()))
    };
    let error = started.and_then(|mut host| host.revolve(fill, join)).unwrap_err();
    println!("failed {error}");
}

fn start(net: &str, position: RingPosition, config: RingConfig, folder: &str) -> Result<Host, RoundaboutError> {
    #[cfg(feature = "ofi")]
    if let Some(provider) = net.strip_prefix("ofi-") {
        use annulus_roundabout::{
            BufferCache, Plaintext,
            fabric::FabricOptions,
            testing::{Fabric, connect},
        };

        let options = FabricOptions::new(provider);
        let options = if provider == "tcp" { options.with_node("127.0.0.1") } else { options };
        let fabric = Fabric::open(&options, &config, &BufferCache::default())?;
        let connections = connect(position, SESSION, &config, address(position, folder), &Plaintext)?;
        return Host::start(position, config, |inbox| fabric.start(position, SESSION, &config, connections, inbox));
    }
    assert!(["tcp", "unix"].contains(&net), "{net}");
    Host::join_ring(HostBuilder::new(position, SESSION, address(position, folder)).with_config(&config))
}

/// Sends this host's address to the test, and receives that of its successor.
fn address(position: RingPosition, folder: &str) -> Address {
    if !folder.is_empty() {
        let path = |host: HostId| Path::new(folder).join(format!("host-{host}"));
        return Address::Unix {
            listener: UnixListener::bind(path(position.me())).unwrap(),
            successor: path(position.successor()),
        };
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    println!("listening {}", listener.local_addr().unwrap());
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    Address::Tcp { listener, successor: line.trim().parse().unwrap() }
}

struct Process {
    child: Child,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Process {
    fn start(net: &str, me: u16, hosts: u16, timeout: u64, folder: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "host", "--ignored", "--nocapture", "--test-threads=1"])
            .env(CHILD, format!("{me} {hosts} {timeout} {net} {folder}"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self { child, stdin, lines: BufReader::new(stdout).lines() }
    }

    /// Returns the text after `word` on the next line that contains it.
    fn wait_for(&mut self, word: &str) -> String {
        let line = self.lines.by_ref().map(Result::unwrap).find(|line| line.contains(word));
        let line = line.unwrap_or_else(|| panic!("no word of {word}"));
        line.split_once(word).unwrap().1.trim().to_owned()
    }

    fn signal(&self, name: &str) {
        let killed = Command::new("kill").args([name, &self.child.id().to_string()]).status().unwrap();
        assert!(killed.success());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn fails(seed: u64, nets: &[&str]) {
    let mut random = StdRng::seed_from_u64(seed);
    let hosts = random.random_range(2..=5u16);
    let (net, freezes) = (nets[random.random_range(0..nets.len())], random.random());
    let folder = tempfile::tempdir().unwrap();
    let tcp = net != "unix";
    let path = if tcp { "" } else { folder.path().to_str().unwrap() };
    let timeout = 4000;
    let mut processes: Vec<Process> = (0..hosts).map(|me| Process::start(net, me, hosts, timeout, path)).collect();
    if tcp {
        let addresses: Vec<String> = processes.iter_mut().map(|process| process.wait_for("listening")).collect();
        for (me, process) in processes.iter_mut().enumerate() {
            writeln!(process.stdin, "{}", addresses[(me + 1) % addresses.len()]).unwrap();
        }
    }
    processes.iter_mut().for_each(|process| drop(process.wait_for("turning")));
    let victim = random.random_range(0..hosts);
    processes[usize::from(victim)].signal(if freezes { "-STOP" } else { "-KILL" });
    for (me, process) in processes.iter_mut().enumerate().filter(|(me, _)| *me != usize::from(victim)) {
        let error = process.wait_for("failed");
        let expected = format!("host {victim} has failed");
        assert!(error.starts_with(&expected), "seed {seed}: host {me} of {hosts}, {net}, frozen {freezes}: {error}");
        assert!(process.child.wait().unwrap().success(), "seed {seed}: host {me}");
    }
    let left_behind = processes.iter().map(|process| format!("/dev/shm/{}:", process.child.id()));
    let files: Vec<_> = std::fs::read_dir("/dev/shm").unwrap().map(|file| file.unwrap().path()).collect();
    for start in left_behind {
        let left = files.iter().find(|file| file.to_string_lossy().starts_with(&start));
        assert!(left.is_none(), "seed {seed}: {left:?} was left behind");
    }
}

fn seeds() -> u64 {
    std::env::var("ANNULUS_FAILURES").ok().and_then(|text| text.parse().ok()).unwrap_or(6)
}

#[test]
fn who_is_killed_or_frozen_is_named_by_all_others() {
    (0..seeds()).for_each(|seed| fails(seed, &["tcp", "unix"]));
}

#[cfg(feature = "ofi")]
#[test]
fn who_is_killed_or_frozen_in_a_fabric_is_named_by_all_others_which_clean_up() {
    (0..seeds()).for_each(|seed| fails(seed, &["ofi-tcp", "ofi-shm"]));
}
