//! Runs the hosts of a ring one at a time. Each is in a ring of two, whose other host sends it the
//! fragments of all others and joins nothing. So it works as if it had a machine to itself.

use std::thread;

use annulus_join::Fragment;
use annulus_roundabout::Host;
use annulus_terminal::machine::{OnCore, ResidentPeak};
use anyhow::{Result, anyhow};

use super::{
    links::Links,
    run::{HostStats, JoinOutcome, Ring, Totals, revolve},
};

/// The fragments that each host sends around, kept so that every host can get them.
pub(super) struct Fragments {
    of_hosts: Vec<Vec<Fragment>>,
    /// The number of times that each host sends its own.
    times: usize,
}

impl Fragments {
    /// Prepares the fragments of all hosts. A ring of one host needs none.
    pub(super) fn prepare(ring: &Ring<'_>) -> Result<Self> {
        let hosts = if ring.hosts == 1 { 0 } else { ring.hosts };
        let of_hosts = (0..hosts).map(|me| Ok(ring.prepare(me)?.into_fragments())).collect::<Result<_>>()?;
        Ok(Self { of_hosts, times: ring.times })
    }

    /// Returns the fragments of host `me`.
    pub(super) fn of_host(&self, me: u16) -> impl Iterator<Item = &Fragment> {
        let own = self.of_hosts.get(usize::from(me)).map_or(&[][..], |own| own);
        own.iter().cycle().take(self.times * own.len())
    }

    fn of_others(&self, me: u16) -> impl Iterator<Item = &Fragment> {
        (0..self.of_hosts.len() as u16).filter(move |host| *host != me).flat_map(|host| self.of_host(host))
    }
}

impl Ring<'_> {
    /// Joins on one host after another.
    pub(super) fn join_one_at_a_time(&self, fragments: &Fragments) -> Result<JoinOutcome> {
        let totals = Totals::default();
        let hosts = (0..self.hosts).map(|me| self.join_one(me, fragments, &totals)).collect::<Result<_>>()?;
        Ok(JoinOutcome { answer: totals.answer(), hosts, cpu_load: None, cpu: None, others_share: 0.0 })
    }

    fn join_one(&self, me: u16, fragments: &Fragments, totals: &Totals) -> Result<HostStats> {
        let (resident, on_core) = (ResidentPeak::start(), OnCore::start());
        let share = self.prepare(me)?;
        let peak = resident.and_then(|resident| resident.bytes());
        // It counts only this thread, so helpers would be missing.
        let setup_cpu = if self.threads == 1 { on_core.and_then(|on_core| on_core.elapsed()) } else { None };
        let links = Links::new(self.hosts.min(2), self.link, self.config, None)?;
        let measured = thread::scope(|scope| {
            let others = (self.hosts > 1).then(|| {
                scope.spawn(|| {
                    let mut host = links.start(1)?;
                    feed(&mut host, fragments.of_others(me))?;
                    Ok(host.finish()?)
                })
            });
            let measured = links.start(0).and_then(|host| revolve(host, share, totals, self.pace()));
            match others.map(|others| others.join()) {
                Some(Err(_)) => Err(anyhow!("a host has panicked")),
                // This host's error takes precedence over that of the other.
                Some(Ok(fed)) => measured.and_then(|measured| fed.map(|()| measured)),
                None => measured,
            }
        })?;
        Ok(HostStats { peak, setup_cpu, ..measured })
    }
}

/// Sends `fragments` around, and joins nothing.
pub(super) fn feed<'a>(host: &mut Host, mut fragments: impl Iterator<Item = &'a Fragment> + Send) -> Result<()> {
    host.revolve(
        |buffer| anyhow::Ok(fragments.next().map(|fragment| fragment.encode(buffer)).transpose()?),
        |_| anyhow::Ok(()),
    )?;
    Ok(())
}
