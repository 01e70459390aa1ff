//! The fit, and its error on both halves of the published cells.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use crate::{BOUNDS, Error, FITTED, Fitted, PublishedRow, StrategyKind, Workload, simulate};

/// The rows of a batch in the paper's benchmark.
pub const PAPER_ROWS: usize = 8192;
/// The weight of who wins, against the throughput of one cell.
const WINNER_WEIGHT: f64 = 2.0;
/// The change of a logarithm that shows a slope.
const PROBE: f64 = 0.1;
/// The longest step of a logarithm.
const LONGEST_STEP: f64 = 0.7;
const FIRST_DAMPING: f64 = 0.02;
const LAST_DAMPING: f64 = 100.0;
const DAMPING_FACTOR: f64 = 4.0;
/// The fit ends after a round that leaves more than this part of the loss.
const LEAST_GAIN: f64 = 0.99;
/// The largest number of rounds.
const ROUNDS: usize = 12;

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
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(index) else { return results };
            results.push((index, work(item)));
            if !done() {
                next.store(items.len(), Ordering::Relaxed);
            }
        }
    };
    let threads = thread::available_parallelism().map_or(1, usize::from).min(items.len().max(1));
    let mut results: Vec<_> = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap_or_default()).collect()
    });
    results.sort_by_key(|result| result.0);
    results.into_iter().map(|result| result.1).collect()
}

/// Where a fit is.
#[derive(Clone, Copy, Debug)]
pub struct Trial {
    /// The trials so far.
    pub trials: usize,
    /// The least mean square of the residuals.
    pub loss: f64,
    /// The parameters that have it.
    pub best: Fitted,
}

/// Fits the parameters to the fitted half of `rows`, by the method of Levenberg and Marquardt on
/// the logarithms of the parameters and of the throughput. It looks at no held-out cell. `step` is
/// called after each trial, and says whether to go on.
///
/// It takes a hundred trials or so, of a second or two each.
///
/// # Errors
/// If a simulation fails.
pub fn fit(
    rows: &[PublishedRow],
    start: &Fitted,
    seed: u64,
    mut step: impl FnMut(&Trial) -> bool,
) -> Result<Fitted, Error> {
    let mut trial = Trial { trials: 0, loss: f64::INFINITY, best: *start };
    // Returns the residuals, or none if the fit should stop.
    let mut try_out = |point: &Point, trial: &mut Trial| {
        let fitted = point.fitted();
        let residuals = residuals(&cells(rows, |row| row.fitted, &fitted, seed, &|| true)?);
        trial.trials += 1;
        if mean_square(&residuals) < trial.loss {
            (trial.loss, trial.best) = (mean_square(&residuals), fitted);
        }
        Ok::<_, Error>(step(trial).then_some(residuals))
    };
    let mut point = Point::of(start);
    let Some(mut at) = try_out(&point, &mut trial)? else { return Ok(trial.best) };
    let mut damping = FIRST_DAMPING;
    for _ in 0..ROUNDS {
        let mut slopes = Vec::new();
        for index in 0..FITTED {
            let near = point.moved(index);
            let Some(other) = try_out(&near, &mut trial)? else { return Ok(trial.best) };
            let distance = near.0[index] - point.0[index];
            slopes.push(at.iter().zip(&other).map(|(at, other)| (other - at) / distance).collect::<Vec<_>>());
        }
        let before = mean_square(&at);
        while damping < LAST_DAMPING {
            let next = point.stepped(&least_squares(&slopes, &at, damping));
            let Some(other) = try_out(&next, &mut trial)? else { return Ok(trial.best) };
            if mean_square(&other) < before {
                (point, at) = (next, other);
                damping /= DAMPING_FACTOR;
                break;
            }
            damping *= DAMPING_FACTOR;
        }
        if mean_square(&at) > LEAST_GAIN * before {
            break;
        }
    }
    Ok(trial.best)
}

/// The logarithms of the parameters.
#[derive(Clone, Copy, Debug)]
struct Point([f64; FITTED]);

impl Point {
    fn of(fitted: &Fitted) -> Self {
        Self(fitted.values().map(f64::ln))
    }

    fn fitted(&self) -> Fitted {
        Fitted::from_values(self.0.map(f64::exp))
    }

    /// Returns the point with one parameter changed, away from the bound that is nearer.
    fn moved(&self, index: usize) -> Self {
        let mut moved = *self;
        let up = self.0[index] + PROBE < BOUNDS[index].most.ln();
        moved.0[index] += if up { PROBE } else { -PROBE };
        moved
    }

    /// Returns the point after a step, of a limited length, within the bounds.
    fn stepped(&self, step: &[f64; FITTED]) -> Self {
        let mut stepped = *self;
        for ((value, change), bounds) in stepped.0.iter_mut().zip(step).zip(&BOUNDS) {
            let to = *value + change.clamp(-LONGEST_STEP, LONGEST_STEP);
            *value = to.clamp(bounds.least.ln(), bounds.most.ln());
        }
        stepped
    }
}

/// Returns the step that minimises the squares of `at + slopes * step`, damped.
fn least_squares(slopes: &[Vec<f64>], at: &[f64], damping: f64) -> [f64; FITTED] {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let mut matrix = [[0.0; FITTED + 1]; FITTED];
    for (row, line) in matrix.iter_mut().enumerate() {
        for (column, entry) in line.iter_mut().take(FITTED).enumerate() {
            *entry = dot(&slopes[row], &slopes[column]);
        }
        // A parameter that no cell depends on stays where it is.
        line[row] += damping * line[row] + 1e-9;
        line[FITTED] = -dot(&slopes[row], at);
    }
    // Gaussian elimination. The matrix is positive definite, so it needs no pivots.
    for pivot in 0..FITTED {
        let (done, below) = matrix.split_at_mut(pivot + 1);
        let reference = &done[pivot];
        for line in below {
            let factor = line[pivot] / reference[pivot];
            line.iter_mut().zip(reference).for_each(|(entry, reference)| *entry -= factor * reference);
        }
    }
    let mut step = [0.0; FITTED];
    for row in (0..FITTED).rev() {
        let rest: f64 = (row + 1..FITTED).map(|column| matrix[row][column] * step[column]).sum();
        step[row] = (matrix[row][FITTED] - rest) / matrix[row][row];
    }
    step
}

/// Returns what the fit minimises the squares of: the logarithm of simulated over published
/// throughput, for each cell, and its difference between two strategies of a row, weighted. The
/// difference says who wins.
fn residuals(cells: &[Cell]) -> Vec<f64> {
    let logarithm = |cell: &Cell| (cell.simulated / cell.published).ln();
    let mut residuals: Vec<_> = cells.iter().map(logarithm).collect();
    let pairs = cells.windows(2).filter(|pair| pair[0].row == pair[1].row);
    residuals.extend(pairs.map(|pair| WINNER_WEIGHT * (logarithm(&pair[1]) - logarithm(&pair[0]))));
    residuals
}

fn mean_square(residuals: &[f64]) -> f64 {
    residuals.iter().map(|residual| residual * residual).sum::<f64>() / residuals.len().max(1) as f64
}
