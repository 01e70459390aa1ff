//! Passes reports of hosts to the coordinator, and orders to hosts, on one thread each. Only a few
//! messages wait, however much a host reports and however little it reads.

use std::{
    io::{self, Read, Write},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc::{self, Sender},
    },
    thread,
};

use super::failure::Seen;
use crate::{
    control::{LineReader, LineWriter, Order, Report},
    error::ClusterError,
};

/// The largest number of reports of a host, without signs of life. A normal join has fewer.
const MOST_REPORTS: usize = 10;

/// An event that the coordinator waits for.
#[derive(Debug)]
pub(super) enum Event {
    Report(usize, Report),
    /// A host's reports have ended.
    Ended(usize, Seen),
    Cancel,
    /// The user does not want to wait for hosts any longer.
    AtOnce,
}

/// Lets one message of a kind wait at a time. Further ones would repeat it.
#[derive(Clone, Default)]
pub(super) struct OneWaits(Arc<AtomicBool>);

impl OneWaits {
    /// Returns whether this message may wait.
    fn begins(&self) -> bool {
        !self.0.swap(true, Relaxed)
    }

    /// Records that the message has been taken.
    pub(super) fn ends(&self) {
        self.0.store(false, Relaxed);
    }
}

/// Sends the reports of a host as events, until they end. A sign of life is dropped if the previous
/// one has not [been taken](OneWaits::ends).
pub(super) fn follow(host: usize, reports: impl Read + Send + 'static, events: Sender<Event>) -> io::Result<OneWaits> {
    let alive = OneWaits::default();
    let follow = {
        let alive = alive.clone();
        move || {
            let ending = forward(host, reports, &events, &alive);
            // The coordinator may have ended.
            drop(events.send(Event::Ended(host, ending)));
        }
    };
    thread::Builder::new().name(format!("host {host}")).spawn(follow)?;
    Ok(alive)
}

fn forward(host: usize, reports: impl Read, events: &Sender<Event>, alive: &OneWaits) -> Seen {
    let mut left = MOST_REPORTS;
    for report in LineReader::new(reports) {
        let report = match report {
            Ok(Report::Alive(_)) if !alive.begins() => continue,
            Ok(report) => report,
            Err(error) => return ending(error),
        };
        if !matches!(report, Report::Alive(_)) {
            if left == 0 {
                return Seen::Said("it sent more reports than a join has".to_owned());
            }
            left -= 1;
        }
        if events.send(Event::Report(host, report)).is_err() {
            break;
        }
    }
    Seen::Gone("it ended without a report".to_owned())
}

/// Returns what is known of a host whose reports cannot be read.
fn ending(error: ClusterError) -> Seen {
    match error {
        ClusterError::Io(error) => Seen::Gone(format!("its reports broke off: {error}")),
        error => Seen::Said(error.to_string()),
    }
}

/// Sends orders to a host, one after the other. A host that has stopped reading does not block the
/// coordinator.
pub(super) struct Orders {
    queue: Sender<Order>,
    heard: OneWaits,
}

impl Orders {
    /// Starts a thread that writes orders until they are dropped or the host stops reading them.
    /// Its reports end then, too.
    pub(super) fn start(host: usize, writer: impl Write + Send + 'static) -> io::Result<Self> {
        let (queue, orders) = mpsc::channel::<Order>();
        let (writer, heard) = (LineWriter::new(writer), OneWaits::default());
        let taken = heard.clone();
        let write = move || {
            for order in orders {
                if matches!(order, Order::Heard) {
                    taken.ends();
                }
                if writer.write(&order).is_err() {
                    return;
                }
            }
        };
        thread::Builder::new().name(format!("orders of host {host}")).spawn(write)?;
        Ok(Self { queue, heard })
    }

    pub(super) fn send(&self, order: Order) {
        if !matches!(order, Order::Heard) || self.heard.begins() {
            self.queue.send(order).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, channel};

    use super::*;
    use crate::control::HostProgress;

    fn lines(report: &Report, count: usize) -> io::Cursor<Vec<u8>> {
        let writer = LineWriter::new(Vec::new());
        (0..count).for_each(|_| writer.write(report).unwrap());
        io::Cursor::new(writer.into_inner())
    }

    /// Returns the events that are waiting after all reports, if none was taken meanwhile.
    fn waiting(reports: io::Cursor<Vec<u8>>) -> Vec<Event> {
        let (events, received) = channel();
        follow(0, reports, events).unwrap();
        received.iter().collect()
    }

    #[test]
    fn one_sign_of_life_waits() {
        let waiting = waiting(lines(&Report::Alive(HostProgress::default()), 1000));
        assert!(matches!(waiting[..], [Event::Report(0, Report::Alive(_)), Event::Ended(0, Seen::Gone(_))]));
    }

    #[test]
    fn reports_without_end_are_cut_off() {
        let mut waiting = waiting(lines(&Report::Prepared, 1000));
        assert!(matches!(waiting.pop(), Some(Event::Ended(0, Seen::Said(_)))));
        assert_eq!(waiting.len(), MOST_REPORTS);
    }

    /// A writer that accepts one order for each message that it receives.
    struct Slow(Receiver<()>, Sender<String>);

    impl Write for Slow {
        fn write(&mut self, data: &[u8]) -> io::Result<usize> {
            self.0.recv().ok();
            self.1.send(String::from_utf8_lossy(data).into_owned()).ok();
            Ok(data.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_host_that_takes_no_orders_has_one_answer_waiting() {
        let (goes_on, may_go_on) = channel();
        let (taken, orders_taken) = channel();
        let orders = Orders::start(0, Slow(may_go_on, taken)).unwrap();
        (0..1000).for_each(|_| orders.send(Order::Heard));
        orders.send(Order::Turn);
        drop((goes_on, orders));
        let taken: Vec<_> = orders_taken.iter().collect();
        // Another one was being written.
        assert!((2..=3).contains(&taken.len()), "{taken:?}");
        assert!(taken.last().unwrap().contains("Turn"), "{taken:?}");
    }
}
