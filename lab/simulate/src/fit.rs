//! The fit, and its error on both halves of the published cells.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use nalgebra::{Const, DVector, Dyn, OMatrix, SVector};
use rayon::prelude::*;

use crate::{BOUNDS, Error, FITTED, FittedParameters, PublishedRow, StrategyKind, Workload, simulate};

/// The rows of a batch in the paper's benchmark.
pub const PAPER_ROWS: usize = 8192;
/// The weight of the winner, against the throughput of one cell.
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
    fitted: &FittedParameters,
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
    let has_stopped = AtomicBool::new(false);
    let one = |item| {
        if has_stopped.load(Relaxed) {
            return None;
        }
        let result = work(item);
        if !done() {
            has_stopped.store(true, Relaxed);
        }
        Some(result)
    };
    items.par_iter().with_max_len(1).filter_map(one).collect()
}

/// The position of a fit.
#[derive(Clone, Copy, Debug)]
pub struct Trial {
    /// The trials so far.
    pub trials: usize,
    /// The least mean square of the residuals.
    pub loss: f64,
    /// The parameters that have it.
    pub best: FittedParameters,
}

/// Fits the parameters to the fitted half of `rows`, by the method of Levenberg and Marquardt on
/// the logarithms of the parameters and of the throughput. It looks at no held-out cell. `step` is
/// called after each trial, and says whether to go on.
///
/// It takes a hundred trials or so, of a second or two each. The throughput is not smooth, so slopes
/// are those over a tenth, and steps are limited.
///
/// # Errors
/// If a simulation fails.
pub fn fit(
    rows: &[PublishedRow],
    start: &FittedParameters,
    seed: u64,
    mut step: impl FnMut(&Trial) -> bool,
) -> Result<FittedParameters, Error> {
    let mut trial = Trial { trials: 0, loss: f64::INFINITY, best: *start };
    // Returns the residuals, or none if the fit should stop.
    let mut try_out = |point: &Point, trial: &mut Trial| {
        let fitted = fitted(point);
        let residuals = DVector::from_vec(residuals(&cells(rows, |row| row.fitted, &fitted, seed, &|| true)?));
        trial.trials += 1;
        if mean_square(&residuals) < trial.loss {
            (trial.loss, trial.best) = (mean_square(&residuals), fitted);
        }
        Ok::<_, Error>(step(trial).then_some(residuals))
    };
    let mut point = Point::from(start.values()).map(f64::ln);
    let Some(mut at) = try_out(&point, &mut trial)? else { return Ok(trial.best) };
    let mut damping = FIRST_DAMPING;
    for _ in 0..ROUNDS {
        let mut slopes = Vec::new();
        for index in 0..FITTED {
            let near = moved(&point, index);
            let Some(other) = try_out(&near, &mut trial)? else { return Ok(trial.best) };
            slopes.push((other - &at) / (near[index] - point[index]));
        }
        let slopes = Slopes::from_columns(&slopes);
        let before = mean_square(&at);
        while damping < LAST_DAMPING {
            let next = stepped(&point, &least_squares(&slopes, &at, damping));
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
type Point = SVector<f64, FITTED>;

/// The change of each residual with each parameter.
type Slopes = OMatrix<f64, Dyn, Const<FITTED>>;

fn fitted(point: &Point) -> FittedParameters {
    FittedParameters::from_values(point.map(f64::exp).into())
}

/// Returns the point with one parameter changed, away from the bound that is nearer.
fn moved(point: &Point, index: usize) -> Point {
    let mut moved = *point;
    let up = point[index] + PROBE < BOUNDS[index].most.ln();
    moved[index] += if up { PROBE } else { -PROBE };
    moved
}

/// Returns the point after a step, of a limited length, within the bounds.
fn stepped(point: &Point, step: &Point) -> Point {
    Point::from_fn(|index, _| {
        let to = point[index] + step[index].clamp(-LONGEST_STEP, LONGEST_STEP);
        to.clamp(BOUNDS[index].least.ln(), BOUNDS[index].most.ln())
    })
}

/// Returns the step that minimises the squares of `at + slopes * step`, damped.
fn least_squares(slopes: &Slopes, at: &DVector<f64>, damping: f64) -> Point {
    let mut matrix = slopes.tr_mul(slopes);
    for index in 0..FITTED {
        // A parameter that no cell depends on stays unchanged.
        matrix[(index, index)] += damping * matrix[(index, index)] + 1e-9;
    }
    // The matrix is positive definite unless a cell's throughput is no number.
    matrix.cholesky().map_or_else(Point::zeros, |matrix| matrix.solve(&-slopes.tr_mul(at)))
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

fn mean_square(residuals: &DVector<f64>) -> f64 {
    residuals.norm_squared() / residuals.len().max(1) as f64
}
