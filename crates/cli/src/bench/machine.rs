//! What the measurements ran on.

use std::{env::consts::ARCH, fmt, fs, num::NonZeroUsize, thread};

/// Facts about this machine and run that a reader of times needs.
pub struct Machine {
    pub cores: usize,
    pub threads: usize,
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

/// The processor's name where the system tells it in a file, as Linux does.
fn cpu_model() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}
