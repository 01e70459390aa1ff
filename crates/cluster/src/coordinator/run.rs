//! Step by step through a join, with all hosts at once.

use std::{
    sync::mpsc::{self, Receiver, RecvTimeoutError, Sender},
    thread,
    time::{Duration, Instant},
};

use annulus_dataset::output::{Collection, Manifest, Settings};
use annulus_join::types::Side;

use super::{
    Launch, Planned,
    failure::{Seen, root},
    launch::HostHandle,
};
use crate::{
    control::{HostOutput, HostProgress, HostSummary, LineReader, LineWriter, Loaded, Order, Report, Task},
    error::ClusterError,
    job::JoinJob,
};

/// Gets to know how far a join is.
pub trait Observe {
    /// A host is so far.
    fn host(&self, host: usize, progress: HostProgress) {
        let _ = (host, progress);
    }
}

/// Ends a join that runs.
#[derive(Clone, Debug)]
pub struct Cancel(Sender<Event>);

impl Cancel {
    /// The join ends as soon as its hosts have, which leave nothing.
    pub fn cancel(&self) {
        // A join that has ended is not interested.
        self.0.send(Event::Cancel).ok();
    }
}

/// What a join did.
#[derive(Clone, Debug)]
pub struct Summary {
    /// What the output folder holds now.
    pub manifest: Manifest,
    /// Each host's part.
    pub hosts: Vec<HostSummary>,
    /// From the first host's start to the manifest.
    pub elapsed: Duration,
}

#[derive(Debug)]
enum Event {
    Report(usize, Report),
    /// A host's reports have ended, in order or by what is no report.
    Ended(usize, Option<String>),
    Cancel,
}

/// Carries out joins.
#[derive(Debug)]
pub struct Coordinator {
    sender: Sender<Event>,
    events: Receiver<Event>,
}

impl Default for Coordinator {
    fn default() -> Self {
        Self::new()
    }
}

impl Coordinator {
    /// One that has nothing to do yet.
    pub fn new() -> Self {
        let (sender, events) = mpsc::channel();
        Self { sender, events }
    }

    /// Ends the join, from any thread.
    pub fn cancel(&self) -> Cancel {
        Cancel(self.sender.clone())
    }

    /// Carries out a join as planned: all rows of the result are in the output folder then, or an error says why not, and nothing is.
    ///
    /// # Errors
    /// If the output folder cannot be used, a host fails ([`ClusterError::Host`] names it), or the join is cancelled.
    pub fn run(
        self,
        job: &JoinJob,
        planned: &Planned,
        launch: &dyn Launch,
        observe: &dyn Observe,
    ) -> Result<Summary, ClusterError> {
        let start = Instant::now();
        // Dropped last: when the hosts have ended.
        let collection = Collection::begin(&job.output, planned.hosts, job.existing)?;
        let mut ring = Ring::start(self, job, launch, observe)?;
        let (manifests, hosts) = ring.join(job, planned, launch).inspect_err(|_| ring.end(true))?;
        // Hosts that end before there is a manifest take their files away, for nobody else would if this process was killed.
        let manifest = collection.complete(settings(job, planned), &manifests);
        ring.end(false);
        let manifest = manifest?;
        Ok(Summary { manifest, hosts, elapsed: start.elapsed() })
    }
}

/// What the manifest says of how the dataset came about.
fn settings(job: &JoinJob, planned: &Planned) -> Settings {
    let query = &job.query;
    let on = query.on.iter().map(|(left, right)| format!("{left}={right}")).collect::<Vec<_>>();
    let settings = [
        ("left", query.left.paths.join(" ")),
        ("right", query.right.paths.join(" ")),
        ("--on", on.join(",")),
        ("--where", query.condition.clone().unwrap_or_default()),
        ("--type", query.join.to_string()),
        ("hosts", planned.hosts.to_string()),
    ];
    settings.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

struct Ring<'a> {
    hosts: Vec<Watched>,
    events: Receiver<Event>,
    observe: &'a dyn Observe,
    timeout: Duration,
}

struct Watched {
    orders: Option<LineWriter<Box<dyn std::io::Write + Send>>>,
    handle: Box<dyn HostHandle>,
    heard: Instant,
    ended: bool,
}

impl<'a> Ring<'a> {
    fn start(
        coordinator: Coordinator,
        job: &JoinJob,
        launch: &dyn Launch,
        observe: &'a dyn Observe,
    ) -> Result<Self, ClusterError> {
        let Coordinator { sender, events } = coordinator;
        let mut hosts = Vec::new();
        for host in 0..launch.hosts() {
            let process = launch.start(host)?;
            let sender = sender.clone();
            let follow = move || {
                for report in LineReader::new(process.reports) {
                    let event = match report {
                        Ok(report) => Event::Report(host, report),
                        Err(error) => return drop(sender.send(Event::Ended(host, Some(error.to_string())))),
                    };
                    if sender.send(event).is_err() {
                        return;
                    }
                }
                drop(sender.send(Event::Ended(host, None)));
            };
            thread::Builder::new().name(format!("host {host}")).spawn(follow)?;
            let orders = Some(LineWriter::new(process.orders));
            hosts.push(Watched { orders, handle: process.handle, heard: Instant::now(), ended: false });
        }
        Ok(Self { hosts, events, observe, timeout: job.options.timeout })
    }

    fn join(
        &mut self,
        job: &JoinJob,
        planned: &Planned,
        launch: &dyn Launch,
    ) -> Result<(Vec<Manifest>, Vec<HostSummary>), ClusterError> {
        let session = session();
        for host in 0..self.hosts.len() {
            self.order(host, &Order::Load(Box::new(task(job, planned, launch, host, session))));
        }
        let loaded = self.collect(|report| match report {
            Report::Loaded(loaded) => Some(loaded),
            _ => None,
        })?;
        let stays = if planned.choice.rotate == Side::Left { 1 } else { 0 };
        let build_rows = loaded.iter().map(|Loaded { rows, .. }| rows[stays]).max().unwrap_or(0);
        self.order_all(&Order::Prepare { build_rows });
        self.collect(|report| matches!(report, Report::Prepared).then_some(()))?;
        self.order_all(&Order::Turn);
        let summaries = self.collect(|report| match report {
            Report::Sealed(summary) => Some(summary),
            _ => None,
        })?;
        self.order_all(&Order::Publish);
        let manifests = self.collect(|report| match report {
            Report::Published(manifest) => Some(*manifest),
            _ => None,
        })?;
        Ok((manifests, summaries))
    }

    fn order_all(&self, order: &Order) {
        (0..self.hosts.len()).for_each(|host| self.order(host, order));
    }

    /// A host that takes no orders has ended, which its reports tell.
    fn order(&self, host: usize, order: &Order) {
        if let Some(orders) = &self.hosts[host].orders {
            orders.write(order).ok();
        }
    }

    /// What every host reports when it has done a step.
    fn collect<T>(&mut self, wanted: impl Fn(Report) -> Option<T>) -> Result<Vec<T>, ClusterError> {
        let mut collected: Vec<Option<T>> = self.hosts.iter().map(|_| None).collect();
        while collected.iter().any(Option::is_none) {
            let seen = match self.next()? {
                Next::Report(host, Report::Alive(progress)) => {
                    self.observe.host(host, progress);
                    self.order(host, &Order::Heard);
                    continue;
                }
                Next::Report(host, Report::Failed { reason, other }) => (host, said(reason, other)),
                Next::Report(host, report) => match wanted(report) {
                    Some(found) => {
                        collected[host] = Some(found);
                        continue;
                    }
                    None => (host, Seen::Said("it has reported out of its turn".to_owned())),
                },
                Next::Ended(host, reason) => (host, reason.map_or(Seen::Gone, Seen::Said)),
                Next::Silent(host) => (host, Seen::Silent),
            };
            return Err(self.failed(seen));
        }
        Ok(collected.into_iter().flatten().collect())
    }

    /// Waits for the next event, or until a host has been silent for too long.
    fn next(&mut self) -> Result<Next, ClusterError> {
        let running = self.hosts.iter().enumerate().filter(|(_, host)| !host.ended);
        let Some((host, heard)) = running.map(|(host, watched)| (host, watched.heard)).min_by_key(|&(_, heard)| heard)
        else {
            return Err(ClusterError::Control { reason: "all hosts have ended".to_owned() });
        };
        let deadline = heard + self.timeout;
        match self.events.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(Event::Cancel) => Err(ClusterError::Cancelled),
            Ok(Event::Report(host, report)) => {
                self.hosts[host].heard = Instant::now();
                Ok(Next::Report(host, report))
            }
            Ok(Event::Ended(host, reason)) => {
                self.hosts[host].ended = true;
                Ok(Next::Ended(host, reason))
            }
            // This process was stopped itself, as by Ctrl-Z: hosts have time to be heard of again.
            Err(RecvTimeoutError::Timeout) if deadline.elapsed() > self.timeout / 20 => {
                self.hosts.iter_mut().for_each(|host| host.heard = Instant::now());
                self.next()
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                self.hosts[host].ended = true;
                Ok(Next::Silent(host))
            }
        }
    }

    /// Hears the other hosts out, and names the one that failed.
    fn failed(&mut self, first: (usize, Seen)) -> ClusterError {
        let mut seen = vec![first];
        let deadline = Instant::now() + 2 * self.timeout;
        loop {
            let unheard = (0..self.hosts.len()).any(|host| seen.iter().all(|(other, _)| *other != host));
            if !unheard || Instant::now() > deadline {
                break;
            }
            match self.next() {
                // It was told to end, and did so.
                Ok(Next::Report(host, Report::Failed { reason, .. }))
                    if reason == ClusterError::Cancelled.to_string() =>
                {
                    seen.push((host, Seen::Obeyed));
                }
                Ok(Next::Report(host, Report::Failed { reason, other })) => seen.push((host, said(reason, other))),
                // Whoever has done its step before the failure waits for an order, which is not to come.
                Ok(Next::Report(host, report)) if !matches!(report, Report::Alive(_)) => self.hosts[host].orders = None,
                Ok(Next::Report(host, _)) => self.hosts[host].orders = None,
                // It has said why.
                Ok(Next::Ended(host, _)) if seen.iter().any(|(other, _)| *other == host) => {}
                Ok(Next::Ended(host, reason)) => seen.push((host, reason.map_or(Seen::Gone, Seen::Said))),
                Ok(Next::Silent(host)) => seen.push((host, Seen::Silent)),
                Err(error) => return error,
            }
        }
        let (host, reason) = root(&seen).unwrap_or((0, "nothing is known of it".to_owned()));
        let ended = seen.contains(&(host, Seen::Gone)).then(|| self.hosts[host].handle.end(true)).flatten();
        ClusterError::Host { host, reason: ended.unwrap_or(reason) }
    }

    /// Ends all hosts: in good order, or at once.
    fn end(&mut self, failed: bool) {
        for host in &mut self.hosts {
            host.orders = None;
        }
        self.wait_for_ends();
        for host in &mut self.hosts {
            host.handle.end(failed || !host.ended);
        }
    }

    /// Hosts that are alive take away what they have written, and are given the time.
    fn wait_for_ends(&mut self) {
        let deadline = Instant::now() + self.timeout;
        while self.hosts.iter().any(|host| !host.ended) {
            match self.events.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(Event::Ended(host, _)) => self.hosts[host].ended = true,
                Ok(_) => {}
                Err(_) => return,
            }
        }
    }
}

enum Next {
    Report(usize, Report),
    Ended(usize, Option<String>),
    Silent(usize),
}

fn said(reason: String, other: Option<u16>) -> Seen {
    match other {
        Some(other) => Seen::Blames(other.into(), reason),
        None => Seen::Said(reason),
    }
}

fn task(job: &JoinJob, planned: &Planned, launch: &dyn Launch, host: usize, session: u64) -> Task {
    let [left, right] = planned.units[host].clone();
    Task {
        query: planned.query.clone(),
        schemas: planned.schemas.clone(),
        units: [Some(left), Some(right)],
        rotates_left: planned.choice.rotate == Side::Left,
        algorithm: planned.choice.algorithm,
        host: host as u16,
        hosts: planned.hosts as u16,
        session,
        neighbours: launch.neighbours(),
        threads: job.options.threads,
        fragment_bytes: job.options.fragment_bytes,
        timeout_ms: job.options.timeout.as_millis() as u64,
        memory_bytes: job.options.memory_bytes,
        revolutions: planned.revolutions,
        output: HostOutput {
            dir: Collection::member_dir(&job.output, host),
            format: job.format,
            compression: job.format.default_compression(),
            existing: job.existing,
        },
    }
}

/// A number that no other join has, so that hosts of different joins do not take each other for neighbours.
fn session() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id())
}
