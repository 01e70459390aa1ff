//! One run of one strategy: threads that produce and consume.

#[cfg(test)]
mod tests;

use std::{
    fs,
    ops::ControlFlow,
    sync::{Arc, Barrier},
    thread,
    time::Instant,
};

use annulus_exchange::{
    Delivery, ExchangeConfig, ExchangeError, ExchangeStats, StopError, Strategy, Unlimited, exchange,
    ring::Next,
    transport::{Receiver, Sender, Shape, Unread, rings_in_domains},
};
use annulus_rows::partition::Modulo;
use annulus_topology::{Placement, Seat, pin_current_thread};
use annulus_transports::transport;
use anyhow::{Context, Result, anyhow, ensure};

use super::{
    copying::{self, Columns},
    rows::{Batch, Tally, Template},
};
use crate::Stop;

/// The values that all runs of a cell share.
pub struct Cell<'a> {
    pub shape: Shape,
    /// The templates of each producer.
    pub templates: Vec<Vec<Template>>,
    /// The batches of each producer.
    pub batches: usize,
    pub rows: usize,
    pub modulo: Modulo,
    /// The CPUs that threads are pinned to.
    pub placement: Option<Placement>,
    pub stop: &'a Stop,
}

/// The measurements of a run.
pub struct Outcome {
    pub seconds: f64,
    /// The time until half of the consumers had seen a row.
    pub first_seconds: f64,
    pub tallies: Vec<Tally>,
    pub producers: ExchangeStats,
    pub consumers: ExchangeStats,
    /// The context switches of all threads. `None` if the system does not say.
    pub switches: Option<u64>,
}

/// The report of a thread.
struct Report {
    /// When all threads were there, and this one ran.
    start: Instant,
    end: Instant,
    stats: ExchangeStats,
    tally: Tally,
    first: Option<Instant>,
    switches: Option<u64>,
}

/// The work of a thread. It returns its counters, its tally and when it saw its first row.
type Work<'a> = Box<dyn FnOnce() -> Result<(ExchangeStats, Tally, Option<Instant>)> + Send + 'a>;

impl Cell<'_> {
    /// Returns the tallies that every run must have.
    pub fn expected(&self) -> Result<Vec<Tally>> {
        let mut expected = vec![Tally::default(); self.shape.consumers];
        for templates in &self.templates {
            for (number, template) in templates.iter().enumerate() {
                let times = (number..self.batches).step_by(templates.len()).count() as u64;
                let tallies = template.tallies(&self.modulo)?;
                expected.iter_mut().zip(tallies).for_each(|(sum, tally)| sum.merge(tally, times));
            }
        }
        Ok(expected)
    }

    /// Returns the bytes of the rows of all producers.
    pub fn bytes(&self) -> u64 {
        let of = |templates: &Vec<Template>| -> u64 {
            (0..self.batches).map(|number| templates[number % templates.len()].bytes.len() as u64).sum()
        };
        self.templates.iter().map(of).sum()
    }

    /// Runs `strategy` once.
    pub fn run(&self, strategy: Strategy) -> Result<Outcome> {
        if strategy == Strategy::Reserve {
            return self.run_copying();
        }
        let (senders, receivers) = match &self.placement {
            Some(placement) if strategy == Strategy::RingPerDomain && placement.rings() == self.shape.domains => {
                rings_in_domains::<Batch>(self.shape, &placement.producer_domains())?
            }
            _ => transport::<Batch>(strategy, self.shape)?,
        };
        let mut work: Vec<Work<'_>> = Vec::new();
        for (sender, templates) in senders.into_iter().zip(&self.templates) {
            work.push(Box::new(move || self.produce(sender, templates)));
        }
        for receiver in receivers {
            work.push(Box::new(move || consume(receiver)));
        }
        self.threads(work)
    }

    /// Runs the producers' threads alone: they make the batches and read all rows themselves.
    pub fn run_limit(&self) -> Result<f64> {
        let work = self.templates.iter().map(|templates| -> Work<'_> {
            Box::new(move || {
                let mut total = Tally::default();
                for number in 0..self.batches {
                    self.stop.check()?;
                    let batch = templates[number % templates.len()].batch(&self.modulo)?;
                    (0..self.shape.consumers).for_each(|consumer| total.merge(batch.tally(consumer), 1));
                }
                Ok((ExchangeStats::default(), total, None))
            })
        });
        Ok(self.threads(work.collect())?.seconds)
    }

    /// Sends the batches of a producer. It waits for slow consumers, as in the paper: each has a
    /// thread of its own, so it goes on reading, whatever the others wait for. Were its batches
    /// kept elsewhere, the memory in flight would grow with the input.
    fn produce(
        &self,
        mut sender: Box<dyn Sender<Batch>>,
        templates: &[Template],
    ) -> Result<(ExchangeStats, Tally, Option<Instant>)> {
        let mut relieve = |_: usize, _: usize, _: &mut dyn Unread<Batch>| Ok(());
        for number in 0..self.batches {
            if self.stop.is_cancelled() {
                sender.stop(cancelled());
                self.stop.check()?;
            }
            let batch = templates[number % templates.len()].batch(&self.modulo)?;
            sender.send_blocking(batch, &mut relieve)?;
        }
        Ok((sender.end(), Tally::default(), None))
    }

    /// Runs the strategy that copies rows.
    fn run_copying(&self) -> Result<Outcome> {
        let columns = |templates: &Vec<Template>| templates.iter().map(Columns::new).collect::<Result<Vec<_>>>();
        let inputs: Vec<_> = self.templates.iter().map(columns).collect::<Result<_>>()?;
        let config = ExchangeConfig::new(self.shape.producers, self.shape.consumers)
            .with_groups(self.shape.groups)
            .with_slots(self.shape.slots)
            .with_batch_rows(self.rows)
            .with_full_batches(true)
            .with_strategy(Strategy::Reserve);
        let (producers, consumers) = exchange(&config, Arc::clone(&inputs[0][0].schema), Arc::new(Unlimited))?;
        let mut work: Vec<Work<'_>> = Vec::new();
        for (mut producer, inputs) in producers.into_iter().zip(&inputs) {
            work.push(Box::new(move || {
                for number in 0..self.batches {
                    if let Err(stopped) = self.stop.check() {
                        producer.fail(cancelled());
                        return Err(stopped);
                    }
                    let input = &inputs[number % inputs.len()];
                    producer.send_blocking(input.batch()?, &input.hashes).map_err(ExchangeError::from)?;
                }
                Ok((producer.finish(), Tally::default(), None))
            }));
        }
        for mut consumer in consumers {
            work.push(Box::new(move || {
                let (mut tally, mut first, mut sums) = (Tally::default(), None, Vec::new());
                while let Some(delivery) = consumer.recv_blocking() {
                    first.get_or_insert_with(Instant::now);
                    match delivery? {
                        Delivery::Batch(batch) => tally.merge(copying::tally(&batch, &mut sums), 1),
                        Delivery::Spilled(_) => return Err(anyhow!("rows were spilled though memory has no limit")),
                    }
                }
                Ok((consumer.stats(), tally, first))
            }));
        }
        self.threads(work)
    }

    /// Runs producers, then consumers, each on a thread of its own. All start together.
    fn threads(&self, work: Vec<Work<'_>>) -> Result<Outcome> {
        let producers = self.shape.producers;
        let seats = self.placement.as_ref().map(|placement| [placement.producers(), placement.consumers()].concat());
        let barrier = Barrier::new(work.len());
        let reports: Vec<_> = thread::scope(|scope| {
            let threads: Vec<_> = work
                .into_iter()
                .enumerate()
                .map(|(number, work)| {
                    let (barrier, seat) = (&barrier, seats.as_ref().map(|seats| seats[number]));
                    scope.spawn(move || report(work, seat, barrier))
                })
                .collect();
            threads.into_iter().map(thread::ScopedJoinHandle::join).collect()
        });
        self.stop.check()?;
        let reports: Vec<Report> = reports
            .into_iter()
            .map(|report| report.map_err(|_| anyhow!("a thread panicked")).flatten())
            .collect::<Result<_>>()?;
        Outcome::new(&reports, producers)
    }
}

impl Outcome {
    /// Combines the reports of some producers and then of the consumers. The run lasted from the
    /// first thread's start to the last one's end.
    fn new(reports: &[Report], producers: usize) -> Result<Self> {
        // No thread works before its own start. A thread that only waits for the others may not get a
        // core until they have ended, so its clock would start too late.
        let start = reports.iter().map(|report| report.start).min().context("a run without threads")?;
        let since = |instant: Instant| instant.duration_since(start).as_secs_f64();
        let seconds = reports.iter().map(|report| since(report.end)).fold(0.0, f64::max);
        let (sent, received) = reports.split_at(producers);
        let sum = |reports: &[Report]| {
            reports.iter().fold(ExchangeStats::default(), |mut total, report| {
                total += report.stats;
                total
            })
        };
        let mut firsts: Vec<_> = received.iter().filter_map(|report| report.first.map(since)).collect();
        firsts.sort_by(f64::total_cmp);
        Ok(Self {
            seconds,
            first_seconds: firsts.get(firsts.len() / 2).copied().unwrap_or(seconds),
            tallies: received.iter().map(|report| report.tally).collect(),
            producers: sum(sent),
            consumers: sum(received),
            switches: reports.iter().map(|report| report.switches).sum(),
        })
    }

    /// Checks that each consumer got its rows.
    pub fn check(&self, expected: &[Tally]) -> Result<()> {
        for (consumer, (found, expected)) in self.tallies.iter().zip(expected).enumerate() {
            ensure!(
                found == expected,
                "consumer {consumer} got {} rows with another checksum than the input's {}",
                found.rows,
                expected.rows
            );
        }
        Ok(())
    }
}

/// Pins the thread, waits for all others, works, and reports.
fn report(work: Work<'_>, seat: Option<Seat>, barrier: &Barrier) -> Result<Report> {
    let pinned = seat.map(|seat| pin_current_thread([seat.cpu])).transpose();
    // Before any return: the others wait for this thread.
    barrier.wait();
    let start = Instant::now();
    let _pinned = pinned.context("cannot pin a thread to its CPU; --unpinned does without")?;
    let (stats, tally, first) = work()?;
    Ok(Report { start, end: Instant::now(), stats, tally, first, switches: switches() })
}

fn consume(mut receiver: Box<dyn Receiver<Batch>>) -> Result<(ExchangeStats, Tally, Option<Instant>)> {
    let (mut tally, mut first) = (Tally::default(), None);
    let consumer = receiver.index();
    loop {
        let next = receiver.next_blocking(&mut |batch| {
            first.get_or_insert_with(Instant::now);
            tally.merge(batch.tally(consumer), 1);
            ControlFlow::Continue(())
        })?;
        // No producer takes anything from a consumer. Only `batch` reports that, at its end.
        if next == Next::Finished {
            return Ok((receiver.stats(), tally, first));
        }
    }
}

fn cancelled() -> StopError {
    Box::<dyn std::error::Error + Send + Sync>::from("cancelled").into()
}

/// Returns the context switches of this thread, voluntary or not.
fn switches() -> Option<u64> {
    let status = fs::read_to_string("/proc/thread-self/status").ok()?;
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
    Some(field("voluntary_ctxt_switches:")? + field("nonvoluntary_ctxt_switches:")?)
}
