//! The queue of a node. One join runs; others wait in the order of their requests.

use std::{
    collections::VecDeque,
    net::{Shutdown, TcpStream},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use super::Stop;
use crate::control::Report;

/// The largest number of joins that wait for a node while another one runs.
pub(crate) const MOST_WAITING: usize = 16;

/// The joins that are connected to a node.
#[derive(Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Whether the node is being stopped, and accepts no more joins.
    closed: bool,
    /// The connections that carry the orders of all joins, by their numbers.
    orders: Vec<(u64, TcpStream)>,
    /// The joins that wait, in the order of their requests.
    waiting: VecDeque<u64>,
    running: Option<u64>,
    next: u64,
}

/// The place of one join at a node, from its connection to its end.
pub(crate) struct Seat {
    queue: Arc<Queue>,
    number: u64,
}

/// The reason why a join is not entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Another join runs, or waits, and this one does not want to wait.
    Busy,
    /// The join was stopped while it waited.
    Stopped,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a seat for a join whose orders come over `orders`.
    ///
    /// # Errors
    /// If the node is being stopped, or all seats are taken: returns the report for the
    /// coordinator.
    pub(crate) fn seat(self: &Arc<Self>, orders: TcpStream) -> Result<Seat, Report> {
        let mut state = self.lock();
        if state.closed {
            return Err(Report::Stopped);
        }
        if state.orders.len() > MOST_WAITING {
            return Err(Report::Full { waiting: MOST_WAITING });
        }
        let number = state.next;
        state.next += 1;
        state.orders.push((number, orders));
        Ok(Seat { queue: Arc::clone(self), number })
    }

    /// Makes joins that were stopped leave the queue.
    pub(crate) fn wake(&self) {
        // The lock waits for a join that has checked its stop but does not wait yet: it would miss
        // the signal.
        drop(self.lock());
        self.changed.notify_all();
    }

    /// Accepts no more joins, ends the orders of all joins, and waits up to `timeout` until all
    /// have ended.
    pub(crate) fn end_all(&self, timeout: Duration) {
        let mut state = self.lock();
        state.closed = true;
        for (_, orders) in &state.orders {
            // The join may have ended just now.
            orders.shutdown(Shutdown::Both).ok();
        }
        drop(self.changed.wait_timeout_while(state, timeout, |state| !state.orders.is_empty()));
    }
}

impl Seat {
    /// Waits until this join may run. If it has to wait and `wait` is set, calls `queued` first
    /// with the number of joins ahead of it.
    ///
    /// # Errors
    /// If the join does not want to wait, or was stopped.
    pub(crate) fn enter(&self, wait: bool, stop: &Stop, queued: impl FnOnce(usize)) -> Result<(), Refusal> {
        let mut state = self.queue.lock();
        let ahead = state.waiting.len() + usize::from(state.running.is_some());
        if ahead > 0 && !wait {
            return Err(Refusal::Busy);
        }
        state.waiting.push_back(self.number);
        if ahead > 0 {
            drop(state);
            queued(ahead);
            state = self.queue.lock();
        }
        while state.running.is_some() || state.waiting.front() != Some(&self.number) {
            if stop.is_stopped() {
                return Err(Refusal::Stopped);
            }
            state = self.queue.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.waiting.pop_front();
        state.running = Some(self.number);
        Ok(())
    }

    /// Returns the queue that this seat belongs to.
    pub(crate) fn queue(&self) -> &Arc<Queue> {
        &self.queue
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut state = self.queue.lock();
        if state.running == Some(self.number) {
            state.running = None;
        }
        state.waiting.retain(|&number| number != self.number);
        if let Some(place) = state.orders.iter().position(|(number, _)| *number == self.number) {
            // No more orders are read, so the thread that reads them ends.
            state.orders.swap_remove(place).1.shutdown(Shutdown::Both).ok();
        }
        drop(state);
        self.queue.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::{net::TcpListener, sync::mpsc::channel, thread};

    use super::*;

    /// Sockets for the orders of joins.
    struct Sockets(TcpListener);

    impl Sockets {
        fn new() -> Self {
            Self(TcpListener::bind("127.0.0.1:0").unwrap())
        }

        fn one(&self) -> TcpStream {
            TcpStream::connect(self.0.local_addr().unwrap()).unwrap()
        }
    }

    #[test]
    fn joins_run_in_the_order_in_which_they_asked() {
        let (sockets, queue) = (Sockets::new(), Arc::new(Queue::default()));
        let seat = || queue.seat(sockets.one()).unwrap();
        let first = seat();
        first.enter(false, &Stop::default(), |_| unreachable!()).unwrap();
        assert_eq!(seat().enter(false, &Stop::default(), |_| unreachable!()), Err(Refusal::Busy));
        let (ran, order) = channel();
        thread::scope(|scope| {
            for number in 0..5 {
                let (seat, ran) = (seat(), ran.clone());
                let (asked, waits) = channel();
                scope.spawn(move || {
                    seat.enter(true, &Stop::default(), |ahead| asked.send(ahead).unwrap()).unwrap();
                    ran.send(number).unwrap();
                });
                assert_eq!(waits.recv().unwrap(), number + 1);
            }
            drop((first, ran));
            assert_eq!(order.iter().collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
        });
    }

    #[test]
    fn a_join_that_is_stopped_leaves_the_queue() {
        let (sockets, queue) = (Sockets::new(), Arc::new(Queue::default()));
        let seat = || queue.seat(sockets.one()).unwrap();
        let first = seat();
        first.enter(true, &Stop::default(), |_| unreachable!()).unwrap();
        let (stop, second) = (Stop::default(), seat());
        let (asked, waits) = channel();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| second.enter(true, &stop, |_| asked.send(()).unwrap()));
            waits.recv().unwrap();
            stop.stop();
            queue.wake();
            assert_eq!(waiting.join().unwrap(), Err(Refusal::Stopped));
        });
        drop((first, second));
        seat().enter(false, &Stop::default(), |_| unreachable!()).unwrap();
    }

    #[test]
    fn a_node_that_is_stopped_takes_no_more_joins() {
        let (sockets, queue) = (Sockets::new(), Arc::new(Queue::default()));
        queue.end_all(Duration::ZERO);
        assert!(matches!(queue.seat(sockets.one()), Err(Report::Stopped)));
    }

    #[test]
    fn a_full_queue_refuses() {
        let (sockets, queue) = (Sockets::new(), Arc::new(Queue::default()));
        let mut seats: Vec<Seat> = (0..=MOST_WAITING).map(|_| queue.seat(sockets.one()).unwrap()).collect();
        let refused = queue.seat(sockets.one());
        assert!(matches!(refused, Err(Report::Full { waiting: MOST_WAITING })));
        seats.pop();
        assert!(queue.seat(sockets.one()).is_ok());
    }
}
