//! The paper's ring (section 3.3, and its artifact): producers fill a group; the one that completes
//! it publishes it under a mutex, and replaces the group of every producer.

use super::Sides;
use crate::{engine::Step, memory::Readers, world::World};

/// Published groups, K.
const GROUPS: usize = 1;

pub(super) struct PaperRing {
    mutex: usize,
    /// Producers that wait for a free place in the ring, and for a new group.
    not_full: usize,
    new_group: usize,
    /// Consumers that wait for a published group.
    not_empty: usize,
    started_line: usize,
    completed_line: usize,
    readers_line: usize,
    containers: Vec<usize>,
    claimed: usize,
    filling: Vec<usize>,
    groups: Vec<Group>,
    occupied: usize,
    producers: Vec<(ProducerStep, usize)>,
    consumers: Vec<Reader>,
}

struct Group {
    batches: Vec<usize>,
    readers: usize,
}

#[derive(Clone, Copy)]
enum ProducerStep {
    Produce,
    Claim(usize),
    Complete(usize),
    Lock,
    Publish,
}

#[derive(Clone, Copy)]
struct Reader {
    group: usize,
    read: usize,
    state: ReaderStep,
}

#[derive(Clone, Copy)]
enum ReaderStep {
    Read,
    Look,
    Free,
}

impl PaperRing {
    pub(super) fn new(world: &mut World) -> Self {
        let threads = world.threads();
        let engine = &mut world.engine;
        Self {
            mutex: engine.new_lock(),
            not_full: engine.new_queue(),
            new_group: engine.new_queue(),
            not_empty: engine.new_queue(),
            started_line: engine.new_line(),
            completed_line: engine.new_line(),
            readers_line: engine.new_line(),
            containers: (0..threads).map(|_| engine.new_line()).collect(),
            claimed: 0,
            filling: Vec::new(),
            groups: Vec::new(),
            occupied: 0,
            producers: vec![(ProducerStep::Produce, 0); threads],
            consumers: vec![Reader { group: 0, read: 0, state: ReaderStep::Read }; threads],
        }
    }
}

impl Sides for PaperRing {
    fn produce(&mut self, world: &mut World, thread: usize) -> Step {
        let threads = world.threads();
        let (state, made) = self.producers[thread];
        let (next, step) = match state {
            ProducerStep::Produce if made == world.rounds() => return Step::End,
            ProducerStep::Produce => {
                let (batch, time) = world.produce(thread, threads, false);
                self.producers[thread].1 += 1;
                (ProducerStep::Claim(batch), Step::Run(time))
            }
            ProducerStep::Claim(_) if self.claimed == threads => (state, Step::Wait(self.new_group)),
            ProducerStep::Claim(batch) => {
                self.claimed += 1;
                let own = world.engine.touch(self.containers[thread], thread, 0.0);
                let time = own + world.engine.touch(self.started_line, thread, own);
                (ProducerStep::Complete(batch), Step::Run(time))
            }
            ProducerStep::Complete(batch) => {
                self.filling.push(batch);
                let time = world.engine.touch(self.completed_line, thread, 0.0);
                let last = self.filling.len() == threads;
                (if last { ProducerStep::Lock } else { ProducerStep::Produce }, Step::Run(time))
            }
            ProducerStep::Lock => (ProducerStep::Publish, Step::Lock(self.mutex)),
            ProducerStep::Publish if self.occupied == GROUPS => {
                world.engine.unlock(self.mutex);
                (ProducerStep::Lock, Step::Wait(self.not_full))
            }
            ProducerStep::Publish => (ProducerStep::Produce, Step::Run(self.publish(world, thread))),
        };
        self.producers[thread].0 = next;
        step
    }

    fn consume(&mut self, world: &mut World, consumer: usize) -> Step {
        let Reader { group, read, state } = self.consumers[consumer];
        match state {
            ReaderStep::Read if group == world.rounds() => Step::End,
            ReaderStep::Read if group < self.groups.len() => self.read(world, consumer),
            ReaderStep::Read => {
                self.consumers[consumer].state = ReaderStep::Look;
                Step::Lock(self.mutex)
            }
            ReaderStep::Look => {
                let time = world.engine.unlock(self.mutex);
                self.consumers[consumer].state = ReaderStep::Read;
                if group < self.groups.len() { Step::Run(time) } else { Step::Wait(self.not_empty) }
            }
            ReaderStep::Free => {
                debug_assert_eq!(read, 0);
                self.occupied -= 1;
                let time = world.engine.wake_one(self.not_full, 0.0);
                self.consumers[consumer].state = ReaderStep::Read;
                Step::Run(time + world.engine.unlock(self.mutex))
            }
        }
    }
}

impl PaperRing {
    fn publish(&mut self, world: &mut World, thread: usize) -> f64 {
        let batches = std::mem::take(&mut self.filling);
        self.groups.push(Group { batches, readers: world.threads() });
        self.occupied += 1;
        self.claimed = 0;
        let mut time = world.engine.unlock(self.mutex);
        for &container in &self.containers {
            time += world.engine.touch(container, thread, time);
        }
        time += world.engine.wake_all(self.new_group, time);
        time + world.engine.wake_all(self.not_empty, time)
    }

    fn read(&mut self, world: &mut World, consumer: usize) -> Step {
        let Reader { group, read, .. } = self.consumers[consumer];
        let slots = world.threads();
        if read == slots {
            let thread = slots + consumer;
            let time = world.engine.touch(self.readers_line, thread, 0.0);
            self.groups[group].readers -= 1;
            let last = self.groups[group].readers == 0;
            let state = if last { ReaderStep::Free } else { ReaderStep::Read };
            self.consumers[consumer] = Reader { group: group + 1, read: 0, state };
            return if last { Step::Lock(self.mutex) } else { Step::Run(time) };
        }
        let end = slots.min(read + World::batches_a_step(slots));
        let mut time = 0.0;
        for &batch in &self.groups[group].batches[read..end] {
            time += world.visit(batch, consumer, Readers { in_flight: (GROUPS + 1) * slots, together: true });
        }
        self.consumers[consumer].read = end;
        Step::Run(time)
    }
}
