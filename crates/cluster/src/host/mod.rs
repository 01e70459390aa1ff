//! One host of a ring: it does what a coordinator tells it.
//!
//! ```text
//! orders -> session.rs: load.rs (this host's rows) -> cyclo-join around the ring (ring.rs) -> write.rs: files, seen when published
//! ```

mod load;
mod progress;
mod ring;
#[cfg(test)]
mod served;
mod session;
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
use annulus_roundabout::{HostId, RoundaboutError};
use tracing::{error, field::display, info, warn};

pub(crate) use self::session::{wave_bytes, writers_bytes};
use self::{
    progress::Progress,
    session::{Ended, Session},
};
pub use self::{ring::Member, stop::Stop};
use crate::{
    control::{LineReader, LineWriter, Order, Report},
    error::ClusterError,
};

/// How often a host says that it is alive.
const ALIVE: Duration = Duration::from_millis(200);

/// Does what `orders` say until they end, or an error has been reported. Orders that end early end
/// the join, which leaves nothing. `member` is what a host of a ring of machines is; those of one
/// machine need none. `stop` ends it from another thread.
///
/// # Errors
/// If threads cannot be started. What else goes wrong is reported.
pub fn serve(
    orders: impl Read + Send + 'static,
    reports: impl Write + Send + 'static,
    member: Option<Member>,
    stop: Stop,
) -> Result<(), ClusterError> {
    let reports = Arc::new(LineWriter::new(reports));
    let orders = follow(orders, stop.clone())?;
    let progress = Arc::new(Progress::default());
    let (ended, until) = mpsc::channel();
    let ticker = {
        let (reports, progress) = (Arc::clone(&reports), Arc::clone(&progress));
        thread::Builder::new().name("alive".to_owned()).spawn(move || tick(&reports, &progress, &until))?
    };
    let host = Session { orders, reports: Arc::clone(&reports), stop, progress, member, id: OnceLock::new() };
    let done = host.run();
    tell(host.id.get(), &done);
    drop(ended);
    // It has nothing left to say but that reports cannot be written, which the next line finds out,
    // too.
    ticker.join().ok();
    if let Err(error) = done {
        // A coordinator that is gone needs to know nothing, and users have been told by it.
        reports.write(&report_of(&error)).ok();
    }
    Ok(())
}

/// Says in the log what became of a join. `id` is the same on all hosts.
fn tell(id: Option<&String>, done: &Result<Ended, ClusterError>) {
    let join = id.map(display);
    match done {
        Ok(Ended::Kept) => info!(join, "the join succeeded"),
        Ok(Ended::Unconfirmed) => {
            warn!(join, "the coordinator has gone; the files of this host stay only if the result is complete");
        }
        Err(ClusterError::Cancelled) => info!(join, "the join was cancelled"),
        Err(error) => error!(join, "the join failed: {error}"),
    }
}

/// Says that this host is alive until it ends.
fn tick(reports: &LineWriter<impl Write>, progress: &Progress, until: &Receiver<()>) {
    while until.recv_timeout(ALIVE) == Err(mpsc::RecvTimeoutError::Timeout) {
        if reports.write(&Report::Alive(progress.get())).is_err() {
            return;
        }
    }
}

/// Reads orders on a thread of its own, so that their end is noticed whatever the host is at. One
/// that comes before its time is their end, too.
fn follow(orders: impl Read + Send + 'static, stop: Stop) -> Result<Receiver<Order>, ClusterError> {
    // The next one comes when this host has said that it has done the one before.
    let (sender, receiver) = mpsc::sync_channel(1);
    let read = move || {
        for order in LineReader::new(orders) {
            let Ok(order) = order else { break };
            // That the coordinator lives is all that it says.
            if !matches!(order, Order::Heard) && sender.try_send(order).is_err() {
                break;
            }
        }
        stop.stop();
    };
    thread::Builder::new().name("orders".to_owned()).spawn(read)?;
    Ok(receiver)
}

fn report_of(error: &ClusterError) -> Report {
    let (reason, other) = match error {
        ClusterError::Cancelled => return Report::Stopped,
        // The coordinator names the host, and says that it has failed.
        ClusterError::Cyclo(CycloError::Ring(RoundaboutError::Failed { failure, detail })) => {
            let detail = detail.as_ref().map(|detail| format!(" ({detail})")).unwrap_or_default();
            (format!("{}{detail}", failure.reason), Some(failure.host))
        }
        ClusterError::Cyclo(CycloError::Ring(ring)) => (error.to_string(), blamed(ring)),
        _ => (error.to_string(), None),
    };
    Report::Failed { reason, other: other.map(|host| host.0) }
}

/// The other host that has failed, as far as this one can tell; while the ring is put together, a
/// neighbour that it cannot do with.
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
    use annulus_roundabout::{Failure, Reason};

    use super::*;

    /// The same order again and again, until it is dropped.
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
        let orders = follow(Flood(ended), stop.clone()).unwrap();
        // Nobody takes any, and they end all the same.
        assert_eq!(ends.iter().count(), 2);
        assert_eq!(orders.iter().count(), 1);
        assert!(matches!(stop.check(), Err(ClusterError::Cancelled)));
    }
}
