//! Producers that push each batch to one consumer after the other, without locks.

use crate::{engine::Step, world::World};

/// Pushes that a producer does in one step.
const PUSHES_A_STEP: usize = 8;

/// The next push of a producer: a batch, to a consumer.
#[derive(Clone, Copy)]
pub(super) struct Push {
    pub(super) batch: usize,
    pub(super) to: usize,
}

/// The next push of each producer, and the number of batches that it has made.
pub(super) struct Pushes(Vec<(Option<Push>, usize)>);

impl Pushes {
    pub(super) fn new(threads: usize) -> Self {
        Self(vec![(None, 0); threads])
    }

    /// Makes the next batch of a producer, or pushes the last one to some consumers. `push` returns the
    /// time of a push that begins some time after the present, or the queue in which to wait for room.
    pub(super) fn step(
        &mut self,
        world: &mut World,
        thread: usize,
        mut push: impl FnMut(&mut World, Push, f64) -> Result<f64, usize>,
    ) -> Step {
        let threads = world.threads();
        let (next, made) = self.0[thread];
        let Some(Push { batch, mut to }) = next else {
            if made == world.rounds() {
                return Step::End;
            }
            let (batch, time) = world.produce(thread, threads, false);
            self.0[thread] = (Some(Push { batch, to: 0 }), made + 1);
            return Step::Run(time);
        };
        let (mut time, first) = (0.0, to);
        while to < threads.min(first + PUSHES_A_STEP) {
            match push(world, Push { batch, to }, time) {
                Ok(taken) => time += taken,
                Err(room) if to == first => return Step::Wait(room),
                Err(_) => break,
            }
            to += 1;
        }
        self.0[thread].0 = (to < threads).then_some(Push { batch, to });
        Step::Run(time)
    }
}
