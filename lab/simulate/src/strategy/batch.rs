//! Batch partitioning: everything is produced into fresh memory, then everything is consumed, then
//! one thread gives the memory back, as in the paper's artifact.

use super::Sides;
use crate::{engine::Step, memory::Readers, world::World};

pub(super) struct Phases {
    batches: Vec<usize>,
    made: Vec<usize>,
    producing: usize,
    consuming: usize,
    read: Vec<usize>,
    barrier: usize,
    released: bool,
}

impl Phases {
    pub(super) fn new(world: &mut World) -> Self {
        let threads = world.threads();
        Self {
            batches: Vec::new(),
            made: vec![0; threads],
            producing: threads,
            consuming: threads,
            read: vec![0; threads],
            barrier: world.engine.new_queue(),
            released: false,
        }
    }
}

impl Sides for Phases {
    fn produce(&mut self, world: &mut World, thread: usize) -> Step {
        let rounds = world.rounds();
        if self.made[thread] < rounds {
            self.made[thread] += 1;
            let (batch, time) = world.produce(thread, world.threads(), true);
            self.batches.push(batch);
            return Step::Run(time);
        }
        if self.made[thread] > rounds {
            return Step::End;
        }
        self.made[thread] += 1;
        self.producing -= 1;
        let time = if self.producing == 0 { world.engine.wake_all(self.barrier, 0.0) } else { 0.0 };
        Step::Run(time)
    }

    fn consume(&mut self, world: &mut World, consumer: usize) -> Step {
        if self.producing > 0 {
            return Step::Wait(self.barrier);
        }
        let read = self.read[consumer];
        let all = self.batches.len();
        if read < all {
            let end = all.min(read + World::batches_a_step(world.threads()));
            self.read[consumer] = end;
            let readers = Readers { in_flight: all, together: false };
            return Step::Run(self.batches[read..end].iter().map(|&batch| world.visit(batch, consumer, readers)).sum());
        }
        if read == all {
            self.read[consumer] += 1;
            self.consuming -= 1;
            if self.consuming == 0 && !self.released {
                self.released = true;
                return Step::Run(world.memory.release(all));
            }
        }
        Step::End
    }
}
