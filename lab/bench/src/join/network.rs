//! A network for the hosts of a ring: each has its own network namespace, and a link of a chosen
//! rate to the next one. Needs Linux, its rights of an administrator, and iproute2.
//!
//! The namespaces have no names. The system removes them and their links with the process, however
//! that ends.

use std::{
    fs::File,
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    os::fd::{AsFd, AsRawFd},
    process::{self, Command, Stdio},
    thread,
};

use annulus_roundabout::Address;
use anyhow::{Context, Result, anyhow, ensure};
use nix::sched::{CloneFlags, setns, unshare};

const PORT: u16 = 7000;
/// The time for which a link can send at full speed after a pause: scheduling of threads must not
/// look like a slower link.
const BURST_S: f64 = 0.01;
/// The least size of a burst, in bytes: more than the largest packet, which is cut up later.
const LEAST_BURST: u64 = 128 << 10;

/// The namespaces of all hosts, in order. Host `i` sends through its device `next`, and receives
/// from its device `prev`.
pub(crate) struct Network(Vec<File>);

impl Network {
    /// Makes a network of `hosts` hosts. Each sends at most `rate` bits per second.
    ///
    /// # Errors
    /// If the system refuses, or `ip` or `tc` fails. The message says what is missing.
    pub(crate) fn new(hosts: u16, rate: u64) -> Result<Self> {
        ensure!((2..=250).contains(&hosts), "a network has 2 to 250 hosts");
        let network = Self((0..hosts).map(|_| namespace()).collect::<Result<_>>()?);
        for (host, space) in network.0.iter().enumerate() {
            let successor = &network.0[(host + 1) % network.0.len()];
            let there = format!("/proc/{}/fd/{}", process::id(), successor.as_raw_fd());
            run_in(space, &format!("ip link add next type veth peer name prev netns {there}"))?;
            for (space, device, end) in [(space, "next", 1), (successor, "prev", 2)] {
                run_in(space, &format!("ip address add {}/30 dev {device}", address(host as u16, end)))?;
                run_in(space, &format!("ip link set {device} up"))?;
            }
            let burst = LEAST_BURST.max((rate as f64 / 8.0 * BURST_S) as u64);
            run_in(space, &format!("tc qdisc add dev next root tbf rate {rate}bit burst {burst} latency 50ms"))?;
        }
        Ok(network)
    }

    /// Moves the calling thread, and those that it starts, into the namespace of host `me`.
    pub(super) fn enter(&self, me: u16) -> io::Result<()> {
        Ok(setns(self.0[usize::from(me)].as_fd(), CloneFlags::CLONE_NEWNET)?)
    }

    /// Opens the listener of host `me`, whose thread has entered its namespace.
    pub(super) fn address(&self, me: u16) -> io::Result<Address> {
        let at = |link: u16| SocketAddr::from((address(link, 2), PORT));
        let predecessor = (usize::from(me) + self.0.len() - 1) % self.0.len();
        let listener = TcpListener::bind(at(predecessor as u16))?;
        Ok(Address::Tcp { listener, successor: at(me) })
    }
}

/// Returns the address of one end of host `host`'s link to the next one.
fn address(host: u16, end: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 77, host as u8, end)
}

/// Makes a namespace, which lives as long as the file.
fn namespace() -> Result<File> {
    elsewhere(|| {
        unshare(CloneFlags::CLONE_NEWNET).context("cannot make a network namespace: run it as root")?;
        File::open("/proc/thread-self/ns/net").context("cannot open a network namespace")
    })
}

/// Runs a command in a namespace.
fn run_in(space: &File, command: &str) -> Result<()> {
    let mut words = command.split(' ');
    let program = words.next().unwrap_or_default();
    let output = elsewhere(|| {
        setns(space.as_fd(), CloneFlags::CLONE_NEWNET).context("cannot enter a network namespace")?;
        let mut command = Command::new(program);
        let output = command.args(words).stdin(Stdio::null()).output();
        output.with_context(|| format!("cannot run '{program}': install iproute2"))
    })?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "'{command}' failed: {}", error.trim());
    Ok(())
}

/// Runs `act` on a thread of its own, so that this one keeps its namespace.
fn elsewhere<T: Send>(act: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    thread::scope(|scope| scope.spawn(act).join()).map_err(|_| anyhow!("a thread has panicked"))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_leads_from_each_host_to_the_next() {
        // Without the rights there is an error that says what is missing.
        match Network::new(3, 1_000_000_000) {
            Err(error) => {
                let error = format!("{error:#}");
                assert!(error.contains("root") || error.contains("iproute2") || error.contains("failed"), "{error}");
            }
            Ok(network) => thread::scope(|scope| {
                for me in 0..3 {
                    let network = &network;
                    scope.spawn(move || {
                        network.enter(me).unwrap();
                        let Address::Tcp { listener, successor } = network.address(me).unwrap() else { panic!() };
                        assert_eq!(listener.local_addr().unwrap().ip(), address((me + 2) % 3, 2));
                        assert_eq!(successor.ip(), address(me, 2));
                        let devices = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap();
                        assert!(devices.contains("next:") && devices.contains("prev:"), "{devices}");
                    });
                }
            }),
        }
    }
}
