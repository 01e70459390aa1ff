//! The discrete-event engine: threads on cores, contended lines, locks and wake-ups.
//!
//! A thread is a state machine, its [`Program`]. The engine calls it whenever the thread has its
//! core and has finished its last step. Time passes in steps only, so what a program reads and
//! changes between two steps happens at one moment.

mod event;
mod schedule;

use std::collections::{BinaryHeap, VecDeque};

use event::{Event, Kind};
use schedule::{Core, State, Thread};

use crate::{Error, FittedParameters, Machine, parameters::OWN_NS};

/// The next step of a thread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Step {
    /// Occupies its core for this time, in ns.
    Run(f64),
    /// Takes a lock, and sleeps while another thread has it.
    Lock(usize),
    /// Sleeps until a thread wakes the queue.
    Wait(usize),
    /// Ends.
    End,
}

/// The state machines of all threads.
pub(crate) trait Program<W> {
    /// Continues `thread` at the present moment.
    fn step(&mut self, world: &mut W, thread: usize) -> Step;
}

/// Access to the engine within the world that the programs share.
pub(crate) trait HasEngine {
    fn engine(&mut self) -> &mut Engine;
}

/// What happened, by kind. Producers are counted apart: their operations are those of the paper's
/// table 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Counts {
    /// Operations on shared lines by producers, locks included.
    pub(crate) producer_operations: u64,
    /// Locks taken by producers.
    pub(crate) producer_locks: u64,
    /// Threads woken.
    pub(crate) wakes: u64,
    /// Times that a core began to run another thread.
    pub(crate) switches: u64,
}

/// A line that several cores change.
#[derive(Clone, Copy, Debug)]
struct Line {
    owner: usize,
    free_at: f64,
}

#[derive(Debug)]
struct Lock {
    held: bool,
    line: usize,
    waiters: VecDeque<usize>,
}

/// Threads, cores, lines, locks and queues of waiting threads.
#[derive(Debug)]
pub(crate) struct Engine {
    now: f64,
    sequence: u64,
    events: BinaryHeap<Event>,
    threads: Vec<Thread>,
    cores: Vec<Core>,
    domains: Vec<usize>,
    /// The cost of a line between each two domains.
    between: Vec<f64>,
    domain_count: usize,
    lines: Vec<Line>,
    locks: Vec<Lock>,
    queues: Vec<VecDeque<usize>>,
    wake_ns: f64,
    broadcast: f64,
    producers: usize,
    ended: usize,
    counts: Counts,
}

impl Engine {
    /// An engine with a producer and a consumer on each of `cores` cores. Producers are threads 0
    /// to `cores - 1`, the consumers follow.
    pub(crate) fn new(machine: &Machine, fitted: &FittedParameters, cores: usize) -> Self {
        let domain_count = machine.domains;
        let between = 0..domain_count * domain_count;
        let between = between.map(|pair| machine.between_ns(pair / domain_count, pair % domain_count)).collect();
        let mut engine = Self {
            now: 0.0,
            sequence: 0,
            events: BinaryHeap::new(),
            threads: (0..2 * cores).map(|thread| Thread::new(thread % cores)).collect(),
            cores: vec![Core::default(); cores],
            domains: (0..cores).map(|core| machine.domain(core)).collect(),
            between,
            domain_count,
            lines: Vec::new(),
            locks: Vec::new(),
            queues: Vec::new(),
            wake_ns: fitted.wake_ns,
            broadcast: fitted.broadcast,
            producers: cores,
            ended: 0,
            counts: Counts::default(),
        };
        (0..2 * cores).for_each(|thread| engine.make_ready(thread));
        engine
    }

    /// Returns the present moment, in ns.
    pub(crate) fn now(&self) -> f64 {
        self.now
    }

    /// Returns what has happened so far.
    pub(crate) fn counts(&self) -> Counts {
        self.counts
    }

    /// Returns the cache domain of a thread.
    pub(crate) fn domain(&self, thread: usize) -> usize {
        self.domains[self.threads[thread].core]
    }

    /// Adds a shared line, and returns its number.
    pub(crate) fn new_line(&mut self) -> usize {
        self.lines.push(Line { owner: usize::MAX, free_at: 0.0 });
        self.lines.len() - 1
    }

    /// Adds a lock, and returns its number.
    pub(crate) fn new_lock(&mut self) -> usize {
        let line = self.new_line();
        self.locks.push(Lock { held: false, line, waiters: VecDeque::new() });
        self.locks.len() - 1
    }

    /// Adds a queue of waiting threads, and returns its number.
    pub(crate) fn new_queue(&mut self) -> usize {
        self.queues.push(VecDeque::new());
        self.queues.len() - 1
    }

    /// Returns the time of an atomic operation of `thread` on a line, `after` ns from now. The line
    /// comes from the core that changed it last, after all operations that are queued on it.
    pub(crate) fn touch(&mut self, line: usize, thread: usize, after: f64) -> f64 {
        if thread < self.producers {
            self.counts.producer_operations += 1;
        }
        let core = self.threads[thread].core;
        let Line { owner, free_at } = self.lines[line];
        let cost = match owner {
            _ if owner == core => OWN_NS,
            usize::MAX => self.between[self.domains[core] * (self.domain_count + 1)],
            _ => self.between[self.domains[owner] * self.domain_count + self.domains[core]],
        };
        let start = (self.now + after).max(free_at);
        self.lines[line] = Line { owner: core, free_at: start + cost };
        start + cost - self.now - after
    }

    /// Gives a lock back. If threads wait for it, one of them is woken, and tries again. Returns
    /// the time that this takes.
    pub(crate) fn unlock(&mut self, lock: usize) -> f64 {
        self.locks[lock].held = false;
        let Some(waiter) = self.locks[lock].waiters.pop_front() else { return 0.0 };
        self.wake_after(waiter, self.wake_ns);
        self.wake_ns
    }

    /// Wakes the first thread of a queue, `after` ns from now. Returns the time that this takes the
    /// thread that wakes it.
    pub(crate) fn wake_one(&mut self, queue: usize, after: f64) -> f64 {
        self.wake(queue, 1, after, self.wake_ns)
    }

    /// Wakes all threads of a queue, each with a call of its own.
    pub(crate) fn wake_each(&mut self, queue: usize, after: f64) -> f64 {
        self.wake(queue, usize::MAX, after, self.wake_ns)
    }

    /// Takes all threads out of a queue, for the caller to wake.
    pub(crate) fn take_all(&mut self, queue: usize) -> Vec<usize> {
        std::mem::take(&mut self.queues[queue]).into()
    }

    /// Wakes a thread that was taken out of its queue, as [`wake_one`](Self::wake_one) does.
    pub(crate) fn wake_thread(&mut self, thread: usize, after: f64) -> f64 {
        self.wake_after(thread, after + self.wake_ns);
        self.wake_ns
    }

    /// Wakes all threads of a queue with one call.
    pub(crate) fn wake_all(&mut self, queue: usize, after: f64) -> f64 {
        self.wake(queue, usize::MAX, after, self.wake_ns * self.broadcast)
    }

    fn wake(&mut self, queue: usize, most: usize, after: f64, further: f64) -> f64 {
        let mut time = 0.0;
        for _ in 0..most {
            let Some(thread) = self.queues[queue].pop_front() else { break };
            time += if time == 0.0 { self.wake_ns } else { further };
            self.wake_after(thread, after + time);
        }
        time
    }

    fn wake_after(&mut self, thread: usize, after: f64) {
        self.counts.wakes += 1;
        self.push(self.now + after, thread, Kind::Ready);
    }

    fn try_lock(&mut self, lock: usize, thread: usize) -> Option<f64> {
        if self.locks[lock].held {
            self.locks[lock].waiters.push_back(thread);
            return None;
        }
        self.locks[lock].held = true;
        if thread < self.producers {
            self.counts.producer_locks += 1;
        }
        Some(self.touch(self.locks[lock].line, thread, 0.0))
    }

    fn push(&mut self, time: f64, thread: usize, kind: Kind) {
        self.sequence += 1;
        self.events.push(Event { time, sequence: self.sequence, thread, kind });
    }
}

/// Runs the programs until all threads have ended.
///
/// # Errors
/// If all threads that have not ended wait.
pub(crate) fn run<W: HasEngine>(
    mut program: impl Program<W>,
    world: &mut W,
    strategy: &'static str,
) -> Result<(), Error> {
    while let Some(event) = world.engine().events.pop() {
        let engine = world.engine();
        let current = engine.threads[event.thread].generation;
        if let Kind::Step(generation) | Kind::Slice(generation) = event.kind
            && generation != current
        {
            continue;
        }
        engine.now = event.time;
        match event.kind {
            Kind::Ready => engine.make_ready(event.thread),
            Kind::Step(_) => proceed(world, &mut program, event.thread),
            Kind::Slice(_) => engine.end_slice(event.thread),
        }
    }
    let engine = world.engine();
    if engine.ended < engine.threads.len() {
        return Err(Error::Stuck { strategy });
    }
    Ok(())
}

/// Continues a thread that has its core, until it takes time or sleeps.
fn proceed<W: HasEngine>(world: &mut W, program: &mut impl Program<W>, thread: usize) {
    loop {
        if let Some(lock) = world.engine().threads[thread].retry.take() {
            let engine = world.engine();
            match engine.try_lock(lock, thread) {
                Some(time) => engine.occupy(thread, time),
                None => {
                    engine.threads[thread].retry = Some(lock);
                    engine.block(thread, State::Blocked);
                }
            }
            return;
        }
        match program.step(world, thread) {
            Step::Run(time) => return world.engine().occupy(thread, time),
            Step::Lock(lock) => world.engine().threads[thread].retry = Some(lock),
            Step::Wait(queue) => {
                let engine = world.engine();
                engine.queues[queue].push_back(thread);
                return engine.block(thread, State::Blocked);
            }
            Step::End => {
                let engine = world.engine();
                engine.ended += 1;
                return engine.block(thread, State::Finished);
            }
        }
    }
}

#[cfg(test)]
mod tests;
