//! Step by step through a join, with all hosts at once.

use std::{
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        mpsc::{self, Sender},
    },
    time::{Duration, Instant},
};

use annulus_dataset::{Collection, Manifest, Settings};
use annulus_join::Side;

use super::{Launch, Planned, lines::Event, watch::Ring};
use crate::{
    control::{HostOutput, HostProgress, HostSummary, Order, Report, Task},
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
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    asked: Mutex<Asked>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Asked {
    to_end: bool,
    running: Option<Sender<Event>>,
}

impl Cancel {
    /// The join ends as soon as its hosts have, which leave nothing; one that has not begun does
    /// not.
    pub fn cancel(&self) {
        self.ask(false);
    }

    /// The join ends at once: hosts that are processes of this machine are killed, and others are
    /// not waited for.
    pub fn cancel_at_once(&self) {
        self.ask(true);
    }

    fn ask(&self, at_once: bool) {
        let mut asked = self.0.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.to_end = true;
        self.0.changed.notify_all();
        if let Some(running) = &asked.running {
            // A join that has ended is not interested.
            running.send(if at_once { Event::AtOnce } else { Event::Cancel }).ok();
        }
    }

    /// Waits so long, or until the join is cancelled.
    pub fn pause(&self, time: Duration) {
        let asked = self.0.asked.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.0.changed.wait_timeout_while(asked, time, |asked| !asked.to_end));
    }

    fn is_asked(&self) -> bool {
        self.0.asked.lock().unwrap_or_else(PoisonError::into_inner).to_end
    }

    /// From now on it ends this join.
    fn attend(&self, events: &Sender<Event>) -> Result<(), ClusterError> {
        let mut asked = self.0.asked.lock().unwrap_or_else(PoisonError::into_inner);
        if asked.to_end {
            return Err(ClusterError::Cancelled);
        }
        asked.running = Some(events.clone());
        Ok(())
    }
}

/// What a join did.
#[derive(Clone, Debug)]
pub struct Summary {
    /// What the output folder holds now.
    pub manifest: Manifest,
    /// Each host's part.
    pub hosts: Vec<HostSummary>,
    /// What people call them.
    pub names: Vec<String>,
    /// From the first host's start to the manifest.
    pub elapsed: Duration,
}

/// Carries out a join as planned: all rows of the result are in the output folder then, or an error
/// says why not, and nothing is.
///
/// # Errors
/// If the output folder cannot be used, a host fails ([`ClusterError::Host`] names it), or the join
/// is cancelled.
pub fn run(
    job: &JoinJob,
    planned: &Planned,
    launch: &dyn Launch,
    observe: &dyn Observe,
    cancel: &Cancel,
) -> Result<Summary, ClusterError> {
    let start = Instant::now();
    let (sender, events) = mpsc::channel();
    cancel.attend(&sender)?;
    // Dropped last: when the hosts have ended.
    let members = (0..planned.hosts).map(|host| launch.member(host)).collect();
    let collection = Collection::begin(&job.output, members, job.existing)?;
    let ring = Ring::start((sender, events), job.options.timeout, launch, observe);
    let mut ring = ring.map_err(|error| if cancel.is_asked() { ClusterError::Cancelled } else { error })?;
    let done = join(&mut ring, job, planned, launch).and_then(|(manifests, hosts)| {
        let manifest = collection.complete(settings(job, planned), &manifests)?;
        // Hosts that end before there is a manifest take their files away, for nobody else would if this
        // process was killed.
        ring.keep()?;
        Ok((manifest, hosts))
    });
    let unconfirmed = ring.end(done.is_err());
    let (manifest, hosts) = done.map_err(|error| match error {
        ClusterError::Cancelled if !unconfirmed.is_empty() => ClusterError::Unconfirmed {
            hosts: unconfirmed.join(", "),
            output: job.output.clone(),
            within: job.options.timeout,
        },
        error => error,
    })?;
    collection.keep()?;
    let names = (0..planned.hosts).map(|host| launch.name(host)).collect();
    Ok(Summary { manifest, hosts, names, elapsed: start.elapsed() })
}

/// What the manifest says of how the dataset came about.
fn settings(job: &JoinJob, planned: &Planned) -> Settings {
    let query = &job.query;
    let on = query.on.iter().map(|(left, right)| format!("{left}={right}")).collect::<Vec<_>>();
    let settings = [
        ("left", query.left.paths.join(" ")),
        ("right", query.right.paths.join(" ")),
        ("on", on.join(",")),
        ("where", query.condition.clone().unwrap_or_default()),
        ("type", query.join.to_string()),
        ("hosts", planned.hosts.to_string()),
    ];
    settings.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// All steps, with all hosts.
fn join(
    ring: &mut Ring<'_>,
    job: &JoinJob,
    planned: &Planned,
    launch: &dyn Launch,
) -> Result<(Vec<Manifest>, Vec<HostSummary>), ClusterError> {
    let session = session();
    for host in 0..ring.len() {
        ring.order(host, Order::Load(Box::new(task(job, planned, launch, host, session))));
    }
    let loaded = ring.collect(|report| match report {
        Report::Loaded { build_rows } => Some(build_rows),
        _ => None,
    })?;
    ring.order_all(&Order::Prepare { build_rows: loaded.into_iter().max().unwrap_or(0) });
    ring.collect(|report| matches!(report, Report::Prepared).then_some(()))?;
    ring.order_all(&Order::Turn);
    let summaries = ring.collect(|report| match report {
        Report::Sealed(summary) => Some(summary),
        _ => None,
    })?;
    ring.order_all(&Order::Publish);
    let manifests = ring.collect(|report| match report {
        Report::Published(manifest) => Some(*manifest),
        _ => None,
    })?;
    Ok((manifests, summaries))
}

fn task(job: &JoinJob, planned: &Planned, launch: &dyn Launch, host: usize, session: u64) -> Task {
    Task {
        query: planned.query.clone(),
        now_ns: planned.now_ns,
        schemas: planned.schemas.clone(),
        units: planned.units[host].clone(),
        files: planned.files.clone(),
        rotates_left: planned.choice.rotate == Side::Left,
        algorithm: planned.choice.algorithm,
        host: host as u16,
        hosts: planned.hosts as u16,
        session,
        neighbours: launch.neighbours(),
        threads: job.options.threads,
        fragment_bytes: job.options.fragment_bytes,
        buffers: job.options.buffers,
        timeout_ms: job.options.timeout.as_millis() as u64,
        memory_bytes: job.options.memory_bytes,
        revolutions: planned.revolutions,
        output: HostOutput {
            dir: job.output.clone(),
            member: launch.member(host),
            format: job.format,
            compression: job.format.default_compression(),
            existing: job.existing,
        },
    }
}

/// A number that no other join has, so that hosts of different joins do not take each other for
/// neighbours.
fn session() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id())
}
