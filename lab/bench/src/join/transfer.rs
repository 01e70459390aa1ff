//! The transfers of a join by themselves: all hosts send their fragments around, and join nothing.

use std::{
    sync::Barrier,
    thread,
    time::{Duration, Instant},
};

use annulus_terminal::statistics::median;
use anyhow::{Result, anyhow};
use serde::{Deserialize, Serialize};

use super::{
    links::Links,
    one_at_a_time::{Fragments, feed},
    rounds::rounds,
    run::Ring,
};
use crate::Stop;
use crate::clock::Machine;

/// A revolution without joins.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Transfer {
    /// Seconds of the revolution, of the slowest host; the median of the rounds.
    pub(crate) transfer_s: f64,
    /// The part of the cores' time that other processes used, in the most disturbed round.
    #[serde(skip)]
    pub(crate) others_share: f64,
}

/// Sends the fragments around once to warm up and then `runs` times, at least once. Calls `ran`
/// after each. Repeats what other processes have disturbed.
///
/// # Errors
/// If a host fails, or `stop` is set.
pub(crate) fn measure_transfer(ring: &Ring<'_>, runs: usize, ran: &dyn Fn(), stop: &Stop) -> Result<Transfer> {
    let fragments = Fragments::prepare(ring)?;
    let transfers = rounds(runs, ran, stop, |one: &Transfer| one.others_share, || ring.transfer(&fragments))?;
    let of = |value: fn(&Transfer) -> f64| transfers.iter().map(value).collect::<Vec<_>>();
    Ok(Transfer {
        transfer_s: median(&of(|one| one.transfer_s)),
        others_share: of(|one| one.others_share).into_iter().fold(0.0, f64::max),
    })
}

impl Ring<'_> {
    /// Sends all fragments around once.
    fn transfer(&self, fragments: &Fragments) -> Result<Transfer> {
        let links = Links::new(self.hosts, self.link, self.config, self.network)?;
        let all = Barrier::new(usize::from(self.hosts));
        let host = |me| {
            // Every host must reach the barrier, even after an error.
            let host = links.start(me);
            all.wait();
            let (mut host, start) = (host?, Instant::now());
            feed(&mut host, fragments.of_host(me))?;
            let transfer = start.elapsed();
            host.finish()?;
            anyhow::Ok(transfer)
        };
        let machine = Machine::start()?;
        let transfers = thread::scope(|scope| {
            let host = &host;
            let hosts: Vec<_> = (0..self.hosts).map(|me| scope.spawn(move || host(me))).collect();
            let times = hosts.into_iter().map(|host| host.join().map_err(|_| anyhow!("a host has panicked"))?);
            times.collect::<Result<Vec<Duration>>>()
        })?;
        let transfer_s = transfers.into_iter().max().unwrap_or_default().as_secs_f64();
        Ok(Transfer { transfer_s, others_share: machine.others_share()? })
    }
}
