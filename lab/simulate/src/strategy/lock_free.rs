//! A bounded queue without locks for each consumer, which all producers share: crossbeam's, as in
//! `annulus-exchange`. A push takes a place at the tail and fills its slot; a pop does the same at the
//! head. Producers look at the head to see whether there is room.

use std::collections::VecDeque;

use super::{
    References, Sides,
    pushes::{Push, Pushes},
};
use crate::{engine::Step, memory::Readers, world::World};

pub(super) struct Queues {
    queues: Vec<Queue>,
    producers: Pushes,
    read: Vec<usize>,
    /// The pops of a consumer that a producer has seen, at `producer * threads + consumer`.
    seen: Vec<usize>,
    references: References,
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
            producers: Pushes::new(threads),
            read: vec![0; threads],
            seen: vec![0; threads * threads],
            references: References::default(),
        }
    }
}

impl Sides for Queues {
    fn produce(&mut self, world: &mut World, thread: usize) -> Step {
        let Self { queues, producers, seen, references, .. } = self;
        producers.step(world, thread, |world, Push { batch, to }, after| {
            let threads = world.threads();
            let queue = &mut queues[to];
            if queue.batches.len() == threads {
                return Err(queue.room);
            }
            let seen = &mut seen[thread * threads + to];
            let reference = references.line(&mut world.engine, batch);
            let mut lines = vec![queue.tail, queue.slots[queue.pushes % queue.slots.len()], reference];
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
            Ok(time + world.engine.wake_one(queue.data, after + time))
        })
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
        let line = self.references.line(&mut world.engine, batch);
        time += world.engine.touch(line, thread, time);
        // Producers that wait are woken when they can send several batches.
        if queue.batches.len() == threads / 2 {
            time += world.engine.wake_all(queue.room, time);
        }
        Step::Run(time)
    }
}
