//! A queue for each producer and consumer (the paper's section 3.2.1): no locks, and no line that
//! more than two threads use.

use std::collections::VecDeque;

use super::{
    Sides,
    pushes::{Push, Pushes},
};
use crate::{engine::Step, memory::Readers, world::World};

/// Batches that a queue holds.
const CAPACITY: usize = 2;

pub(super) struct Queues {
    /// The line of the queue from producer p to consumer c is at `p * threads + c`.
    lines: Vec<usize>,
    lengths: Vec<usize>,
    /// Batches that have arrived at a consumer, with their producers.
    arrived: Vec<VecDeque<(usize, usize)>>,
    /// Consumers that wait for data, and producers that wait for room, by thread.
    data: Vec<usize>,
    room: Vec<usize>,
    producers: Pushes,
    read: Vec<usize>,
}

impl Queues {
    pub(super) fn new(world: &mut World) -> Self {
        let threads = world.threads();
        let engine = &mut world.engine;
        Self {
            lines: (0..threads * threads).map(|_| engine.new_line()).collect(),
            lengths: vec![0; threads * threads],
            arrived: vec![VecDeque::new(); threads],
            data: (0..threads).map(|_| engine.new_queue()).collect(),
            room: (0..threads).map(|_| engine.new_queue()).collect(),
            producers: Pushes::new(threads),
            read: vec![0; threads],
        }
    }
}

impl Sides for Queues {
    fn produce(&mut self, world: &mut World, thread: usize) -> Step {
        let Self { lines, lengths, arrived, data, room, producers, .. } = self;
        producers.step(world, thread, |world, Push { batch, to }, after| {
            let queue = thread * world.threads() + to;
            if lengths[queue] == CAPACITY {
                return Err(room[thread]);
            }
            lengths[queue] += 1;
            arrived[to].push_back((thread, batch));
            let time = world.engine.touch(lines[queue], thread, after);
            Ok(time + world.engine.wake_one(data[to], after + time))
        })
    }

    fn consume(&mut self, world: &mut World, consumer: usize) -> Step {
        let threads = world.threads();
        if self.read[consumer] == threads * world.rounds() {
            return Step::End;
        }
        let Some((producer, batch)) = self.arrived[consumer].pop_front() else {
            return Step::Wait(self.data[consumer]);
        };
        self.read[consumer] += 1;
        let queue = producer * threads + consumer;
        let thread = threads + consumer;
        let mut time = world.engine.touch(self.lines[queue], thread, 0.0);
        time += world.visit(batch, consumer, Readers { in_flight: (CAPACITY + 1) * threads, together: false });
        if self.arrived[consumer].is_empty() {
            // It looks at all queues before it waits: a line that has not changed is its own.
            time += threads as f64 * crate::parameters::OWN_NS;
        }
        self.lengths[queue] -= 1;
        if self.lengths[queue] + 1 == CAPACITY {
            time += world.engine.wake_one(self.room[producer], time);
        }
        Step::Run(time)
    }
}
