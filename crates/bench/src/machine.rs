//! What the measurements ran on.

use std::{env::consts::ARCH, fmt, fs, num::NonZeroUsize, thread};

/// Facts about this machine and run that a reader of times needs.
pub struct Machine {
    /// Cores that this process may use.
    pub cores: usize,
    /// Worker threads of the run.
    pub threads: usize,
    /// The processor's name.
    pub cpu: String,
}

impl Machine {
    /// This machine; the run has `threads` worker threads.
    pub fn new(threads: usize) -> Self {
        Self { cores: cores(), threads, cpu: cpu_model().unwrap_or_else(|| ARCH.to_owned()) }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {} cores, {} worker threads", self.cpu, self.cores, self.threads)
    }
}

/// Cores that this process may use.
pub fn cores() -> usize {
    thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

/// Bytes of memory of this machine, or of the container that this process runs in; `None` where the system does not tell.
pub fn memory_bytes() -> Option<u64> {
    let total = meminfo("MemTotal:")?;
    let limit = fs::read_to_string("/sys/fs/cgroup/memory.max").ok().and_then(|text| text.trim().parse().ok());
    Some(limit.map_or(total, |limit: u64| limit.min(total)))
}

/// Bytes of memory that could be taken now without swapping; `None` where the system does not tell.
pub fn available_bytes() -> Option<u64> {
    meminfo("MemAvailable:")
}

/// A line of Linux's `/proc/meminfo`, in bytes.
fn meminfo(name: &str) -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
}

/// The processor's name where the system tells it in a file, as Linux does.
fn cpu_model() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}
