//! One host of a ring, which carries out the orders of a coordinator.
//!
//! ```text
//! orders -> queue.rs -> session.rs: load.rs (this host's rows) -> cyclo-join around the ring (ring.rs)
//!        -> write.rs: files, hidden until they are published
//!        or, on a single host, a query of DataFusion (single/), which writes them
//! ```

mod load;
mod memory;
mod progress;
mod queue;
mod ring;
#[cfg(test)]
mod served;
mod session;
mod single;
mod stop;
mod write;

use std::{
    io::{Read, Write},
    sync::{
        Arc, OnceLock,
        mpsc::{self, Receiver},
    },
    thread,
    time::Duration,
};

use annulus_cyclo::CycloError;
use annulus_roundabout::{HostId, Reason, RoundaboutError};
use tracing::{error, field::display, info, warn};

pub(crate) use self::{
    memory::{query_bytes, wave_bytes, writers_bytes},
    queue::{Queue, Seat},
};
use self::{
    progress::Counters,
    session::{Ended, Session},
};
pub use self::{ring::Member, stop::Stop};
use crate::{
    control::{LineReader, LineWriter, Order, Report},
    error::ClusterError,
};

/// The interval at which a host reports that it is alive.
const ALIVE: Duration = Duration::from_millis(200);

/// Runs one join as a process of this machine: carries out `orders` until they end, or an error has
/// been reported. If the orders end early, the join ends and its files are removed. `stop` ends it
/// from another thread.
///
/// # Errors
/// If threads cannot be started. All other errors are reported to the coordinator.
pub fn serve(
    orders: impl Read + Send + 'static,
    reports: impl Write + Send + 'static,
    stop: Stop,
) -> Result<(), ClusterError> {
    serve_at(orders, reports, None, stop)
}

/// A join's place at a node of a ring of machines.
pub(crate) struct Admission {
    pub(crate) member: Member,
    pub(crate) seat: Arc<Seat>,
    /// The longest time until the join has entered all hosts.
    pub(crate) entry_timeout: Duration,
}

/// Runs one join like [`serve`], as a process of this machine or at a node.
pub(crate) fn serve_at(
    orders: impl Read + Send + 'static,
    reports: impl Write + Send + 'static,
    admission: Option<Admission>,
    stop: Stop,
) -> Result<(), ClusterError> {
    let reports = Arc::new(LineWriter::new(reports));
    let queue = admission.as_ref().map(|admission| Arc::clone(admission.seat.queue()));
    let orders = follow(orders, {
        let stop = stop.clone();
        move || {
            stop.stop();
            if let Some(queue) = queue {
                queue.wake();
            }
        }
    })?;
    let progress = Arc::new(Counters::default());
    let (ended, until) = mpsc::channel();
    let ticker = {
        let (reports, progress) = (Arc::clone(&reports), Arc::clone(&progress));
        thread::Builder::new().name("alive".to_owned()).spawn(move || tick(&reports, &progress, &until))?
    };
    let host = Session { orders, reports: Arc::clone(&reports), stop, progress, admission, id: OnceLock::new() };
    let done = host.run();
    log(host.id.get(), &done);
    drop(ended);
    // It fails only if reports cannot be written, which the next line detects, too.
    ticker.join().ok();
    if let Err(error) = done {
        // The coordinator may be gone.
        reports.write(&report_of(&error)).ok();
    }
    Ok(())
}

/// Logs the outcome of a join. `id` is the same on all hosts.
fn log(id: Option<&String>, done: &Result<Ended, ClusterError>) {
    let join = id.map(display);
    match done {
        Ok(Ended::Kept) => info!(join, "the join succeeded"),
        Ok(Ended::Refused) => warn!("refused a join: this host is busy with another one"),
        Ok(Ended::Unconfirmed) => {
            warn!(join, "the coordinator has gone; the files of this host stay only if the result is complete");
        }
        Err(ClusterError::Cancelled) => info!(join, "the join was cancelled"),
        // Not an error of this host: the other one was cancelled first, or failed.
        Err(ClusterError::Cyclo(CycloError::Ring(RoundaboutError::Failed { failure, .. })))
            if failure.reason == Reason::GaveUp =>
        {
            warn!(join, "the join ended, because host {} gave up; its log says why", failure.host.0);
        }
        Err(error) => error!(join, "the join failed: {error}"),
    }
}

/// Reports that this host is alive until it ends.
fn tick(reports: &LineWriter<impl Write>, progress: &Counters, until: &Receiver<()>) {
    while until.recv_timeout(ALIVE) == Err(mpsc::RecvTimeoutError::Timeout) {
        if reports.write(&Report::Alive(progress.get())).is_err() {
            return;
        }
    }
}

/// Reads orders on their own thread, so that their end is noticed during any step. An order that
/// comes too early ends the thread, too. Calls `ended` at the end.
fn follow(
    orders: impl Read + Send + 'static,
    ended: impl FnOnce() + Send + 'static,
) -> Result<Receiver<Order>, ClusterError> {
    // The next order comes only after this host has reported the end of the previous step.
    let (sender, receiver) = mpsc::sync_channel(1);
    let read = move || {
        for order in LineReader::new(orders) {
            let Ok(order) = order else { break };
            // A sign of life is not an order for the join.
            if !matches!(order, Order::Heard) && sender.try_send(order).is_err() {
                break;
            }
        }
        // A receiver that finds the channel closed must already see the host as stopped.
        ended();
        drop(sender);
    };
    thread::Builder::new().name("orders".to_owned()).spawn(read)?;
    Ok(receiver)
}

/// Returns the last report of a host that failed.
fn report_of(error: &ClusterError) -> Report {
    let (reason, other) = match error {
        ClusterError::Cancelled => return Report::Stopped,
        // The coordinator adds the host's name and that it has failed.
        ClusterError::Cyclo(CycloError::Ring(RoundaboutError::Failed { failure, detail })) => {
            let detail = detail.as_ref().map(|detail| format!(" ({detail})")).unwrap_or_default();
            (format!("{}{detail}", failure.reason), Some(failure.host))
        }
        ClusterError::Cyclo(CycloError::Ring(ring)) => (error.to_string(), blamed(ring)),
        _ => (error.to_string(), None),
    };
    Report::Failed { reason, other: other.map(|host| host.0) }
}

/// Returns the other host that caused an error, if it is known: while the ring is being connected,
/// it is the neighbour to which the connection failed.
fn blamed(error: &RoundaboutError) -> Option<HostId> {
    use RoundaboutError::{Accept, Connect, Handover, Secure, Wire};
    match error {
        Connect { host, .. }
        | Accept { host, .. }
        | Handover { host, .. }
        | Secure { host, .. }
        | Wire { host, .. } => Some(*host),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};

    use annulus_join::JoinError;
    use annulus_roundabout::Failure;

    use super::*;

    /// Repeats one order until it is dropped.
    struct Flood(Sender<()>);

    impl Read for Flood {
        fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
            self.0.send(()).ok();
            let line = b"\"Turn\"\n";
            into[..line.len()].copy_from_slice(line);
            Ok(line.len())
        }
    }

    #[test]
    fn a_host_that_is_blamed_is_named_by_the_coordinator_alone() {
        let failure = Failure { host: HostId(1), reason: Reason::Closed };
        let error = ClusterError::from(RoundaboutError::Failed { failure, detail: Some("broken pipe".to_owned()) });
        let Report::Failed { reason, other } = report_of(&error) else { panic!("it has not failed") };
        assert_eq!((reason.as_str(), other), ("its connection closed (broken pipe)", Some(1)));
        assert!(matches!(report_of(&ClusterError::from(JoinError::Cancelled)), Report::Stopped));
    }

    #[test]
    fn orders_that_come_without_end_are_not_kept() {
        let (ended, ends) = channel();
        let stop = Stop::default();
        let orders = follow(Flood(ended), {
            let stop = stop.clone();
            move || stop.stop()
        });
        let orders = orders.unwrap();
        // No order is taken, and the thread ends nevertheless.
        assert_eq!(ends.iter().count(), 2);
        assert_eq!(orders.iter().count(), 1);
        assert!(matches!(stop.check(), Err(ClusterError::Cancelled)));
    }
}
