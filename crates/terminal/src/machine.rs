//! What the measurements ran on.

use std::{
    env::consts::ARCH,
    fmt, fs,
    num::NonZeroUsize,
    thread,
    time::{Duration, Instant},
};

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

/// Bytes of memory of this machine, or of the container that this process runs in; `None` where the
/// system does not tell.
pub fn memory_bytes() -> Option<u64> {
    let total = meminfo("MemTotal:")?;
    let limit = fs::read_to_string("/sys/fs/cgroup/memory.max").ok().and_then(|text| text.trim().parse().ok());
    Some(limit.map_or(total, |limit: u64| limit.min(total)))
}

/// Bytes of memory that could be taken now without swapping; `None` where the system does not tell.
pub fn available_bytes() -> Option<u64> {
    meminfo("MemAvailable:")
}

/// Most memory that this process takes, more than it had in the beginning. One at a time.
pub struct ResidentPeak {
    before: u64,
}

impl ResidentPeak {
    /// Begins now; `None` where the system does not count, as Linux does.
    pub fn start() -> Option<Self> {
        // 5 makes the peak what there is now.
        fs::write("/proc/self/clear_refs", "5").ok()?;
        Some(Self { before: field("/proc/self/status", "VmRSS:")? })
    }

    /// The peak so far.
    pub fn bytes(&self) -> Option<u64> {
        Some(field("/proc/self/status", "VmHWM:")?.saturating_sub(self.before))
    }
}

/// How busy this process keeps the cores.
pub struct Busy {
    start: Instant,
    on_cores: Option<f64>,
}

impl Busy {
    /// From now on.
    pub fn start() -> Self {
        Self { start: Instant::now(), on_cores: on_cores() }
    }

    /// Seconds on cores since the start, of all threads; `None` where the system does not tell, as
    /// Linux does to a hundredth.
    pub fn seconds(&self) -> Option<f64> {
        Some(on_cores()? - self.on_cores?)
    }

    /// The same, by what all cores have.
    pub fn load(&self) -> Option<f64> {
        Some(self.seconds()? / self.start.elapsed().as_secs_f64() / cores() as f64)
    }
}

/// Time of one thread on a core.
pub struct OnCore(Duration);

impl OnCore {
    /// From now on, of the calling thread; `None` where the system does not tell, as Linux does.
    pub fn start() -> Option<Self> {
        let text = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
        Some(Self(Duration::from_nanos(text.split_ascii_whitespace().next()?.parse().ok()?)))
    }

    /// The time since then, for the thread that began; `None` if it was too short for the system,
    /// which counts now and then.
    pub fn elapsed(&self) -> Option<Duration> {
        Some(Self::start()?.0.checked_sub(self.0)?).filter(|time| !time.is_zero())
    }
}

/// Seconds that all threads of this process have been on a core.
fn on_cores() -> Option<f64> {
    /// Linux counts in these for whoever asks (`USER_HZ`).
    const TICKS: f64 = 100.0;
    let text = fs::read_to_string("/proc/self/stat").ok()?;
    // The second field is a name in parentheses, which may have spaces; user and system time are the
    // 14th and 15th.
    let fields = text.rsplit_once(')')?.1.split_ascii_whitespace().skip(11).take(2);
    Some(fields.filter_map(|field| field.parse::<f64>().ok()).sum::<f64>() / TICKS)
}

/// A line of Linux's `/proc/meminfo`, in bytes.
fn meminfo(name: &str) -> Option<u64> {
    field("/proc/meminfo", name)
}

/// A line of one of Linux's files about memory, in bytes.
fn field(path: &str, name: &str) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
}

/// The processor's name where the system tells it in a file, as Linux does.
fn cpu_model() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}
