//! Checks how far the stored fit agrees with the published tables, and how the fit behaves.

use annulus_simulate::{
    Agreement, FittedParameters, Machine, PublishedRow, RowSizes, StrategyKind, agreement, cells, compare, fit,
    published,
};

fn halves() -> [Agreement; 2] {
    let rows = published().unwrap();
    let compared = compare(&rows, &cells(&rows, |_| true, &FittedParameters::STORED, 1, &|| true).unwrap());
    [true, false].map(|fitted| agreement(&compared, fitted).unwrap())
}

#[test]
fn the_stored_fit_keeps_its_error() {
    let [fitted, held_out] = halves();
    assert!(fitted.median_error <= 0.15 && fitted.worst_error <= 0.36, "{fitted:?}");
    assert!(held_out.median_error <= 0.17 && held_out.worst_error <= 0.68, "{held_out:?}");
    assert_eq!((held_out.winners_right, held_out.rows), (10, 12), "{held_out:?}");
}

/// Rows that are quick to simulate, with throughput that the model gives for `truth`.
fn rows(truth: &FittedParameters) -> Vec<PublishedRow> {
    let row = |row_bytes, strategy, fitted| PublishedRow {
        place: "Test row".to_owned(),
        machine: Machine::grace(),
        threads: 8,
        row_bytes,
        sizes: RowSizes::Uniform,
        fitted,
        gb_s: vec![(strategy, 1.0)],
    };
    let mut rows = Vec::new();
    for strategy in [StrategyKind::PaperRing, StrategyKind::Batch] {
        rows.extend([8, 64, 256].map(|row_bytes| row(row_bytes, strategy, true)));
        rows.push(row(32, strategy, false));
    }
    let truth = cells(&rows, |_| true, truth, 1, &|| true).unwrap();
    for (row, cell) in rows.iter_mut().zip(truth) {
        row.gb_s[0].1 = cell.simulated;
    }
    rows
}

#[test]
fn a_fit_finds_parameters_that_explain_the_cells() {
    let truth = FittedParameters { row_cycles: 100.0, byte_cycles: 4.0, ..FittedParameters::START };
    let rows = rows(&truth);
    let mut losses = Vec::new();
    let found = fit(&rows, &FittedParameters::START, 1, |trial| {
        losses.push(trial.loss);
        true
    });
    assert!(losses[0] > 1e-3 && losses[losses.len() - 1] < 1e-4, "{} to {:?}", losses[0], losses.last());
    assert!((found.unwrap().byte_cycles / truth.byte_cycles - 1.0).abs() < 0.1);
}

#[test]
fn a_fit_never_looks_at_held_out_cells() {
    let rows = rows(&FittedParameters { row_cycles: 100.0, ..FittedParameters::START });
    let mut spoiled = rows.clone();
    for row in spoiled.iter_mut().filter(|row| !row.fitted) {
        row.gb_s[0].1 = f64::NAN;
        // A machine that cannot be simulated would be an error.
        row.threads = 0;
    }
    let fit = |rows: &[PublishedRow]| fit(rows, &FittedParameters::START, 1, |trial| trial.trials < 30).unwrap();
    assert_eq!(fit(&rows), fit(&spoiled));
}

#[test]
fn a_fit_ends_when_it_is_asked_to() {
    let mut trials = 0;
    let stopped = fit(&rows(&FittedParameters::START), &FittedParameters::START, 1, |trial| {
        trials = trial.trials;
        trials < 3
    });
    assert!(stopped.is_ok() && trials == 3, "{trials}");
}
