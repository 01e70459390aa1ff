//! Watches the hosts of a join: collects their reports, and finds the host that failed.

use std::{
    ops::Range,
    sync::mpsc::{Receiver, RecvTimeoutError, Sender},
    time::{Duration, Instant},
};

use super::{
    Launch, Observe,
    failure::{Seen, root},
    launch::HostHandle,
    lines::{Event, OneWaits, Orders, follow},
};
use crate::{
    control::{Order, Report},
    error::ClusterError,
};

/// All hosts of a join.
pub(super) struct Ring<'a> {
    hosts: Vec<Watched>,
    events: Receiver<Event>,
    observe: &'a dyn Observe,
    timeout: Duration,
    /// Whether hosts end after this step, so that their end is not a failure.
    is_last_step: bool,
}

struct Watched {
    name: String,
    /// The text that hosts are sorted by before they are entered.
    entry_key: String,
    orders: Option<Orders>,
    /// The host's last sign of life, until it is taken.
    alive: OneWaits,
    handle: Box<dyn HostHandle>,
    heard: Instant,
    ended: bool,
}

impl<'a> Ring<'a> {
    /// Starts all hosts. Their reports go through `sender` to `events`.
    pub(super) fn start(
        (sender, events): (Sender<Event>, Receiver<Event>),
        timeout: Duration,
        launch: &dyn Launch,
        observe: &'a dyn Observe,
    ) -> Result<Self, ClusterError> {
        let mut hosts = Vec::new();
        for (host, process) in launch.start_all()?.into_iter().enumerate() {
            let alive = follow(host, process.reports, sender.clone())?;
            let orders = Some(Orders::start(host, process.orders)?);
            let (name, entry_key, handle) = (launch.name(host), launch.entry_key(host), process.handle);
            hosts.push(Watched { name, entry_key, orders, alive, handle, heard: Instant::now(), ended: false });
        }
        Ok(Self { hosts, events, observe, timeout, is_last_step: false })
    }

    /// Returns the number of hosts.
    pub(super) fn len(&self) -> usize {
        self.hosts.len()
    }

    /// Sends an order to all hosts.
    pub(super) fn order_all(&self, order: &Order) {
        (0..self.hosts.len()).for_each(|host| self.order(host, order.clone()));
    }

    /// Sends an order to a host. A host that accepts no orders has ended, and its reports say so.
    pub(super) fn order(&self, host: usize, order: Order) {
        if let Some(orders) = &self.hosts[host].orders {
            orders.send(order);
        }
    }

    /// Enters the hosts one after the other. Waits up to `wait` for hosts that are busy with other
    /// joins.
    pub(super) fn enter(&mut self, wait: Duration) -> Result<(), ClusterError> {
        let end_of_wait = Instant::now() + wait;
        // The same order in all joins. Otherwise two joins could each wait for a host of the other.
        let mut hosts: Vec<usize> = (0..self.hosts.len()).collect();
        hosts.sort_by(|&a, &b| self.hosts[a].entry_key.cmp(&self.hosts[b].entry_key));
        for host in hosts {
            // A free host answers at once, but may be far away.
            let deadline = end_of_wait.max(Instant::now() + self.timeout);
            self.order(host, Order::Enter { wait: !wait.is_zero() });
            let entered = self
                .collect_from(host..host + 1, Some(deadline), |report| matches!(report, Report::Entered).then_some(()));
            entered.map_err(|error| match error {
                ClusterError::Busy { name, .. } => ClusterError::Busy { name, waited: wait },
                error => error,
            })?;
        }
        Ok(())
    }

    /// Collects the report of every host at the end of a step.
    pub(super) fn collect<T>(&mut self, wanted: impl Fn(Report) -> Option<T>) -> Result<Vec<T>, ClusterError> {
        self.collect_from(0..self.hosts.len(), None, wanted)
    }

    /// Like [`collect`](Self::collect), from some hosts, until a deadline.
    fn collect_from<T>(
        &mut self,
        from: Range<usize>,
        deadline: Option<Instant>,
        wanted: impl Fn(Report) -> Option<T>,
    ) -> Result<Vec<T>, ClusterError> {
        let mut collected: Vec<Option<T>> = from.clone().map(|_| None).collect();
        while let Some(place) = collected.iter().position(Option::is_none) {
            let seen = match self.next(deadline)? {
                Next::Report(host, Report::Alive(progress)) => {
                    self.observe.host(host, progress);
                    self.order(host, Order::Heard);
                    continue;
                }
                Next::Report(host, Report::Queued { ahead }) => {
                    self.observe.queued(&self.hosts[host].name, ahead);
                    continue;
                }
                Next::Report(host, Report::Failed { reason, other }) => (host, said(reason, other)),
                Next::Report(host, Report::Busy) => return Err(self.busy(host)),
                Next::Report(host, Report::Full { waiting }) => {
                    return Err(ClusterError::QueueFull { name: self.hosts[host].name.clone(), waiting });
                }
                Next::Report(host, Report::Stopped) => (host, stopped()),
                Next::Report(host, report) => match wanted(report).filter(|_| from.contains(&host)) {
                    Some(found) => {
                        collected[host - from.start] = Some(found);
                        continue;
                    }
                    None => (host, Seen::Said("it sent a report of another step".to_owned())),
                },
                Next::Ended(host, _) if self.is_last_step && collected[host - from.start].is_some() => continue,
                Next::Ended(host, ending) => (host, ending),
                Next::Silent(host) => (host, Seen::Silent),
                Next::TooLate => return Err(self.busy(from.start + place)),
            };
            return Err(self.failed(seen));
        }
        Ok(collected.into_iter().flatten().collect())
    }

    fn busy(&self, host: usize) -> ClusterError {
        ClusterError::Busy { name: self.hosts[host].name.clone(), waited: Duration::ZERO }
    }

    /// Reports to all hosts that the result is complete, and waits until all have confirmed.
    pub(super) fn keep(&mut self) -> Result<(), ClusterError> {
        self.is_last_step = true;
        self.order_all(&Order::Keep);
        self.collect(|report| matches!(report, Report::Kept).then_some(())).map(drop)
    }

    /// Waits for the next event, until `limit` at most, or until a host has been silent for too
    /// long.
    fn next(&mut self, limit: Option<Instant>) -> Result<Next, ClusterError> {
        let running = self.hosts.iter().enumerate().filter(|(_, host)| !host.ended);
        let Some((host, heard)) = running.map(|(host, watched)| (host, watched.heard)).min_by_key(|&(_, heard)| heard)
        else {
            return Err(ClusterError::Control { reason: "all hosts have ended".to_owned() });
        };
        let deadline = heard + self.timeout;
        let until = limit.map_or(deadline, |limit| limit.min(deadline));
        match self.events.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(Event::Cancel | Event::AtOnce) => Err(ClusterError::Cancelled),
            Ok(Event::Report(host, report)) => {
                self.hosts[host].heard = Instant::now();
                if matches!(report, Report::Alive(_)) {
                    self.hosts[host].alive.ends();
                }
                Ok(Next::Report(host, report))
            }
            Ok(Event::Ended(host, ending)) => {
                self.hosts[host].ended = true;
                Ok(Next::Ended(host, ending))
            }
            Err(RecvTimeoutError::Timeout) if until < deadline => Ok(Next::TooLate),
            // This process itself was stopped, as by Ctrl-Z: give hosts time to report again.
            Err(RecvTimeoutError::Timeout) if deadline.elapsed() > self.timeout / 20 => {
                self.hosts.iter_mut().for_each(|host| host.heard = Instant::now());
                self.next(limit)
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                self.hosts[host].ended = true;
                Ok(Next::Silent(host))
            }
        }
    }

    /// Collects the last reports of the other hosts, and names the host that failed.
    fn failed(&mut self, first: (usize, Seen)) -> ClusterError {
        let mut seen = vec![first];
        let deadline = Instant::now() + 2 * self.timeout;
        loop {
            let unheard = (0..self.hosts.len()).any(|host| seen.iter().all(|(other, _)| *other != host));
            if !unheard || Instant::now() > deadline {
                break;
            }
            match self.next(None) {
                Ok(Next::Report(host, Report::Stopped)) if self.hosts[host].orders.is_some() => {
                    seen.push((host, stopped()));
                }
                // It was ordered to end.
                Ok(Next::Report(host, Report::Stopped)) => seen.push((host, Seen::Obeyed)),
                Ok(Next::Report(host, Report::Failed { reason, other })) => seen.push((host, said(reason, other))),
                // This may be the report of any step; no order follows.
                Ok(Next::Report(host, _)) => self.hosts[host].orders = None,
                // It has reported the reason.
                Ok(Next::Ended(host, _)) if seen.iter().any(|(other, _)| *other == host) => {}
                Ok(Next::Ended(host, ending)) => seen.push((host, ending)),
                Ok(Next::Silent(host)) => seen.push((host, Seen::Silent)),
                Ok(Next::TooLate) => {}
                Err(error) => return error,
            }
        }
        let (host, reason) = root(&seen).unwrap_or((0, "nothing is known of it".to_owned()));
        let is_gone = seen.iter().any(|(other, seen)| *other == host && matches!(seen, Seen::Gone(_)));
        let ended = is_gone.then(|| self.hosts[host].handle.end(true)).flatten();
        let lost = !seen.iter().any(|(other, seen)| *other == host && matches!(seen, Seen::Said(_)));
        ClusterError::Host { host, name: self.hosts[host].name.clone(), reason: ended.unwrap_or(reason), lost }
    }

    /// Ends all hosts. Kills those that do not end in time, or all if the join failed. Returns the
    /// names of hosts that have not confirmed their end.
    pub(super) fn end(&mut self, failed: bool) -> Vec<String> {
        for host in &mut self.hosts {
            host.orders = None;
        }
        self.wait_for_ends();
        for host in &mut self.hosts {
            host.handle.end(failed || !host.ended);
        }
        let unconfirmed = self.hosts.iter().filter(|host| !host.ended && !host.handle.is_certain());
        unconfirmed.map(|host| host.name.clone()).collect()
    }

    /// Waits until hosts have removed their files and ended. Stops waiting if the user asks for it.
    fn wait_for_ends(&mut self) {
        let deadline = Instant::now() + self.timeout;
        while self.hosts.iter().any(|host| !host.ended) {
            match self.events.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(Event::Ended(host, _)) => self.hosts[host].ended = true,
                Ok(Event::AtOnce) | Err(_) => return,
                Ok(_) => {}
            }
        }
    }
}

enum Next {
    Report(usize, Report),
    Ended(usize, Seen),
    Silent(usize),
    /// The time limit has passed.
    TooLate,
}

/// Describes a host that ended without an order to.
fn stopped() -> Seen {
    Seen::Gone("it was stopped, or received nothing from here for its `timeout`".to_owned())
}

fn said(reason: String, other: Option<u16>) -> Seen {
    match other {
        Some(other) => Seen::Blames(other.into(), reason),
        None => Seen::Said(reason),
    }
}

#[cfg(test)]
mod tests;
