//! The fit, and its error on both halves of the published cells.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use crate::{BOUNDS, Error, FITTED, Fitted, PublishedRow, StrategyKind, Workload, simulate};

/// The rows of a batch in the paper's benchmark.
pub const PAPER_ROWS: usize = 8192;
/// The first step of the fit, as a factor of each parameter.
const FIRST_FACTOR: f64 = 1.5;
/// The fit ends when the factor is below this.
const LAST_FACTOR: f64 = 1.03;

/// A published cell and its simulation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    /// The index of its row in the published rows.
    pub row: usize,
    /// The strategy.
    pub strategy: StrategyKind,
    /// GB/s as published.
    pub published: f64,
    /// GB/s as simulated.
    pub simulated: f64,
}

impl Cell {
    /// Returns the relative error of the simulation.
    pub fn error(&self) -> f64 {
        (self.simulated / self.published - 1.0).abs()
    }
}

/// Simulates all published cells of `rows` for which `choose` is true, on all cores. `done` is
/// called after each cell, by any thread, and says whether to go on.
///
/// # Errors
/// If a simulation fails.
pub fn cells(
    rows: &[PublishedRow],
    choose: impl Fn(&PublishedRow) -> bool,
    fitted: &Fitted,
    seed: u64,
    done: &(dyn Fn() -> bool + Sync),
) -> Result<Vec<Cell>, Error> {
    let mut wanted = Vec::new();
    for (row, published) in rows.iter().enumerate().filter(|(_, row)| choose(row)) {
        wanted.extend(published.gb_s.iter().map(|&(strategy, gb_s)| (row, strategy, gb_s)));
    }
    in_parallel(&wanted, done, |&(row, strategy, published)| {
        let PublishedRow { machine, threads, row_bytes, sizes, .. } = &rows[row];
        let workload = Workload { rows: PAPER_ROWS, row_bytes: *row_bytes, sizes: *sizes };
        let outcome = simulate(machine, *threads, strategy, workload, fitted, seed)?;
        Ok(Cell { row, strategy, published, simulated: outcome.gb_s })
    })
}

/// Applies `work` to all items, on all cores. The results are in the order of the items; if `done`
/// returns false, the rest is left out.
///
/// # Errors
/// The first error of `work`.
pub fn in_parallel<T: Sync, R: Send>(
    items: &[T],
    done: &(dyn Fn() -> bool + Sync),
    work: impl Fn(&T) -> Result<R, Error> + Sync,
) -> Result<Vec<R>, Error> {
    let next = AtomicUsize::new(0);
    let worker = || {
        let mut results = Vec::new();
        while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
            // The order is that of `next`, so an item's index is known by its address.
            let index = (std::ptr::from_ref(item).addr() - items.as_ptr().addr()) / size_of::<T>().max(1);
            results.push((index, work(item)));
            if !done() {
                next.store(items.len(), Ordering::Relaxed);
            }
        }
        results
    };
    let threads = thread::available_parallelism().map_or(1, usize::from).min(items.len().max(1));
    let mut results: Vec<_> = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap_or_default()).collect()
    });
    results.sort_by_key(|result| result.0);
    results.into_iter().map(|result| result.1).collect()
}

/// Returns what the fit minimises: the mean square of the logarithm of simulated over published
/// throughput.
fn loss(cells: &[Cell]) -> f64 {
    let squares = cells.iter().map(|cell| (cell.simulated / cell.published).ln().powi(2));
    squares.sum::<f64>() / cells.len().max(1) as f64
}

/// Fits the parameters to the fitted half of `rows`: a search along each parameter in turn, by a
/// factor that shrinks when no step helps. It looks at no held-out cell. `step` is called after
/// each trial with the trials so far and the least loss, and says whether to go on.
///
/// It takes a few hundred trials of a second or two each.
///
/// # Errors
/// If a simulation fails.
pub fn fit(
    rows: &[PublishedRow],
    start: &Fitted,
    seed: u64,
    mut step: impl FnMut(usize, f64) -> bool,
) -> Result<Fitted, Error> {
    let try_out = |values: [f64; FITTED]| {
        let fitted = Fitted::from_values(values);
        Ok::<_, Error>(loss(&cells(rows, |row| row.fitted, &fitted, seed, &|| true)?))
    };
    let mut best = start.values();
    let mut least = try_out(best)?;
    let (mut factor, mut trials) = (FIRST_FACTOR, 1);
    while factor >= LAST_FACTOR {
        let before = least;
        for (index, bounds) in BOUNDS.iter().enumerate() {
            for towards in [factor, 1.0 / factor] {
                let mut values = best;
                values[index] = (values[index] * towards).clamp(bounds.least, bounds.most);
                if values[index] == best[index] {
                    continue;
                }
                let found = try_out(values)?;
                trials += 1;
                let better = found < least;
                if better {
                    (best, least) = (values, found);
                }
                if !step(trials, least) {
                    return Ok(Fitted::from_values(best));
                }
                if better {
                    break;
                }
            }
        }
        if least > 0.995 * before {
            factor = factor.sqrt();
        }
    }
    Ok(Fitted::from_values(best))
}
