//! Workers that are processes.

use std::path::Path;

use super::{Annulus, Running};

/// Options that give each worker a task, however small the tables are.
pub const TINY: [&str; 2] = ["--set", "distributed.file_scan_config_bytes_per_partition=1"];

/// Starts a worker at a free port, and returns its address.
pub fn worker(folder: &Path, more: &[&str]) -> (Running, String) {
    let fixed = ["worker", "--listen", "127.0.0.1:0"];
    serving(Annulus::new(fixed.iter().chain(more)).at(folder).temp(folder))
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
