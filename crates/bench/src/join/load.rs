//! Joins on all cores that need nothing from a network, to time what other work takes from them.

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use annulus_cyclo::Share;
use annulus_roundabout::{Host, Progress, Stopper};
use annulus_terminal::machine::cores;
use anyhow::{Result, anyhow};

use super::{
    args::Link,
    links::Links,
    run::{Ring, Totals, turn},
};

/// More often than a measurement can last.
const ENDLESS: usize = 1 << 20;
/// The time in which joins are timed by themselves, before and after, in a revolution that is long
/// enough. A quarter of it before that warms up.
const ALONE: Duration = Duration::from_millis(400);
/// The same for a single pass, which only shows that all works.
const QUICK: Duration = Duration::from_millis(4);

/// A host of a ring of its own for each core. It joins its own fragments again and again.
pub(super) struct Load {
    hosts: Vec<(Host, Share)>,
    alone: Duration,
}

impl Load {
    /// Prepares the hosts, with parts of the tables as in `ring`.
    pub(super) fn prepare(ring: &Ring<'_>) -> Result<Self> {
        let host = |core: usize| {
            let share = ring.prepare((core % usize::from(ring.hosts)) as u16)?.repeated(ENDLESS);
            Ok((Links::new(1, Link::Shared, ring.config, None)?.start(0)?, share))
        };
        let alone = if ring.times > 1 { ALONE } else { QUICK };
        Ok(Self { hosts: (0..cores()).map(host).collect::<Result<_>>()?, alone })
    }

    /// Runs `act` beside the joins, and returns its result and the part of their speed that it cost
    /// them.
    pub(super) fn beside<T>(self, act: impl FnOnce() -> T) -> Result<(T, f64)> {
        let totals = Totals::default();
        let handles: Vec<_> = self.hosts.iter().map(|(host, _)| (host.progress(), host.stopper())).collect();
        thread::scope(|scope| {
            let totals = &totals;
            let joins = self.hosts.into_iter().map(|(host, share)| scope.spawn(move || turn(host, share, totals)));
            let joins: Vec<_> = joins.collect();
            // A real delay: the first fragments are not timed.
            thread::sleep(self.alone / 4);
            // A real delay: joins are timed over it.
            let before = speed(&handles, || thread::sleep(self.alone)).1;
            let (result, beside) = speed(&handles, act);
            // A real delay: joins are timed over it.
            let after = speed(&handles, || thread::sleep(self.alone)).1;
            for (join, (_, stopper)) in joins.into_iter().zip(&handles) {
                let ended = join.is_finished();
                stopper.stop();
                // It ends with an error because it was stopped, unless it had ended before.
                let result = join.join().map_err(|_| anyhow!("a host has panicked"))?;
                if ended {
                    result.and_then(|_| Err(anyhow!("joins ended too early")))?;
                }
            }
            Ok((result, (1.0 - 2.0 * beside / (before + after)).max(0.0)))
        })
    }
}

/// Runs `act`, and returns its result and the bytes that all hosts joined meanwhile, per second.
fn speed<T>(hosts: &[(Arc<Progress>, Stopper)], act: impl FnOnce() -> T) -> (T, f64) {
    let joined = || hosts.iter().map(|(progress, _)| progress.bytes()).sum::<u64>();
    let (start, before) = (Instant::now(), joined());
    let result = act();
    (result, (joined() - before) as f64 / start.elapsed().as_secs_f64())
}
