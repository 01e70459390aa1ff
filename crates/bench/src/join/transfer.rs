//! The transfers of a join by themselves: all hosts send their fragments around, and join nothing.

use std::{
    sync::Barrier,
    thread,
    time::{Duration, Instant},
};

use annulus_terminal::Stop;
use anyhow::{Result, anyhow};
use serde::{Deserialize, Serialize};

use super::{
    alone::{Fragments, feed},
    links::Links,
    run::Ring,
};
use crate::{clock::Machine, statistics::median};

/// A revolution without joins.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Transfer {
    /// Seconds of the revolution, of the slowest host; the median of the rounds.
    pub(crate) transfer_s: f64,
    /// Seconds that the cores of this machine worked in it; the least of the rounds, because all
    /// other work counts, too. The process's own time is too little: the system charges most of the
    /// kernel's work on packets to whatever it interrupts, or to nothing.
    pub(crate) transfer_cpu_s: f64,
}

/// Sends the fragments around once to warm up and then `rounds` times, at least one. Calls `ran`
/// after each.
///
/// # Errors
/// If a host fails, or `stop` is set.
pub(crate) fn measure_transfer(ring: &Ring<'_>, rounds: usize, ran: &dyn Fn(), stop: &Stop) -> Result<Transfer> {
    let fragments = Fragments::of(ring)?;
    let mut transfers = Vec::with_capacity(rounds);
    for round in 0..=rounds {
        stop.check()?;
        let transfer = ring.transfer(&fragments)?;
        // The first one warms up.
        if round > 0 {
            transfers.push(transfer);
        }
        ran();
    }
    let seconds: Vec<_> = transfers.iter().map(|one| one.transfer_s).collect();
    let transfer_cpu_s = transfers.iter().map(|one| one.transfer_cpu_s).fold(f64::INFINITY, f64::min);
    Ok(Transfer { transfer_s: median(&seconds), transfer_cpu_s })
}

impl Ring<'_> {
    /// Sends all fragments around once.
    fn transfer(&self, fragments: &Fragments) -> Result<Transfer> {
        let links = Links::new(self.hosts, self.link, self.config, self.network)?;
        let all = Barrier::new(usize::from(self.hosts) + 1);
        let host = |me| {
            // Every host must reach the barrier, even after an error.
            let host = links.start(me);
            all.wait();
            all.wait();
            let (mut host, start) = (host?, Instant::now());
            feed(&mut host, fragments.of_host(me))?;
            let transfer = start.elapsed();
            host.finish()?;
            anyhow::Ok(transfer)
        };
        thread::scope(|scope| {
            let host = &host;
            let hosts: Vec<_> = (0..self.hosts).map(|me| scope.spawn(move || host(me))).collect();
            // The hosts begin when this clock has been read.
            all.wait();
            let machine = Machine::start();
            all.wait();
            let transfers = hosts.into_iter().map(|host| host.join().map_err(|_| anyhow!("a host has panicked"))?);
            let transfers: Vec<Duration> = transfers.collect::<Result<_>>()?;
            Ok(Transfer {
                transfer_s: transfers.into_iter().max().unwrap_or_default().as_secs_f64(),
                transfer_cpu_s: machine?.busy_s()?,
            })
        })
    }
}
