//! The paper's channels: a bounded queue for each consumer, under a mutex, with condition variables
//! for room and for data. A push and a pull each take the mutex, and wake one thread under it.

use std::collections::VecDeque;

use super::{References, Sides};
use crate::{engine::Step, memory::Readers, world::World};

/// Cycles to move one counted reference.
const MOVE_CYCLES: f64 = 8.0;

pub(super) struct Channels {
    channels: Vec<Channel>,
    producers: Vec<(Push, usize)>,
    consumers: Vec<(Pull, usize)>,
    references: References,
}

struct Channel {
    mutex: usize,
    not_full: usize,
    not_empty: usize,
    batches: VecDeque<usize>,
}

#[derive(Clone, Copy)]
enum Push {
    Produce,
    Lock { batch: usize, to: usize },
    Locked { batch: usize, to: usize },
    Unlock { batch: usize, to: usize },
}

#[derive(Clone, Copy)]
enum Pull {
    Lock,
    Locked,
    Read(usize),
}

impl Channels {
    pub(super) fn new(world: &mut World) -> Self {
        let threads = world.threads();
        let engine = &mut world.engine;
        let channels = (0..threads).map(|_| Channel {
            mutex: engine.new_lock(),
            not_full: engine.new_queue(),
            not_empty: engine.new_queue(),
            batches: VecDeque::new(),
        });
        Self {
            channels: channels.collect(),
            producers: vec![(Push::Produce, 0); threads],
            consumers: vec![(Pull::Lock, 0); threads],
            references: References::default(),
        }
    }
}

impl Sides for Channels {
    fn produce(&mut self, world: &mut World, thread: usize) -> Step {
        let threads = world.threads();
        let (state, made) = self.producers[thread];
        let (next, step) = match state {
            Push::Produce if made == world.rounds() => return Step::End,
            Push::Produce => {
                let (batch, time) = world.produce(thread, threads, false);
                self.producers[thread].1 += 1;
                (Push::Lock { batch, to: 0 }, Step::Run(time))
            }
            Push::Lock { batch, to } => (Push::Locked { batch, to }, Step::Lock(self.channels[to].mutex)),
            Push::Locked { batch, to } if self.channels[to].batches.len() == threads => {
                world.engine.unlock(self.channels[to].mutex);
                (Push::Lock { batch, to }, Step::Wait(self.channels[to].not_full))
            }
            Push::Locked { batch, to } => {
                self.channels[to].batches.push_back(batch);
                let line = self.references.line(&mut world.engine, batch);
                let time = world.engine.touch(line, thread, 0.0);
                let wake = world.engine.wake_one(self.channels[to].not_empty, time);
                (Push::Unlock { batch, to }, Step::Run(time + wake))
            }
            Push::Unlock { batch, to } => {
                let time = world.engine.unlock(self.channels[to].mutex);
                match self.channels.get(to + 1) {
                    None => (Push::Produce, Step::Run(time)),
                    Some(next) if time == 0.0 => (Push::Locked { batch, to: to + 1 }, Step::Lock(next.mutex)),
                    Some(_) => (Push::Lock { batch, to: to + 1 }, Step::Run(time)),
                }
            }
        };
        self.producers[thread].0 = next;
        step
    }

    fn consume(&mut self, world: &mut World, consumer: usize) -> Step {
        let threads = world.threads();
        let (state, read) = self.consumers[consumer];
        let channel = &mut self.channels[consumer];
        let (next, step) = match state {
            Pull::Lock if read == threads * world.rounds() => return Step::End,
            Pull::Lock => (Pull::Locked, Step::Lock(channel.mutex)),
            Pull::Locked => match channel.batches.pop_front() {
                None => {
                    world.engine.unlock(channel.mutex);
                    (Pull::Lock, Step::Wait(channel.not_empty))
                }
                Some(batch) => {
                    // The rest of the vector moves down, one reference after the other.
                    let time = world.memory.cycles(MOVE_CYCLES * channel.batches.len() as f64);
                    let wake = world.engine.wake_one(channel.not_full, time);
                    (Pull::Read(batch), Step::Run(time + wake))
                }
            },
            Pull::Read(batch) => {
                self.consumers[consumer].1 += 1;
                let mut time = world.engine.unlock(channel.mutex);
                time += world.visit(batch, consumer, Readers { in_flight: 2 * threads, together: false });
                let line = self.references.line(&mut world.engine, batch);
                (Pull::Lock, Step::Run(time + world.engine.touch(line, threads + consumer, time)))
            }
        };
        self.consumers[consumer].0 = next;
        step
    }
}
