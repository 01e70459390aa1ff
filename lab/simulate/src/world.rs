//! What the threads of a simulation share: the engine, the memory, and the record of what was
//! consumed.

use crate::{
    FittedParameters, Machine, Workload,
    engine::{Engine, HasEngine},
    memory::{Memory, Readers},
};

/// The largest number of steps that a consumer's part of a group is divided into.
const STEPS_A_GROUP: usize = 24;

/// The engine, the memory and the record of one simulation.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) engine: Engine,
    pub(crate) memory: Memory,
    threads: usize,
    domains: usize,
    rounds: usize,
    consumed: u64,
    /// When a quarter and three quarters of all rows had been consumed, in ns.
    marks: [Option<f64>; 2],
    received: Vec<u64>,
    #[cfg(test)]
    pub(crate) visits: Vec<(usize, usize)>,
}

impl World {
    /// A machine on which `threads` producers make `rounds` batches each, for as many consumers.
    pub(crate) fn new(
        machine: &Machine,
        fitted: &FittedParameters,
        workload: Workload,
        threads: usize,
        rounds: usize,
        seed: u64,
    ) -> Self {
        Self {
            engine: Engine::new(machine, fitted, threads),
            memory: Memory::new(machine, fitted, workload, seed),
            threads,
            domains: machine.domains,
            rounds,
            consumed: 0,
            marks: [None; 2],
            received: vec![0; threads],
            #[cfg(test)]
            visits: Vec::new(),
        }
    }

    /// Returns the number of producers, and of consumers.
    pub(crate) fn threads(&self) -> usize {
        self.threads
    }

    /// Returns the number of cache domains.
    pub(crate) fn domains(&self) -> usize {
        self.domains
    }

    /// Returns the number of batches of each producer.
    pub(crate) fn rounds(&self) -> usize {
        self.rounds
    }

    /// Returns the number of the consumer that a thread is, or none for a producer.
    pub(crate) fn consumer(&self, thread: usize) -> Option<usize> {
        thread.checked_sub(self.threads)
    }

    /// Returns how many batches a consumer reads in one step, of a group of `slots`.
    pub(crate) fn batches_a_step(slots: usize) -> usize {
        slots.div_ceil(STEPS_A_GROUP)
    }

    /// Returns the rows of each batch that go to a consumer.
    pub(crate) fn rows_of(&self, consumer: usize) -> usize {
        let rows = self.memory.workload().rows;
        rows * (consumer + 1) / self.threads - rows * consumer / self.threads
    }

    /// Lets a producer make a batch that `readers` consumers will read. Returns its number and the
    /// time.
    pub(crate) fn produce(&mut self, thread: usize, readers: usize, fresh: bool) -> (usize, f64) {
        let (domain, now) = (self.engine.domain(thread), self.engine.now());
        self.memory.produce(domain, readers, now, fresh)
    }

    /// Lets a consumer read its rows of a batch. Returns the time.
    pub(crate) fn visit(&mut self, batch: usize, consumer: usize, readers: Readers) -> f64 {
        let rows = self.rows_of(consumer);
        let domain = self.engine.domain(self.threads + consumer);
        #[cfg(test)]
        self.visits.push((self.memory.serial(batch), consumer));
        self.receive(consumer, rows);
        self.memory.visit(batch, domain, rows, readers)
    }

    /// Records rows that a consumer has received.
    pub(crate) fn receive(&mut self, consumer: usize, rows: usize) {
        self.consumed += rows as u64;
        self.received[consumer] += rows as u64;
        for (quarter, mark) in [1, 3].into_iter().zip(&mut self.marks) {
            let due = quarter * (self.threads * self.rounds * self.memory.workload().rows) as u64 / 4;
            if mark.is_none() && self.consumed >= due {
                *mark = Some(self.engine.now());
            }
        }
    }

    /// Returns whether every consumer has received its rows of all batches.
    pub(crate) fn is_complete(&self) -> bool {
        let batches = (self.threads * self.rounds) as u64;
        (0..self.threads).all(|consumer| self.received[consumer] == batches * self.rows_of(consumer) as u64)
    }

    /// Returns the time in which the middle half of all rows was consumed, in ns.
    pub(crate) fn middle_half(&self) -> f64 {
        match self.marks {
            [Some(first), Some(last)] => last - first,
            _ => self.engine.now() / 2.0,
        }
    }
}

impl HasEngine for World {
    fn engine(&mut self) -> &mut Engine {
        &mut self.engine
    }
}
