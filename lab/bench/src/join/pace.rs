//! Hosts that join slower than a core could, so that each has a core of its own though the machine
//! has fewer cores than hosts.

use std::{
    fs::File,
    os::unix::fs::FileExt,
    thread,
    time::{Duration, Instant},
};

use annulus_baselines::clock::{Clock, Stopwatch};

/// The least time from a pause to the next one, in seconds. A pause costs about a hundredth of it.
const PERIOD_S: f64 = 1e-3;

/// The speed of a join.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// The seconds for a pair of rows.
    pub(super) pair_s: f64,
}

/// A thread that keeps a pace by pauses.
#[derive(Debug)]
pub(super) struct PacedThread {
    pace: Pace,
    on_core: Stopwatch,
    /// The system's count of how long the thread was ready to run and had no core. `None` where
    /// there is none: then the work lasts longer by such times.
    delays: Option<File>,
    /// The time on a core and the count at the last pause.
    at_pause: (Duration, Duration),
    /// The seconds by which the work should have lasted longer until now; negative if it should have
    /// been shorter.
    owed_s: f64,
}

impl Pace {
    /// Starts with the calling thread.
    pub(super) fn start(self) -> PacedThread {
        let delays = File::open("/proc/thread-self/schedstat").ok();
        let at_pause = (Duration::ZERO, Duration::ZERO);
        let mut paced = PacedThread { pace: self, on_core: Clock::Processor.thread(), delays, at_pause, owed_s: 0.0 };
        paced.at_pause = paced.now();
        paced
    }
}

impl PacedThread {
    /// Pauses until the work of `pairs` more pairs has lasted as long as it should, with the time
    /// for which the thread found no core: it would have had its own at once. Times in which it
    /// waited for anything else do not count.
    pub(super) fn keep(&mut self, pairs: usize) {
        self.owed_s += pairs as f64 * self.pace.pair_s;
        if self.owed_s < PERIOD_S {
            return;
        }
        let (on_core, delayed) = self.now();
        let lasted = (on_core - self.at_pause.0) + delayed.saturating_sub(self.at_pause.1);
        self.owed_s -= lasted.as_secs_f64();
        let start = Instant::now();
        if self.owed_s > 0.0 {
            // A real delay: it stands for the rest of the work of a slower core.
            thread::sleep(Duration::from_secs_f64(self.owed_s));
            self.owed_s -= start.elapsed().as_secs_f64();
        }
        self.at_pause = self.now();
    }

    /// Returns the time on a core, and for which the thread found none.
    fn now(&self) -> (Duration, Duration) {
        let mut text = [0; 64];
        let read = self.delays.as_ref().and_then(|file| file.read_at(&mut text, 0).ok());
        let text = str::from_utf8(&text[..read.unwrap_or(0)]).unwrap_or_default();
        // The times on a core and without one, and the number of turns.
        let nanoseconds = text.split_ascii_whitespace().nth(1).and_then(|number| number.parse().ok());
        (self.on_core.elapsed(), nanoseconds.map_or(Duration::ZERO, Duration::from_nanos))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Works for 1,000 pairs, `work_s` seconds for each, and returns the seconds that it lasted.
    fn work(pair_s: f64, work_s: f64) -> f64 {
        let (start, on_core) = (Instant::now(), Clock::Processor.thread());
        let mut paced = Pace { pair_s }.start();
        for pairs in 1..=1000 {
            while on_core.elapsed().as_secs_f64() < f64::from(pairs) * work_s {}
            paced.keep(1);
        }
        start.elapsed().as_secs_f64()
    }

    #[test]
    fn work_lasts_as_long_as_its_pace_says() {
        // What was done since the last pause is not paid for.
        assert!(work(50e-6, 10e-6) >= 50e-3 - 2.0 * PERIOD_S);
    }

    #[test]
    fn slow_work_is_not_slowed_down() {
        let mut paced = Pace { pair_s: 1e-3 }.start();
        while paced.on_core.elapsed() < Duration::from_millis(5) {}
        paced.keep(2);
        assert!(paced.owed_s < 0.0, "{paced:?}");
        // It catches up without a pause.
        let owed_s = paced.owed_s;
        paced.keep(1);
        assert!((paced.owed_s - owed_s - 1e-3).abs() < 1e-9, "{paced:?}");
    }
}
