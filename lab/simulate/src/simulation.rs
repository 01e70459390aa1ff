//! One simulation.

use serde::Serialize;

use crate::{Error, FittedParameters, Machine, StrategyKind, Workload, machine::MAX_CORES, world::World};

/// Batches that cross the exchange, times consumers, in one simulation: enough for a steady state.
const VISITS: usize = 150_000;
/// Batches of each producer. At most two of them are in flight, so with eight, as many are produced
/// as consumed while the middle half is consumed.
const LEAST_ROUNDS: usize = 8;
const MOST_ROUNDS: usize = 64;

/// The results of a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// GB of rows that were consumed each second.
    pub gb_s: f64,
    /// Operations on shared lines by producers, for each batch.
    pub operations_a_batch: f64,
    /// Locks taken by producers, for each batch.
    pub locks_a_batch: f64,
    /// Threads woken, for each batch.
    pub wakes_a_batch: f64,
}

/// Simulates `strategy` on the first `threads` cores of `machine`, with a producer and a consumer
/// on each. The same arguments give the same result on every machine.
///
/// It takes time proportional to the number of batches times `threads`, which is about the same for
/// every `threads` up to 256.
///
/// # Errors
/// If a count is out of range.
///
/// ```
/// use annulus_simulate::{FittedParameters, Machine, RowSizes, StrategyKind, Workload, simulate};
///
/// let workload = Workload { rows: 8192, row_bytes: 8, sizes: RowSizes::Uniform };
/// let machine = Machine::grace();
/// let outcome = simulate(&machine, 8, StrategyKind::Ring, workload, &FittedParameters::STORED, 1)?;
/// assert!(outcome.gb_s > 0.0 && outcome.operations_a_batch == 2.0);
/// # Ok::<(), annulus_simulate::Error>(())
/// ```
pub fn simulate(
    machine: &Machine,
    threads: usize,
    strategy: StrategyKind,
    workload: Workload,
    fitted: &FittedParameters,
    seed: u64,
) -> Result<Outcome, Error> {
    let most = machine.cores.min(MAX_CORES);
    if threads == 0 || threads > most {
        return Err(Error::Range { what: "number of threads", value: threads, least: 1, most });
    }
    for (what, value, most) in
        [("rows of a batch", workload.rows, 1 << 20), ("bytes of a row", workload.row_bytes, 1 << 20)]
    {
        if value == 0 || value > most {
            return Err(Error::Range { what, value, least: 1, most });
        }
    }
    let rounds = match strategy {
        // Its producers hold batches back, so that it takes longer to reach a steady state.
        StrategyKind::Reserve => MOST_ROUNDS,
        _ => (VISITS / (threads * threads)).clamp(LEAST_ROUNDS, MOST_ROUNDS),
    };
    let world = run(machine, threads, strategy, workload, fitted, seed, rounds)?;
    let batches = (threads * rounds) as f64;
    // The phases of batch partitioning have no steady state: everything counts.
    let (part, time) = match strategy {
        StrategyKind::Batch => (1.0, world.engine.now()),
        _ => (0.5, world.middle_half()),
    };
    let counts = world.engine.counts();
    Ok(Outcome {
        gb_s: part * batches * workload.batch_bytes() / time,
        operations_a_batch: counts.producer_operations as f64 / batches,
        locks_a_batch: counts.producer_locks as f64 / batches,
        wakes_a_batch: counts.wakes as f64 / batches,
    })
}

/// Runs `rounds` batches of each producer, and checks that every consumer received its rows.
pub(crate) fn run(
    machine: &Machine,
    threads: usize,
    strategy: StrategyKind,
    workload: Workload,
    fitted: &FittedParameters,
    seed: u64,
    rounds: usize,
) -> Result<World, Error> {
    let mut world = World::new(machine, fitted, workload, threads, rounds, seed);
    strategy.run(&mut world)?;
    if !world.is_complete() {
        return Err(Error::Stuck { strategy: strategy.name() });
    }
    Ok(world)
}
