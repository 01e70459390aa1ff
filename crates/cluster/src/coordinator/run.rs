//! Leads all hosts through a join, step by step.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{self, Sender},
    },
    time::{Duration, Instant},
};

use annulus_dataset::{Collection, Manifest, Settings};

use super::{KeyFilterDecision, Launch, Planned, lines::Event, watch::Ring};
use crate::{
    control::{HostOutput, HostProgress, HostSummary, JoinTask, Order, Report, Resources, RingTask, Single, Task},
    error::ClusterError,
    job::{JoinJob, KeyFilterMode},
};

/// Observes the progress of a join.
pub trait Observe {
    /// Called when a host reports its progress.
    fn host(&self, host: usize, progress: HostProgress) {
        let _ = (host, progress);
    }

    /// Called when the join has to wait for a host, after `ahead` other joins. `name` is the name
    /// of the host.
    fn queued(&self, name: &str, ahead: usize) {
        let _ = (name, ahead);
    }
}

/// Cancels a join from another thread.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    asked: Mutex<Asked>,
}

#[derive(Debug, Default)]
struct Asked {
    to_end: bool,
    running: Option<Sender<Event>>,
}

impl Cancel {
    /// Ends the join when its hosts have ended and removed their files. A join that has not begun
    /// does not begin.
    pub fn cancel(&self) {
        self.ask(false);
    }

    /// Ends the join at once. Hosts that are processes of this machine are killed; for other hosts
    /// it does not wait.
    pub fn cancel_at_once(&self) {
        self.ask(true);
    }

    fn ask(&self, at_once: bool) {
        let mut asked = self.0.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.to_end = true;
        if let Some(running) = &asked.running {
            // The join may have ended.
            running.send(if at_once { Event::AtOnce } else { Event::Cancel }).ok();
        }
    }

    fn is_asked(&self) -> bool {
        self.0.asked.lock().unwrap_or_else(PoisonError::into_inner).to_end
    }

    /// Makes this the handle of a join that begins.
    fn attend(&self, events: &Sender<Event>) -> Result<(), ClusterError> {
        let mut asked = self.0.asked.lock().unwrap_or_else(PoisonError::into_inner);
        if asked.to_end {
            return Err(ClusterError::Cancelled);
        }
        asked.running = Some(events.clone());
        Ok(())
    }
}

/// The result of a join.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Summary {
    /// The manifest of the output folder.
    pub manifest: Manifest,
    /// The work of each host.
    pub hosts: Vec<HostSummary>,
    /// The names of the hosts.
    pub names: Vec<String>,
    /// The key filter, if hosts made one.
    pub key_filter: KeyFilterDecision,
    /// The time from the start of the first host to the manifest, without the wait in queues.
    pub elapsed: Duration,
}

/// Runs a join as planned. On success the output folder holds all rows of the result. On an error
/// it holds none.
///
/// # Errors
/// If the output folder cannot be used, a host fails ([`ClusterError::Host`] names it) or is busy,
/// or the join is cancelled.
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
    // Dropped last, after the hosts have ended.
    let members = (0..planned.hosts).map(|host| launch.member(host)).collect();
    let collection = Collection::begin(&job.output, members, job.existing)?;
    let ring = Ring::start((sender, events), job.options.timeout, launch, observe);
    let mut ring = ring.map_err(|error| if cancel.is_asked() { ClusterError::Cancelled } else { error })?;
    let asked = Instant::now();
    let entered = ring.enter(job.options.wait);
    // Without a wait, hosts that start are part of the join.
    let waited = if job.options.wait.is_zero() { Duration::ZERO } else { asked.elapsed() };
    let done =
        entered.and_then(|()| join(&mut ring, job, planned, launch)).and_then(|(manifests, hosts, key_filter)| {
            let manifest = collection.complete(settings(job, planned), &manifests)?;
            // Hosts that end before the manifest is written remove their files. If this process is
            // killed, no other process would remove them.
            ring.keep()?;
            Ok((manifest, hosts, key_filter))
        });
    let unconfirmed = ring.end(done.is_err());
    let (manifest, hosts, key_filter) = done.map_err(|error| match error {
        ClusterError::Cancelled if !unconfirmed.is_empty() => ClusterError::Unconfirmed {
            hosts: unconfirmed.join(", "),
            output: job.output.clone(),
            within: job.options.timeout,
        },
        error => error,
    })?;
    collection.keep()?;
    let names = (0..planned.hosts).map(|host| launch.name(host)).collect();
    Ok(Summary { manifest, hosts, names, key_filter, elapsed: start.elapsed().saturating_sub(waited) })
}

/// Returns the settings that the manifest records.
fn settings(job: &JoinJob, planned: &Planned) -> Settings {
    let mut settings = job.query.settings();
    settings.insert("hosts".to_owned(), planned.hosts.to_string());
    settings
}

/// Runs all steps on all hosts after they have been entered.
fn join(
    ring: &mut Ring<'_>,
    job: &JoinJob,
    planned: &Planned,
    launch: &dyn Launch,
) -> Result<(Vec<Manifest>, Vec<HostSummary>, KeyFilterDecision), ClusterError> {
    let session = session();
    for host in 0..ring.len() {
        ring.order(host, Order::Load(Box::new(task(job, planned, launch, host, session))));
    }
    let loaded = ring.collect(|report| match report {
        Report::Loaded { build_rows } => Some(build_rows),
        _ => None,
    })?;
    let decision = planned.key_filter(job.options.key_filter, loaded.iter().sum());
    let key_filter = decision.filter.map(|filter| filter.kind);
    ring.order_all(&Order::Prepare { build_rows: loaded.into_iter().max().unwrap_or(0), key_filter });
    ring.collect(|report| matches!(report, Report::Prepared).then_some(()))?;
    ring.order_all(&Order::Turn);
    let summaries = ring.collect(|report| match report {
        Report::Sealed(summary) => Some(*summary),
        _ => None,
    })?;
    ring.order_all(&Order::Publish);
    let manifests = ring.collect(|report| match report {
        Report::Published(manifest) => Some(*manifest),
        _ => None,
    })?;
    Ok((manifests, summaries, decision))
}

fn task(job: &JoinJob, planned: &Planned, launch: &dyn Launch, host: usize, session: u64) -> Task {
    let options = &job.options;
    Task {
        join: JoinTask {
            query: planned.query.clone(),
            now_ns: planned.now_ns,
            rotate: planned.choice.rotate,
            algorithm: planned.choice.algorithm,
            revolutions: planned.revolutions,
            single: planned.is_single.then(|| Single { key_filter: options.key_filter != KeyFilterMode::Never }),
        },
        inputs: planned.inputs[host].clone(),
        ring: RingTask {
            host: host as u16,
            hosts: planned.hosts as u16,
            session,
            neighbours: launch.neighbours(),
            fragment_bytes: options.fragment_bytes,
            buffers: options.buffers,
            timeout_ms: options.timeout.as_millis() as u64,
        },
        resources: Resources {
            threads: options.threads,
            memory_bytes: options.memory_bytes,
            kept_bytes: planned.kept_bytes,
        },
        output: HostOutput {
            dir: job.output.clone(),
            member: launch.member(host),
            format: job.format,
            compression: job.format.default_compression(),
            existing: job.existing,
        },
    }
}

/// Returns a number that is unique to the join, so that hosts of different joins do not connect to
/// each other.
fn session() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id())
}
