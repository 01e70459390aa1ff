//! Reserved ranges as in `annulus-exchange`: producers claim rows of each consumer's open chunk and
//! copy into them; whole chunks go into the consumer's queue
//! (crates/exchange/src/reserve/PROTOCOL.md).

use std::collections::VecDeque;

use super::Sides;
use crate::{engine::Step, parameters::COPY_CYCLES, world::World};

/// Groups of chunks, K, of one chunk for each producer.
const GROUPS: usize = 1;
/// Rows for each consumer below which a producer holds batches back, and how many it holds.
const LEAST_ROWS: usize = 256;
const HELD: usize = 8;
/// Claims that a producer does in one step.
const CLAIMS_A_STEP: usize = 8;

pub(super) struct Reserve {
    lanes: Vec<ConsumerQueue>,
    producers: Vec<Producer>,
    consumers: Vec<ConsumerStep>,
    /// Producers that wait until there are fewer chunks in queues.
    gate: usize,
    queued: usize,
    producing: usize,
    starving: usize,
}

struct ConsumerQueue {
    word_line: usize,
    completed_line: usize,
    mutex: usize,
    waiting: usize,
    claimed: usize,
    chunks: VecDeque<usize>,
    received: usize,
    starves: bool,
}

#[derive(Clone, Copy, Default)]
struct Producer {
    made: usize,
    held: usize,
    state: ProducerStep,
}

#[derive(Clone, Copy, Default)]
enum ProducerStep {
    #[default]
    Produce,
    Admit,
    Claim(usize),
    Whole(usize),
    Deliver(usize),
    Flush(usize),
    Flushed(usize),
}

#[derive(Clone, Copy)]
enum ConsumerStep {
    Lock,
    Locked,
    Read(usize),
}

impl Reserve {
    pub(super) fn new(world: &mut World) -> Self {
        let threads = world.threads();
        let engine = &mut world.engine;
        let lanes = (0..threads).map(|_| ConsumerQueue {
            word_line: engine.new_line(),
            completed_line: engine.new_line(),
            mutex: engine.new_lock(),
            waiting: engine.new_queue(),
            claimed: 0,
            chunks: VecDeque::new(),
            received: 0,
            starves: false,
        });
        Self {
            lanes: lanes.collect(),
            producers: vec![Producer::default(); threads],
            consumers: vec![ConsumerStep::Lock; threads],
            gate: engine.new_queue(),
            queued: 0,
            producing: threads,
            starving: 0,
        }
    }
}

impl Sides for Reserve {
    fn produce(&mut self, world: &mut World, thread: usize) -> Step {
        let threads = world.threads();
        let rows = world.memory.workload().rows;
        let held_back = if LEAST_ROWS * threads > rows { HELD } else { 1 };
        let Producer { made, held, state } = self.producers[thread];
        let (next, step) = match state {
            ProducerStep::Produce if made < world.rounds() && held < held_back => {
                let (batch, time) = world.produce(thread, 1, false);
                world.memory.free(batch);
                let producer = &mut self.producers[thread];
                (producer.made, producer.held) = (made + 1, held + 1);
                (ProducerStep::Produce, Step::Run(time))
            }
            ProducerStep::Produce if held > 0 => (ProducerStep::Admit, Step::Run(0.0)),
            ProducerStep::Produce => {
                self.producing -= 1;
                if self.producing > 0 {
                    return Step::End;
                }
                (ProducerStep::Flush(0), Step::Run(0.0))
            }
            ProducerStep::Admit if self.queued >= (GROUPS + 1) * threads && self.starving == 0 => {
                (ProducerStep::Admit, Step::Wait(self.gate))
            }
            ProducerStep::Admit => (ProducerStep::Claim(0), Step::Run(0.0)),
            ProducerStep::Claim(to) => return self.claim(world, thread, to),
            ProducerStep::Whole(to) => (ProducerStep::Deliver(to), Step::Lock(self.lanes[to].mutex)),
            ProducerStep::Deliver(to) => {
                let time = self.deliver(world, to, rows);
                (self.after(thread, to, threads), Step::Run(time))
            }
            // The last producer passes the open chunks on.
            ProducerStep::Flush(to) if to == threads => return Step::End,
            ProducerStep::Flush(to) => (ProducerStep::Flushed(to), Step::Lock(self.lanes[to].mutex)),
            ProducerStep::Flushed(to) => {
                let rest = std::mem::take(&mut self.lanes[to].claimed);
                (ProducerStep::Flush(to + 1), Step::Run(self.deliver(world, to, rest)))
            }
        };
        self.producers[thread].state = next;
        step
    }

    fn consume(&mut self, world: &mut World, consumer: usize) -> Step {
        let threads = world.threads();
        let all = world.rows_of(consumer) * threads * world.rounds();
        let lane = &mut self.lanes[consumer];
        let (next, step) = match self.consumers[consumer] {
            ConsumerStep::Lock if lane.received == all => return Step::End,
            ConsumerStep::Lock => (ConsumerStep::Locked, Step::Lock(lane.mutex)),
            ConsumerStep::Locked => match lane.chunks.pop_front() {
                Some(rows) => {
                    self.queued -= 1;
                    lane.received += rows;
                    let mut time = world.engine.unlock(lane.mutex);
                    if self.queued <= (GROUPS + 1) * threads / 2 {
                        time += world.engine.wake_each(self.gate, time);
                    }
                    (ConsumerStep::Read(rows), Step::Run(time))
                }
                None => {
                    world.engine.unlock(lane.mutex);
                    self.consumers[consumer] = ConsumerStep::Lock;
                    if !std::mem::replace(&mut lane.starves, true) {
                        self.starving += 1;
                    }
                    let time = world.engine.wake_each(self.gate, 0.0);
                    return if time > 0.0 { Step::Run(time) } else { Step::Wait(lane.waiting) };
                }
            },
            ConsumerStep::Read(rows) => {
                world.receive(consumer, rows);
                let domain = world.engine.domain(threads + consumer);
                (ConsumerStep::Lock, Step::Run(world.memory.read_contiguous(domain, rows)))
            }
        };
        self.consumers[consumer] = next;
        step
    }
}

impl Reserve {
    /// Claims ranges and copies into them, until a chunk is whole.
    fn claim(&mut self, world: &mut World, thread: usize, from: usize) -> Step {
        let threads = world.threads();
        let capacity = world.memory.workload().rows;
        let domain = world.engine.domain(thread);
        let mut time = 0.0;
        for to in from..threads.min(from + CLAIMS_A_STEP) {
            let rows = self.producers[thread].held * world.rows_of(to);
            let lane = &mut self.lanes[to];
            time += world.engine.touch(lane.word_line, thread, time);
            time += world.memory.cycles(rows as f64 * COPY_CYCLES) + world.memory.write_contiguous(domain, rows);
            time += world.engine.touch(lane.completed_line, thread, time);
            lane.claimed += rows;
            self.producers[thread].state = if lane.claimed >= capacity {
                lane.claimed -= capacity;
                ProducerStep::Whole(to)
            } else {
                self.after(thread, to, threads)
            };
            if let ProducerStep::Whole(_) = self.producers[thread].state {
                break;
            }
        }
        Step::Run(time)
    }

    /// Returns what a producer does after its claim of the lane `to`.
    fn after(&mut self, thread: usize, to: usize, threads: usize) -> ProducerStep {
        if to + 1 < threads {
            return ProducerStep::Claim(to + 1);
        }
        self.producers[thread].held = 0;
        ProducerStep::Produce
    }

    /// Puts a chunk into a consumer's queue, whose lock the thread has, and gives the lock back.
    fn deliver(&mut self, world: &mut World, to: usize, rows: usize) -> f64 {
        let lane = &mut self.lanes[to];
        if rows > 0 {
            lane.chunks.push_back(rows);
            self.queued += 1;
        }
        if std::mem::take(&mut lane.starves) {
            self.starving -= 1;
        }
        let time = world.engine.unlock(lane.mutex);
        time + world.engine.wake_one(lane.waiting, time)
    }
}
