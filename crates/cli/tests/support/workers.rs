//! Workers that are processes.

use std::{
    fs,
    path::{Path, PathBuf},
};

use annulus_roundabout::secure::{Authority, HostName};

use super::{Annulus, Running};

/// Options that give each worker a task, however small the tables are.
pub const TINY: [&str; 2] = ["--set", "distributed.file_scan_config_bytes_per_partition=1"];

/// Makes a folder with certificates of hosts and of the submitter "me". The authority's key is not there.
pub fn certificates(folder: &Path, ring: &str, hosts: &[&str]) {
    let name = |name: &str| HostName::new(name).expect("a name");
    fs::create_dir(folder).expect("a folder");
    let authority = Authority::create(folder, ring.parse().expect("a name")).expect("an authority");
    authority.add_submitter(&name("me")).expect("a submitter");
    for host in hosts {
        authority.add_host(&name(host), &[]).expect("a host");
    }
    fs::remove_file(Authority::key_path(folder)).expect("it is removed");
}

/// Starts a worker at a free port, and returns its address.
pub fn worker(folder: &Path, more: &[&str]) -> (Running, String) {
    let fixed = ["worker", "--listen", "127.0.0.1:0"];
    serving(Annulus::new(fixed.iter().chain(more)).at(folder).temp(folder))
}

/// Starts a worker whose rings use connections, even to workers of this machine.
pub fn worker_apart(folder: &Path, more: &[&str]) -> (Running, String) {
    let fixed = ["worker", "--listen", "127.0.0.1:0"];
    serving(Annulus::new(fixed.iter().chain(more)).at(folder).temp(&long_path(folder)))
}

/// Returns a folder for temporary files whose path is too long for a socket, so that processes which use it
/// cannot share memory. It is created if it is not there.
pub fn long_path(folder: &Path) -> PathBuf {
    let long = folder.join("l".repeat(120));
    fs::create_dir_all(&long).expect("a folder");
    long
}

/// Starts a worker, and returns its address.
pub fn serving(worker: Annulus) -> (Running, String) {
    let mut running = worker.start();
    let line = running.line_of_stderr("serving at ");
    let address = line.rsplit("serving at ").next().expect("an address").trim().to_owned();
    (running, address)
}

/// Returns the addresses as the command line takes them.
pub fn list(workers: &[(Running, String)]) -> String {
    workers.iter().map(|(_, address)| address.as_str()).collect::<Vec<_>>().join(",")
}
