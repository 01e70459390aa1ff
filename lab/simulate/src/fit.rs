//! The fit, and its error on both halves of the published cells.

use std::{
    cell::RefCell,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

use levenberg_marquardt::{LeastSquaresProblem, LevenbergMarquardt};
use nalgebra::{Const, DVector, Dyn, OMatrix, SVector, storage::Owned};
use rayon::prelude::*;

use crate::{BOUNDS, Error, FITTED, FittedParameters, PublishedRow, StrategyKind, Workload, simulate};

/// The rows of a batch in the paper's benchmark.
pub const PAPER_ROWS: usize = 8192;
/// The weight of who wins, against the throughput of one cell.
const WINNER_WEIGHT: f64 = 2.0;
/// The change of a logarithm that shows a slope.
const PROBE: f64 = 0.1;
/// The fit ends when a step would change the loss, or the logarithms, by less than this part.
const TOLERANCE: f64 = 0.01;
/// The longest first step, as a part of the length of the vector of logarithms.
const FIRST_STEP: f64 = 0.1;
/// The largest number of trials for each parameter, without those for slopes.
const PATIENCE: usize = 3;

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
/// It takes a hundred trials or so, of a second or two each.
///
/// # Errors
/// If a simulation fails.
pub fn fit(
    rows: &[PublishedRow],
    start: &FittedParameters,
    seed: u64,
    step: impl FnMut(&Trial) -> bool,
) -> Result<FittedParameters, Error> {
    let trial = Trial { trials: 0, loss: f64::INFINITY, best: *start };
    let trials = RefCell::new(Trials { rows, seed, step, trial, at: None, failed: None });
    let problem = Problem { trials: &trials, point: Point::from(start.values()).map(f64::ln) };
    LevenbergMarquardt::new()
        .with_ftol(TOLERANCE)
        .with_xtol(TOLERANCE)
        .with_gtol(0.0)
        .with_stepbound(FIRST_STEP)
        .with_scale_diag(false)
        .with_patience(PATIENCE)
        .minimize(problem);
    let Trials { trial, failed, .. } = trials.into_inner();
    failed.map_or(Ok(trial.best), Err)
}

/// The logarithms of the parameters.
type Point = SVector<f64, FITTED>;

/// Returns the parameters at a point, within their bounds.
fn fitted(point: &Point) -> FittedParameters {
    FittedParameters::from_values(std::array::from_fn(|index| within_bounds(index, point[index]).exp()))
}

fn within_bounds(index: usize, logarithm: f64) -> f64 {
    logarithm.clamp(BOUNDS[index].least.ln(), BOUNDS[index].most.ln())
}

/// The simulations of a fit.
struct Trials<'a, S> {
    rows: &'a [PublishedRow],
    seed: u64,
    step: S,
    trial: Trial,
    /// The residuals at the point that the method looks at.
    at: Option<DVector<f64>>,
    failed: Option<Error>,
}

impl<S: FnMut(&Trial) -> bool> Trials<'_, S> {
    /// Returns the residuals at a point, or none if the fit should stop.
    fn residuals(&mut self, point: &Point) -> Option<DVector<f64>> {
        let fitted = fitted(point);
        let cells = match cells(self.rows, |row| row.fitted, &fitted, self.seed, &|| true) {
            Ok(cells) => cells,
            Err(error) => {
                self.failed = Some(error);
                return None;
            }
        };
        let residuals = residuals(&cells);
        let loss = mean_square(&residuals);
        self.trial.trials += 1;
        if loss < self.trial.loss {
            (self.trial.loss, self.trial.best) = (loss, fitted);
        }
        (self.step)(&self.trial).then(|| residuals.into())
    }
}

/// The fit at a point.
struct Problem<'t, 'a, S> {
    trials: &'t RefCell<Trials<'a, S>>,
    point: Point,
}

impl<S: FnMut(&Trial) -> bool> LeastSquaresProblem<f64, Dyn, Const<FITTED>> for Problem<'_, '_, S> {
    type ResidualStorage = Owned<f64, Dyn>;
    type JacobianStorage = Owned<f64, Dyn, Const<FITTED>>;
    type ParameterStorage = Owned<f64, Const<FITTED>>;

    fn set_params(&mut self, point: &Point) {
        self.point = *point;
    }

    fn params(&self) -> Point {
        self.point
    }

    fn residuals(&self) -> Option<DVector<f64>> {
        let mut trials = self.trials.borrow_mut();
        trials.at = trials.residuals(&self.point);
        trials.at.clone()
    }

    fn jacobian(&self) -> Option<OMatrix<f64, Dyn, Const<FITTED>>> {
        // Slopes are asked for where the residuals were asked for last.
        let at = self.trials.borrow().at.clone()?;
        let slopes: Option<Vec<_>> = (0..FITTED).map(|index| self.slope(index, &at)).collect();
        Some(OMatrix::from_columns(&slopes?))
    }
}

impl<S: FnMut(&Trial) -> bool> Problem<'_, '_, S> {
    /// Returns how the residuals change with one parameter, towards the bound that is farther.
    fn slope(&self, index: usize, at: &DVector<f64>) -> Option<DVector<f64>> {
        let here = within_bounds(index, self.point[index]);
        let distance = if here + PROBE < BOUNDS[index].most.ln() { PROBE } else { -PROBE };
        let mut near = self.point;
        near[index] = here + distance;
        Some((self.trials.borrow_mut().residuals(&near)? - at) / distance)
    }
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
