//! A ring of three machines, which are nodes on loopback.

use std::{
    fs,
    net::{SocketAddr, TcpListener, TcpStream},
    path::Path,
    sync::atomic::{AtomicU16, Ordering::Relaxed},
};

use rand::{SeedableRng, rngs::StdRng};
use tempfile::TempDir;

use crate::{
    support::{Annulus, Running},
    tables::{Shape, write_parquet},
};

/// The members of the ring: its hosts, and the submitter of joins.
pub const HOSTS: [&str; 3] = ["alpha", "beta", "gamma"];
pub const SUBMITTER: &str = "me";

/// The addresses at which a host accepts orders and rows.
#[derive(Clone, Copy)]
pub struct Addresses {
    pub control: SocketAddr,
    pub data: SocketAddr,
}

/// A folder with a ring file, certificates and two inputs.
pub struct Ring {
    folder: TempDir,
    settings: String,
    pub addresses: [Addresses; 3],
}

impl Ring {
    /// Creates a ring with `rows` rows on each side.
    pub fn new(settings: &str, rows: usize) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        make_certificates(folder.path(), "certs");
        let [a, b, c, d, e, f] = [(); 6].map(|()| free_address());
        let addresses = [(a, b), (c, d), (e, f)].map(|(control, data)| Addresses { control, data });
        let mut rng = StdRng::seed_from_u64(2);
        for name in ["a", "b"] {
            let shape = Shape { rows, keys: 50.max(rows as i64 / 10), nulls: 0.1, skewed: false };
            write_parquet(&folder.path().join(name), &shape.table(&mut rng, name == "a"), 3, rows / 6);
        }
        let ring = Self { folder, settings: settings.to_owned(), addresses };
        ring.write_file("ring.toml", &addresses);
        ring
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Writes a ring file with these addresses.
    pub fn write_file(&self, name: &str, addresses: &[Addresses; 3]) {
        let mut text = format!("certificates = 'certs'\n{}\n", self.settings);
        for (host, Addresses { control, data }) in HOSTS.iter().zip(addresses) {
            text.push_str(&format!("[[host]]\nname = '{host}'\ncontrol = '{control}'\ndata = '{data}'\n"));
        }
        fs::write(self.path().join(name), text).expect("a file");
    }

    /// Starts all nodes, each with its own ring file.
    pub fn nodes(&self, files: [&str; 3]) -> [Running; 3] {
        [0, 1, 2].map(|place| self.node(place, files[place]))
    }

    /// Starts one node.
    pub fn node(&self, place: usize, file: &str) -> Running {
        self.node_with(place, file, &["--allow-read", ".", "--allow-write", "."])
    }

    /// Starts one node with more arguments.
    pub fn node_with(&self, place: usize, file: &str, more: &[&str]) -> Running {
        let arguments = ["node", "--ring", file, "--name", HOSTS[place], "--timeout", "2"];
        let mut node = Annulus::new(arguments.iter().chain(more)).at(self.path()).start();
        node.wait_until(|| TcpStream::connect(self.addresses[place].control).is_ok());
        node
    }
}

/// Returns an address that is free until its host binds it. Its port is below those that the system
/// gives to connections and to port 0. No two tests of this process get the same one.
fn free_address() -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    loop {
        let port = 12_000 + (std::process::id() as u16 % 100 * 200 + NEXT.fetch_add(1, Relaxed)) % 20_000;
        if let Ok(listener) = TcpListener::bind(("127.0.0.1", port)) {
            return listener.local_addr().expect("an address");
        }
    }
}

pub fn make_certificates(folder: &Path, name: &str) {
    Annulus::new(["node", "init-ca", "--ring", "test", "--folder", name]).at(folder).succeeds();
    for host in HOSTS {
        Annulus::new(["node", "add-host", host, "--folder", name]).at(folder).succeeds();
    }
    Annulus::new(["node", "add-submitter", SUBMITTER, "--folder", name]).at(folder).succeeds();
    // A host does not start if this key is beside its own.
    fs::remove_file(folder.join(name).join("ca-key.pem")).expect("the authority's key");
}
