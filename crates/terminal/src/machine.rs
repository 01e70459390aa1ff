//! Facts about the machine that measurements ran on.

use std::{
    env, fmt, fs,
    num::NonZeroUsize,
    thread,
    time::{Duration, Instant},
};

use annulus_topology::cpu_name;

use crate::units::counted;

/// The facts about the machine and the run that a reader of times needs.
pub struct Machine {
    /// The number of cores that this process may use.
    pub cores: usize,
    /// The number of worker threads of the run.
    pub threads: usize,
    /// The processor's name.
    pub cpu: String,
}

impl Machine {
    /// Describes this machine, for a run with `threads` worker threads.
    pub fn new(threads: usize) -> Self {
        Self { cores: cores(), threads, cpu: cpu_name() }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [cores, threads] =
            [(self.cores, "core"), (self.threads, "worker thread")].map(|(count, noun)| counted(count as u64, noun));
        write!(f, "{}, {cores}, {threads}", self.cpu)
    }
}

/// Returns the command line of this process, without the folder of the program. Words with unusual
/// letters are quoted, so that it can be pasted. What is not UTF-8 is replaced.
pub fn command_line() -> String {
    pasteable(env::args_os().map(|word| word.to_string_lossy().into_owned()))
}

fn pasteable(args: impl Iterator<Item = String>) -> String {
    let plain = |letter: char| letter.is_alphanumeric() || "-_=./,:+@%".contains(letter);
    let quoted = |word: String| {
        if !word.is_empty() && word.chars().all(plain) { word } else { format!("'{}'", word.replace('\'', "'\\''")) }
    };
    let words = args.enumerate().map(|(index, word)| match word.rsplit_once('/') {
        Some((_, name)) if index == 0 => quoted(name.to_owned()),
        _ => quoted(word),
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Returns the number of cores that this process may use.
pub fn cores() -> usize {
    thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

/// Returns the bytes of memory of this machine, or of the container that this process runs in.
/// `None` if the system does not report it.
pub fn memory_bytes() -> Option<u64> {
    let total = meminfo("MemTotal:")?;
    let limit = fs::read_to_string("/sys/fs/cgroup/memory.max").ok().and_then(|text| text.trim().parse().ok());
    Some(limit.map_or(total, |limit: u64| limit.min(total)))
}

/// Returns the bytes of memory that could be allocated now without swapping. `None` if the system
/// does not report it.
pub fn available_bytes() -> Option<u64> {
    meminfo("MemAvailable:")
}

/// Measures the peak of this process's resident memory above its value at the start. Only one may
/// exist at a time.
pub struct ResidentPeak {
    before: u64,
}

impl ResidentPeak {
    /// Starts the measurement. `None` if the system does not support it; Linux does.
    pub fn start() -> Option<Self> {
        // 5 resets the peak to the present value.
        fs::write("/proc/self/clear_refs", "5").ok()?;
        Some(Self { before: field("/proc/self/status", "VmRSS:")? })
    }

    /// Returns the peak since the start, in bytes.
    pub fn bytes(&self) -> Option<u64> {
        Some(field("/proc/self/status", "VmHWM:")?.saturating_sub(self.before))
    }
}

/// Measures the time that this process spends on cores.
pub struct CpuTime {
    start: Instant,
    on_cores: Option<f64>,
}

impl CpuTime {
    /// Starts the measurement.
    pub fn start() -> Self {
        Self { start: Instant::now(), on_cores: on_cores() }
    }

    /// Returns the seconds that all threads together spent on cores since the start. `None` if the
    /// system does not report it; Linux counts hundredths of a second.
    pub fn seconds(&self) -> Option<f64> {
        Some(on_cores()? - self.on_cores?)
    }

    /// Returns the same as a share of the time of all cores.
    pub fn load(&self) -> Option<f64> {
        Some(self.seconds()? / self.start.elapsed().as_secs_f64() / cores() as f64)
    }
}

/// Measures the time that one thread spends on a core.
pub struct OnCore(Duration);

impl OnCore {
    /// Starts the measurement for the calling thread. `None` if the system does not support it;
    /// Linux does.
    pub fn start() -> Option<Self> {
        let text = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
        Some(Self(Duration::from_nanos(text.split_ascii_whitespace().next()?.parse().ok()?)))
    }

    /// Returns the time since the start; the thread must be the same. `None` if the time was too
    /// short for the system, which updates its count only now and then.
    pub fn elapsed(&self) -> Option<Duration> {
        Some(Self::start()?.0.checked_sub(self.0)?).filter(|time| !time.is_zero())
    }
}

/// Returns the seconds that all threads of this process have spent on cores.
fn on_cores() -> Option<f64> {
    /// The unit in which Linux reports these times (`USER_HZ`).
    const TICKS: f64 = 100.0;
    let text = fs::read_to_string("/proc/self/stat").ok()?;
    // The second field is a name in parentheses, which may contain spaces. User and system time are
    // fields 14 and 15.
    let fields = text.rsplit_once(')')?.1.split_ascii_whitespace().skip(11).take(2);
    Some(fields.filter_map(|field| field.parse::<f64>().ok()).sum::<f64>() / TICKS)
}

/// Returns a line of Linux's `/proc/meminfo`, in bytes.
fn meminfo(name: &str) -> Option<u64> {
    field("/proc/meminfo", name)
}

/// Returns a line of a Linux file about memory, in bytes.
fn field(path: &str, name: &str) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_can_be_pasted() {
        let words = ["/usr/bin/annulus", "reproduce", "--out", "my folder", "it's", ""];
        let line = pasteable(words.into_iter().map(str::to_owned));
        assert_eq!(line, r"annulus reproduce --out 'my folder' 'it'\''s' ''");
    }
}
