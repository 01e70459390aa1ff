//! The time on cores of everything else that runs on a machine. `annulus_baselines::clock` has that
//! of a thread and of this process.

use std::{fs, process, time::Instant};

use annulus_terminal::machine::cores;
use anyhow::{Context, Result};

/// The unit in which Linux reports times (`USER_HZ`), in parts of a second.
const TICKS: f64 = 100.0;

/// Measures the time that other processes take from this one's cores, and a hypervisor.
pub(crate) struct Machine {
    start: Instant,
    others_s: f64,
}

impl Machine {
    /// Starts the measurement.
    ///
    /// # Errors
    /// If the system does not report it; Linux does.
    pub(crate) fn start() -> Result<Self> {
        Ok(Self { others_s: others_s()? + stolen_s()?, start: Instant::now() })
    }

    /// Returns the part of all cores' time since the start. Linux counts hundredths of a second.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub(crate) fn others_share(&self) -> Result<f64> {
        let all = self.start.elapsed().as_secs_f64() * cores() as f64;
        // A process that ended and that nobody counts any more would make it negative.
        Ok((others_s()? + stolen_s()? - self.others_s).max(0.0) / all)
    }
}

/// Returns the seconds for which a hypervisor took cores away.
fn stolen_s() -> Result<f64> {
    let text = fs::read_to_string("/proc/stat").context("cannot read '/proc/stat'")?;
    stolen_of(&text).context("unexpected text in '/proc/stat'")
}

/// Reads the text of `/proc/stat`. Its first line has a name, and then the times of user, nice,
/// system, idle, idle while a disk works, interrupts, soft interrupts, and the time that was
/// stolen.
fn stolen_of(text: &str) -> Option<f64> {
    Some(text.lines().next()?.split_ascii_whitespace().nth(8)?.parse::<f64>().ok()? / TICKS)
}

/// Returns the seconds that all other processes have spent on cores, with those of their children
/// that have ended. The kernel's threads for packets work for this process and do not count.
fn others_s() -> Result<f64> {
    let own = process::id().to_string();
    let folder = fs::read_dir("/proc").context("cannot read '/proc'")?;
    let names = folder.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let others = names.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()) && *name != own);
    // A process may end meanwhile.
    let texts = others.filter_map(|name| fs::read_to_string(format!("/proc/{name}/stat")).ok());
    Ok(texts.filter_map(|text| process_s(&text)).sum())
}

/// Reads the text of `/proc/PID/stat`. `None` for the kernel's threads for packets.
fn process_s(text: &str) -> Option<f64> {
    // The second field is a name in parentheses, which may contain spaces. User and system time,
    // and those of the children, are fields 14 to 17.
    let (start, fields) = text.rsplit_once(')')?;
    let times = fields.split_ascii_whitespace().skip(11).take(4).map(str::parse::<f64>);
    let seconds = times.sum::<Result<f64, _>>().ok()? / TICKS;
    (!start.contains("(ksoftirqd/")).then_some(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stolen_time_is_that_of_all_cores() {
        assert_eq!(stolen_of("cpu  900 10 300 5000 250 0 30 70 0 0\ncpu0 450 5 150 2500 125 0 15 35\n"), Some(0.7));
        assert!(
            stolen_of("").is_none() && stolen_of("cpu 1 2 3").is_none() && stolen_of("cpu 1 2 3 4 5 6 7 x").is_none()
        );
    }

    #[test]
    fn a_process_has_its_own_time_and_that_of_its_children() {
        let text = |name: &str| format!("7 ({name}) S 1 2 3 4 5 6 7 8 9 10 100 20 3 4 20 0 1 0 99");
        assert_eq!(process_s(&text("a (b) c")), Some(1.27));
        assert_eq!(process_s(&text("ksoftirqd/0")), None);
        assert_eq!(process_s("7 (a"), None);
    }
}
