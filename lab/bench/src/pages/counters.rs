//! Hardware counters, as in the paper's evaluation.

/// The number of occurrences of each event in one run, on all its threads.
pub type Counts = Vec<(&'static str, u64)>;

#[cfg(target_os = "linux")]
mod linux {
    use std::io;

    use perf_event::{
        Builder, Counter,
        events::{Cache, CacheId, CacheOp, CacheResult, Event, Hardware},
    };

    use super::Counts;

    /// Counters of the events that the machine and its kernel allow.
    pub struct Counters(Vec<(&'static str, Counter)>);

    impl Counters {
        /// Opens the counters.
        ///
        /// # Errors
        /// A message, if none of them is allowed.
        pub fn open() -> Result<Self, String> {
            let missed = |which| Cache { which, operation: CacheOp::READ, result: CacheResult::MISS };
            let counters = [
                ("instructions", counter(Hardware::INSTRUCTIONS)),
                ("cycles", counter(Hardware::CPU_CYCLES)),
                ("branch_misses", counter(Hardware::BRANCH_MISSES)),
                ("l1_misses", counter(missed(CacheId::L1D))),
                ("llc_misses", counter(missed(CacheId::LL))),
                ("tlb_misses", counter(missed(CacheId::DTLB))),
            ];
            let mut open = Vec::new();
            let mut refused = None;
            for (name, counter) in counters {
                match counter {
                    Ok(counter) => open.push((name, counter)),
                    Err(error) => refused = Some(error),
                }
            }
            match refused {
                Some(error) if open.is_empty() => {
                    Err(format!("this kernel or machine does not allow hardware counters: {error}"))
                }
                _ => Ok(Self(open)),
            }
        }

        /// Counts the events of `work`, including those of threads that it starts. If there are
        /// more events than the processor can count at once, counts are scaled by their
        /// share of the time.
        ///
        /// # Errors
        /// If a counter cannot be read.
        pub fn count(&mut self, work: impl FnOnce()) -> io::Result<Counts> {
            for (_, counter) in &mut self.0 {
                counter.reset()?;
                counter.enable()?;
            }
            work();
            let mut counts = Counts::new();
            for (name, counter) in &mut self.0 {
                counter.disable()?;
                let read = counter.read_full()?;
                let share = match (read.time_enabled(), read.time_running()) {
                    (Some(enabled), Some(running)) if !running.is_zero() => {
                        enabled.as_secs_f64() / running.as_secs_f64()
                    }
                    _ => 1.0,
                };
                counts.push((name, (read.count() as f64 * share) as u64));
            }
            Ok(counts)
        }
    }

    /// Opens a counter for this thread and those that it starts from now on.
    fn counter(event: impl Event) -> io::Result<Counter> {
        Builder::new(event).inherit(true).build()
    }
}

#[cfg(target_os = "linux")]
pub use linux::Counters;

#[cfg(not(target_os = "linux"))]
mod other {
    use std::{convert::Infallible, io};

    use super::Counts;

    /// A counter type without values, because this system has no counters.
    pub struct Counters(Infallible);

    impl Counters {
        /// Fails.
        ///
        /// # Errors
        /// Always.
        pub fn open() -> Result<Self, String> {
            Err("hardware counters need Linux".to_owned())
        }

        /// Never called.
        ///
        /// # Errors
        /// None.
        pub fn count(&mut self, _: impl FnOnce()) -> io::Result<Counts> {
            match self.0 {}
        }
    }
}

#[cfg(not(target_os = "linux"))]
pub use other::Counters;
