//! Rings as in `annulus-exchange`: tickets, slots that are published one by one, wake-ups once a
//! group, threads that wake one another (crates/exchange/src/ring/PROTOCOL.md).

use super::Sides;
use crate::{engine::Step, memory::Readers, world::World};

/// Groups of a ring. As many batches are in flight as in the paper's ring with K = 1, which has one
/// group published and one that fills.
const GROUPS: usize = 2;

/// One ring, or one for each cache domain.
pub(super) struct Rings {
    rings: Vec<Ring>,
    producers: Vec<Producer>,
    /// The next ticket of each consumer in each ring.
    cursors: Vec<Vec<usize>>,
    /// Consumers that wait for a group.
    data: usize,
    relays: Relays,
}

/// The threads that each thread wakes once it runs.
struct Relays(Vec<Vec<usize>>);

impl Relays {
    /// The threads that a thread wakes itself.
    const CALLS: usize = 2;

    /// Wakes all threads of a queue, some by way of others. Returns the time that this takes the
    /// calling thread.
    fn wake_all(&mut self, world: &mut World, queue: usize, after: f64) -> f64 {
        let threads = world.engine.take_all(queue);
        self.wake(world, threads, after)
    }

    fn wake(&mut self, world: &mut World, mut threads: Vec<usize>, after: f64) -> f64 {
        let mut time = 0.0;
        for takers in (1..=Self::CALLS).rev() {
            let Some(thread) = threads.pop() else { break };
            self.0[thread] = threads.split_off(threads.len() - threads.len() / takers);
            time += world.engine.wake_thread(thread, after + time);
        }
        time
    }

    /// Wakes those that `thread` was given. Returns the time that this takes it, if there are any.
    fn pass_on(&mut self, world: &mut World, thread: usize) -> Option<f64> {
        let threads = std::mem::take(&mut self.0[thread]);
        (!threads.is_empty()).then(|| self.wake(world, threads, 0.0))
    }
}

struct Ring {
    slots: usize,
    total: usize,
    tail: usize,
    /// The lines of `tail` and of the slots' sequence numbers.
    tail_line: usize,
    slot_lines: Vec<usize>,
    /// The batches by ticket, once they are published.
    published: Vec<Option<usize>>,
    published_in: Vec<usize>,
    passed: Vec<usize>,
    released: usize,
    /// Producers that wait for room.
    room: usize,
}

#[derive(Clone, Copy)]
struct Producer {
    ring: usize,
    made: usize,
    state: State,
}

#[derive(Clone, Copy)]
enum State {
    Produce,
    Claim(usize),
    Publish { batch: usize, ticket: usize },
}

impl Rings {
    pub(super) fn new(world: &mut World, rings: usize) -> Self {
        let threads = world.threads();
        let ring_of = |world: &World, thread| if rings == 1 { 0 } else { world.engine.domain(thread) };
        let homes: Vec<_> = (0..threads).map(|thread| ring_of(world, thread)).collect();
        let slots = |ring| homes.iter().filter(|home| **home == ring).count();
        Self {
            rings: (0..rings).map(|ring| Ring::new(world, slots(ring))).collect(),
            producers: homes.iter().map(|&ring| Producer { ring, made: 0, state: State::Produce }).collect(),
            cursors: vec![vec![0; rings]; threads],
            data: world.engine.new_queue(),
            relays: Relays(vec![Vec::new(); 2 * threads]),
        }
    }
}

/// What publishing a batch took, and whether it completed its group.
struct PublishOutcome {
    time: f64,
    full: bool,
}

impl Ring {
    fn new(world: &mut World, slots: usize) -> Self {
        let total = slots * world.rounds();
        Self {
            slots,
            total,
            tail: 0,
            tail_line: world.engine.new_line(),
            slot_lines: (0..GROUPS * slots).map(|_| world.engine.new_line()).collect(),
            published: vec![None; total],
            published_in: vec![0; world.rounds()],
            passed: vec![0; world.rounds()],
            released: 0,
            room: world.engine.new_queue(),
        }
    }

    fn publish(&mut self, world: &mut World, thread: usize, batch: usize, ticket: usize) -> PublishOutcome {
        self.published[ticket] = Some(batch);
        let time = world.engine.touch(self.slot_lines[ticket % self.slot_lines.len()], thread, 0.0);
        let group = ticket / self.slots;
        self.published_in[group] += 1;
        PublishOutcome { time, full: self.published_in[group] == self.slots }
    }

    /// Lets a consumer read published batches of one group.
    fn read(&mut self, world: &mut World, consumer: usize, cursor: &mut usize, relays: &mut Relays) -> f64 {
        let group = *cursor / self.slots;
        let end = ((group + 1) * self.slots).min(*cursor + World::batches_a_step(self.slots));
        let readers = Readers { in_flight: GROUPS * world.threads(), together: true };
        let mut time = 0.0;
        while let Some(batch) = self.published[*cursor..end].first().copied().flatten() {
            time += world.visit(batch, consumer, readers);
            *cursor += 1;
        }
        if *cursor == (group + 1) * self.slots {
            self.passed[group] += 1;
            if self.passed[group] == world.threads() {
                time += self.release(world, consumer, group, time, relays);
            }
        }
        time
    }

    /// Lets the last consumer of a group look at all cursors, and make room.
    fn release(&mut self, world: &mut World, consumer: usize, group: usize, after: f64, relays: &mut Relays) -> f64 {
        let thread = world.threads() + consumer;
        let domain = world.engine.domain(thread);
        let survey = world.memory.survey(domain, world.threads());
        self.released = (group + 1) * self.slots;
        survey + relays.wake_all(world, self.room, after + survey)
    }
}

impl Sides for Rings {
    fn pass_on(&mut self, world: &mut World, thread: usize) -> Option<f64> {
        self.relays.pass_on(world, thread)
    }

    fn produce(&mut self, world: &mut World, thread: usize) -> Step {
        let Producer { ring: number, made, state } = self.producers[thread];
        let ring = &mut self.rings[number];
        let (next, step) = match state {
            State::Produce if made == world.rounds() => return Step::End,
            State::Produce => {
                let (batch, time) = world.produce(thread, world.threads(), false);
                self.producers[thread].made += 1;
                (State::Claim(batch), Step::Run(time))
            }
            State::Claim(_) if ring.tail - ring.released >= GROUPS * ring.slots => {
                // It has published since the last wake-up: consumers must not sleep on that.
                let time = self.relays.wake_all(world, self.data, 0.0);
                if time > 0.0 { (state, Step::Run(time)) } else { (state, Step::Wait(ring.room)) }
            }
            State::Claim(batch) => {
                let ticket = ring.tail;
                ring.tail += 1;
                (State::Publish { batch, ticket }, Step::Run(world.engine.touch(ring.tail_line, thread, 0.0)))
            }
            State::Publish { batch, ticket } => {
                let published = ring.publish(world, thread, batch, ticket);
                let woken = published.full.then(|| self.relays.wake_all(world, self.data, published.time));
                (State::Produce, Step::Run(published.time + woken.unwrap_or(0.0)))
            }
        };
        self.producers[thread].state = next;
        step
    }

    fn consume(&mut self, world: &mut World, consumer: usize) -> Step {
        let count = self.rings.len();
        // Consumers begin at different rings, so that they do not all wait for the same one.
        let ready = (0..count).map(|step| (consumer + step) % count).find(|&ring| {
            let ring_state = &self.rings[ring];
            ring_state.published.get(self.cursors[consumer][ring]).is_some_and(Option::is_some)
        });
        let Some(ring) = ready else {
            let ended = self.rings.iter().zip(&self.cursors[consumer]).all(|(ring, cursor)| *cursor == ring.total);
            return if ended { Step::End } else { Step::Wait(self.data) };
        };
        let cursor = &mut self.cursors[consumer][ring];
        Step::Run(self.rings[ring].read(world, consumer, cursor, &mut self.relays))
    }
}
