//! A queue for each producer and consumer (the paper's section 3.2.1): no locks, and no line that
//! more than two threads use.

use std::collections::VecDeque;

use super::{PUSHES_A_STEP, Push};
use crate::{
    engine::{Program, Step},
    memory::Readers,
    world::World,
};

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
    producers: Vec<(Option<Push>, usize)>,
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
            producers: vec![(None, 0); threads],
            read: vec![0; threads],
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
            self.producers[thread] = (Some(Push { batch, to: 0 }), made + 1);
            return Step::Run(time);
        };
        let mut time = 0.0;
        let end = threads.min(to + PUSHES_A_STEP);
        while to < end && self.lengths[thread * threads + to] < CAPACITY {
            self.lengths[thread * threads + to] += 1;
            self.arrived[to].push_back((thread, batch));
            time += world.engine.touch(self.lines[thread * threads + to], thread, time);
            time += world.engine.wake_one(self.data[to], time);
            to += 1;
        }
        self.producers[thread].0 = (to < threads).then_some(Push { batch, to });
        if time > 0.0 { Step::Run(time) } else { Step::Wait(self.room[thread]) }
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

impl Program<World> for Queues {
    fn step(&mut self, world: &mut World, thread: usize) -> Step {
        match world.consumer(thread) {
            None => self.produce(world, thread),
            Some(consumer) => self.consume(world, consumer),
        }
    }
}
