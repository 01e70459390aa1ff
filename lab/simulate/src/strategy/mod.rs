//! The strategies: state machines of producers and consumers, each in a file of its own.

mod batch;
mod channel;
mod lock_free;
mod paper_ring;
mod pushes;
mod reserve;
mod ring;
mod spsc;
#[cfg(test)]
mod tests;

use std::{fmt, str::FromStr};

use serde::Serialize;

use crate::{
    Error,
    engine::{self, Engine, Program, Step},
    world::World,
};

/// The two sides of a strategy.
trait Sides {
    /// Lets a thread wake another one before it goes on, and returns the time of that.
    fn pass_on(&mut self, _: &mut World, _thread: usize) -> Option<f64> {
        None
    }

    /// Continues the producer of a thread.
    fn produce(&mut self, world: &mut World, thread: usize) -> Step;

    /// Continues a consumer.
    fn consume(&mut self, world: &mut World, consumer: usize) -> Step;
}

impl<S: Sides> Program<World> for S {
    fn step(&mut self, world: &mut World, thread: usize) -> Step {
        if let Some(time) = self.pass_on(world, thread) {
            return Step::Run(time);
        }
        match world.consumer(thread) {
            None => self.produce(world, thread),
            Some(consumer) => self.consume(world, consumer),
        }
    }
}

/// The lines of the reference counts of batches, by the batch's number.
#[derive(Default)]
struct References(Vec<usize>);

impl References {
    fn line(&mut self, engine: &mut Engine, batch: usize) -> usize {
        while self.0.len() <= batch {
            self.0.push(engine.new_line());
        }
        self.0[batch]
    }
}

/// A strategy of an exchange between threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum StrategyKind {
    /// One ring of slots with tickets, as in `annulus-exchange`.
    Ring,
    /// The paper's ring: groups that fill, then are published under a mutex.
    PaperRing,
    /// The paper's channel: a bounded queue for each consumer, with a mutex and condition
    /// variables.
    MutexChannel,
    /// A bounded queue without locks for each consumer.
    Channel,
    /// A queue for each producer and consumer, without locks.
    Spsc,
    /// All batches are produced, then all are consumed.
    Batch,
    /// Producers copy rows into reserved ranges of each consumer's open chunk, as in
    /// `annulus-exchange`.
    Reserve,
    /// One ring for each cache domain. Producers publish in their domain's ring, consumers read
    /// all.
    RingPerDomain,
}

impl StrategyKind {
    /// All strategies.
    pub const ALL: [Self; 8] = [
        Self::Ring,
        Self::PaperRing,
        Self::MutexChannel,
        Self::Channel,
        Self::Spsc,
        Self::Batch,
        Self::Reserve,
        Self::RingPerDomain,
    ];

    /// Returns the name that people write.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ring => "ring",
            Self::PaperRing => "paper-ring",
            Self::MutexChannel => "mutex-channel",
            Self::Channel => "channel",
            Self::Spsc => "spsc",
            Self::Batch => "batch",
            Self::Reserve => "reserve",
            Self::RingPerDomain => "ring-per-domain",
        }
    }

    /// Runs the strategy to its end.
    pub(crate) fn run(self, world: &mut World) -> Result<(), Error> {
        let name = self.name();
        match self {
            Self::Ring => engine::run(ring::Rings::new(world, 1), world, name),
            Self::RingPerDomain => engine::run(ring::Rings::new(world, world.domains()), world, name),
            Self::PaperRing => engine::run(paper_ring::PaperRing::new(world), world, name),
            Self::MutexChannel => engine::run(channel::Channels::new(world), world, name),
            Self::Channel => engine::run(lock_free::Queues::new(world), world, name),
            Self::Spsc => engine::run(spsc::Queues::new(world), world, name),
            Self::Batch => engine::run(batch::Phases::new(world), world, name),
            Self::Reserve => engine::run(reserve::Reserve::new(world), world, name),
        }
    }
}

impl fmt::Display for StrategyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for StrategyKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|kind| kind.name() == text).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|kind| kind.name()).collect();
            format!("invalid strategy '{text}': expected one of {}", names.join(", "))
        })
    }
}
