//! The time on cores of everything that runs on a machine. `annulus_baselines::clock` has that of a
//! thread and of this process.

use std::{fs, time::Instant};

use anyhow::{Context, Result};

/// Measures the time that the cores of this machine work, for any process or for the kernel.
pub(crate) struct Machine(Idle);

/// How long a machine's cores have been idle.
struct Idle {
    now: Instant,
    cores: usize,
    /// The sum over all cores, since the machine has started.
    seconds: f64,
}

impl Machine {
    /// Starts the measurement.
    ///
    /// # Errors
    /// If the system does not report it; Linux does.
    pub(crate) fn start() -> Result<Self> {
        Ok(Self(Idle::now()?))
    }

    /// Returns the seconds of work since the start, of all cores. Linux counts hundredths of a
    /// second.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub(crate) fn busy_s(&self) -> Result<f64> {
        let (Self(start), end) = (self, Idle::now()?);
        let all = (end.now - start.now).as_secs_f64() * start.cores as f64;
        Ok((all - (end.seconds - start.seconds)).max(0.0))
    }
}

impl Idle {
    fn now() -> Result<Self> {
        let text = fs::read_to_string("/proc/stat").context("cannot read '/proc/stat'")?;
        Self::of(&text).context("unexpected text in '/proc/stat'")
    }

    /// Reads the text of `/proc/stat`: a line of all cores, and then one of each. After its name, a
    /// line has the times of user, nice, system, idle, and idle while a disk works.
    fn of(text: &str) -> Option<Self> {
        /// The unit in which Linux reports these times (`USER_HZ`).
        const TICKS: f64 = 100.0;
        let mut idle = text.lines().next()?.split_ascii_whitespace().skip(4).map(str::parse::<f64>);
        let seconds = (idle.next()?.ok()? + idle.next()?.ok()?) / TICKS;
        let cores = text.lines().skip(1).take_while(|line| line.starts_with("cpu")).count();
        Some(Self { now: Instant::now(), cores, seconds })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_time_is_that_of_all_cores() {
        let text =
            "cpu  900 10 300 5000 250 0 30 0\ncpu0 450 5 150 2500 125 0 15 0\ncpu1 450 5 150 2500 125 0 15 0\nintr 7\n";
        let idle = Idle::of(text).unwrap();
        assert_eq!((idle.cores, idle.seconds), (2, 52.5));
        assert!(Idle::of("").is_none() && Idle::of("cpu 1 2 3").is_none() && Idle::of("cpu 1 2 3 x 5").is_none());
    }
}
