//! Clocks for measurements.

use std::time::{Duration, Instant};

use libc::{CLOCK_PROCESS_CPUTIME_ID, CLOCK_THREAD_CPUTIME_ID, clock_gettime, clockid_t, timespec};

/// The clock that measures time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clock {
    /// Time that passes.
    #[default]
    Wall,
    /// The processor's time, which does not count how long others have the cores.
    Processor,
}

impl Clock {
    /// Starts to measure the calling thread.
    pub fn thread(self) -> Stopwatch {
        Stopwatch::new((self == Self::Processor).then_some(CLOCK_THREAD_CPUTIME_ID))
    }

    /// Starts to measure all threads of this process together.
    pub fn process(self) -> Stopwatch {
        Stopwatch::new((self == Self::Processor).then_some(CLOCK_PROCESS_CPUTIME_ID))
    }
}

/// A running measurement.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch {
    wall: Instant,
    processor: Option<(clockid_t, Duration)>,
}

impl Stopwatch {
    fn new(clock: Option<clockid_t>) -> Self {
        Self { wall: Instant::now(), processor: clock.map(|clock| (clock, now(clock))) }
    }

    /// Returns the time since the start. For a stopwatch of a thread, call it on that thread.
    pub fn elapsed(&self) -> Duration {
        self.processor.map_or_else(|| self.wall.elapsed(), |(clock, start)| now(clock).saturating_sub(start))
    }
}

fn now(clock: clockid_t) -> Duration {
    let mut now = timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes to `now` alone. It fails for unknown clocks alone.
    unsafe { clock_gettime(clock, &mut now) };
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processor_does_not_count_a_wait() {
        let (wall, thread, process) = (Clock::Wall.thread(), Clock::Processor.thread(), Clock::Processor.process());
        let mut sum = 0_u64;
        while process.elapsed() < Duration::from_millis(5) || thread.elapsed() < Duration::from_millis(5) {
            sum = std::hint::black_box(sum + 1);
        }
        // Another thread's time counts for the process alone.
        let alone = thread.elapsed();
        let other = std::thread::spawn(|| {
            let watch = Clock::Processor.thread();
            while watch.elapsed() < Duration::from_millis(20) {}
        });
        other.join().unwrap();
        assert!(process.elapsed() >= alone + Duration::from_millis(20), "{:?}", process.elapsed());
        assert!(wall.elapsed() >= thread.elapsed());
    }
}
