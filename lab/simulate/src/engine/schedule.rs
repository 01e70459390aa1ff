//! Which thread runs on a core: the one that has run for less time, as in a fair scheduler.

use super::{Engine, event::Kind};
use crate::parameters::SLICE_NS;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Running,
    Ready,
    Blocked,
    Finished,
}

#[derive(Clone, Debug)]
pub(super) struct Thread {
    pub(super) core: usize,
    pub(super) state: State,
    /// Grows when the thread gets or loses its core, so that events of before are recognised.
    pub(super) generation: u32,
    /// The lock that it takes next.
    pub(super) retry: Option<usize>,
    /// The time at which its step ends, while it runs.
    end: f64,
    /// The rest of its step, while it does not run.
    remaining: f64,
    /// The time at which it began to run.
    since: f64,
    /// The time for which it ran before that.
    ran: f64,
}

impl Thread {
    pub(super) fn new(core: usize) -> Self {
        Self { core, state: State::Blocked, generation: 0, retry: None, end: 0.0, remaining: 0.0, since: 0.0, ran: 0.0 }
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Core {
    running: Option<usize>,
    ready: Vec<usize>,
}

impl Engine {
    /// Makes a thread runnable. It takes the core at once if no other thread has it, or if that one
    /// has run for longer.
    pub(super) fn make_ready(&mut self, thread: usize) {
        self.threads[thread].state = State::Ready;
        let core = self.threads[thread].core;
        let Some(other) = self.cores[core].running else { return self.start(thread) };
        if self.ran(other) > self.threads[thread].ran {
            self.suspend(other);
            return self.start(thread);
        }
        self.cores[core].ready.push(thread);
        let end = self.now.max(self.threads[other].since + SLICE_NS);
        self.push(end, other, Kind::Slice(self.threads[other].generation));
    }

    /// Ends the slice of a thread that runs while another one is ready.
    pub(super) fn end_slice(&mut self, thread: usize) {
        let core = self.threads[thread].core;
        if !self.cores[core].ready.is_empty() {
            self.suspend(thread);
            self.start_next(core);
        }
    }

    /// Lets the thread's step take this time.
    pub(super) fn occupy(&mut self, thread: usize, time: f64) {
        self.threads[thread].end = self.now + time;
        self.push(self.now + time, thread, Kind::Step(self.threads[thread].generation));
    }

    /// Takes the core from a thread that sleeps or has ended, and gives it to the ready thread that
    /// has run for the least time.
    pub(super) fn block(&mut self, thread: usize, state: State) {
        self.leave(thread, state);
        let core = self.threads[thread].core;
        self.start_next(core);
    }

    /// Starts the ready thread of a core that has run for the least time.
    fn start_next(&mut self, core: usize) {
        let ready = &self.cores[core].ready;
        let least = (0..ready.len()).min_by(|a, b| self.threads[ready[*a]].ran.total_cmp(&self.threads[ready[*b]].ran));
        if let Some(least) = least {
            let next = self.cores[core].ready.swap_remove(least);
            self.start(next);
        }
    }

    fn ran(&self, thread: usize) -> f64 {
        self.threads[thread].ran + self.now - self.threads[thread].since
    }

    fn start(&mut self, thread: usize) {
        self.counts.switches += 1;
        let now = self.now;
        let entry = &mut self.threads[thread];
        (entry.state, entry.since) = (State::Running, now);
        entry.generation += 1;
        let time = self.wake_ns + entry.remaining;
        entry.remaining = 0.0;
        let core = &mut self.cores[self.threads[thread].core];
        core.running = Some(thread);
        let contended = !core.ready.is_empty();
        self.occupy(thread, time);
        if contended {
            self.push(now + SLICE_NS, thread, Kind::Slice(self.threads[thread].generation));
        }
    }

    /// Takes the core from a thread in the middle of its step.
    fn suspend(&mut self, thread: usize) {
        self.threads[thread].remaining = (self.threads[thread].end - self.now).max(0.0);
        self.leave(thread, State::Ready);
        let core = self.threads[thread].core;
        self.cores[core].ready.push(thread);
    }

    fn leave(&mut self, thread: usize, state: State) {
        let ran = self.ran(thread);
        let entry = &mut self.threads[thread];
        debug_assert_eq!(entry.state, State::Running);
        (entry.ran, entry.state) = (ran, state);
        entry.generation += 1;
        self.cores[self.threads[thread].core].running = None;
    }
}
