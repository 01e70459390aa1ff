//! A bounded queue without locks for each consumer, which all producers share: crossbeam's, as in
//! `annulus-exchange`. A push takes a place at the tail and fills its slot; a pop does the same at the
//! head. Producers look at the head to see whether there is room.

use std::collections::VecDeque;

use super::{PUSHES_A_STEP, Push};
use crate::{
    engine::{Program, Step},
    memory::Readers,
    world::World,
};

pub(super) struct Queues {
    queues: Vec<Queue>,
    producers: Vec<(Option<Push>, usize)>,
    read: Vec<usize>,
    /// The pops of a consumer that a producer has seen, at `producer * threads + consumer`.
    seen: Vec<usize>,
    /// The reference count of each batch in flight, by the batch's number.
    reference_lines: Vec<usize>,
}

struct Queue {
    tail: usize,
    head: usize,
    slots: Vec<usize>,
    pushes: usize,
    pops: usize,
    batches: VecDeque<usize>,
    /// Producers that wait for room, and the consumer if it waits for a batch.
    room: usize,
    data: usize,
}

impl Queues {
    pub(super) fn new(world: &mut World) -> Self {
        let threads = world.threads();
        let engine = &mut world.engine;
        let queues = (0..threads).map(|_| Queue {
            tail: engine.new_line(),
            head: engine.new_line(),
            slots: (0..2 * threads - 1).map(|_| engine.new_line()).collect(),
            pushes: 0,
            pops: 0,
            batches: VecDeque::new(),
            room: engine.new_queue(),
            data: engine.new_queue(),
        });
        Self {
            queues: queues.collect(),
            producers: vec![(None, 0); threads],
            read: vec![0; threads],
            seen: vec![0; threads * threads],
            reference_lines: Vec::new(),
        }
    }

    fn produce(&mut self, world: &mut World, thread: usize) -> Step {
        let threads = world.threads();
        let (push, made) = self.producers[thread];
        let Some(Push { batch, mut to }) = push else {
            if made == world.rounds() {
                return Step::End;
            }
            let (batch, time) = world.produce(thread, threads, false);
            while self.reference_lines.len() <= batch {
                self.reference_lines.push(world.engine.new_line());
            }
            self.producers[thread] = (Some(Push { batch, to: 0 }), made + 1);
            return Step::Run(time);
        };
        let mut time = 0.0;
        let end = threads.min(to + PUSHES_A_STEP);
        while to < end && self.queues[to].batches.len() < threads {
            time += self.push(world, thread, Push { batch, to }, time);
            to += 1;
        }
        self.producers[thread].0 = (to < threads).then_some(Push { batch, to });
        if time > 0.0 { Step::Run(time) } else { Step::Wait(self.queues[to].room) }
    }

    /// Returns the time of a push that begins `after` the present.
    fn push(&mut self, world: &mut World, thread: usize, Push { batch, to }: Push, after: f64) -> f64 {
        let queue = &mut self.queues[to];
        let seen = &mut self.seen[thread * self.producers.len() + to];
        let mut lines = vec![queue.tail, queue.slots[queue.pushes % queue.slots.len()], self.reference_lines[batch]];
        // A head that has not changed since is in the producer's cache. Another one costs as much as an
        // operation.
        if *seen != queue.pops {
            *seen = queue.pops;
            lines.push(queue.head);
        }
        queue.pushes += 1;
        queue.batches.push_back(batch);
        let mut time = 0.0;
        for line in lines {
            time += world.engine.touch(line, thread, after + time);
        }
        time + world.engine.wake_one(queue.data, after + time)
    }

    fn consume(&mut self, world: &mut World, consumer: usize) -> Step {
        let threads = world.threads();
        if self.read[consumer] == threads * world.rounds() {
            return Step::End;
        }
        let queue = &mut self.queues[consumer];
        let Some(batch) = queue.batches.pop_front() else { return Step::Wait(queue.data) };
        self.read[consumer] += 1;
        let thread = threads + consumer;
        let mut time = 0.0;
        for line in [queue.slots[queue.pops % queue.slots.len()], queue.head] {
            time += world.engine.touch(line, thread, time);
        }
        queue.pops += 1;
        time += world.visit(batch, consumer, Readers { in_flight: 2 * threads, together: false });
        time += world.engine.touch(self.reference_lines[batch], thread, time);
        // Producers that wait are woken when they can send several batches.
        if queue.batches.len() == threads / 2 {
            time += world.engine.wake_all(queue.room, time);
        }
        Step::Run(time)
    }
}

impl Program<World> for Queues {
    fn step(&mut self, world: &mut World, thread: usize) -> Step {
        match world.consumer(thread) {
            None => self.produce(world, thread),
            Some(consumer) => self.consume(world, consumer),
        }
    }
}
