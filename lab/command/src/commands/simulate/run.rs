//! Simulates the published cells, then the machines that were asked for.

use std::io::{Write, stdout};

use annulus_bench::Stop;
use annulus_simulate::{
    FittedParameters, PublishedRow, agreement, assumptions, cells, compare, facts, fit, predict, published,
};
use annulus_terminal::{progress, unfinished::Files};
use anyhow::{Context, Result};

use super::{
    SimulateCommand,
    args::ExchangeArgs,
    page::page,
    report::{Report, csv},
};
use crate::{blocking, outcome::Outcome, runtime};

/// About as many trials as a fit takes.
const USUAL_TRIALS: u64 = 60;

/// Runs the simulation that `command` names.
pub fn run(command: SimulateCommand) -> Result<Outcome> {
    let SimulateCommand::Exchange(args) = command;
    runtime::run(blocking::run(move |stop| exchange(&args, stop)))
}

fn exchange(args: &ExchangeArgs, stop: &Stop) -> Result<()> {
    let question = args.question()?;
    let predictions = question.simulations()?;
    let names = ["exchange.json", "exchange.csv", "exchange.html"];
    let files = args.out.as_ref().map(|out| Files::create(out, names)).transpose()?;
    let rows = published()?;
    let fitted = if args.refit { refit(&rows, args.seed, stop)? } else { FittedParameters::STORED };

    let published_cells: usize = rows.iter().map(|row| row.gb_s.len()).sum();
    let bar = progress::bar((published_cells + predictions) as u64, "simulations");
    let done = || {
        bar.inc(1);
        !stop.is_cancelled()
    };
    bar.set_message("published cells");
    let compared = compare(&rows, &cells(&rows, |_| true, &fitted, args.seed, &done)?);
    stop.check()?;
    bar.set_message("predictions");
    let predictions = predict(&question, &fitted, args.seed, &done)?;
    stop.check()?;
    bar.finish_and_clear();

    let mut parameters = fitted.parameters();
    parameters.extend(facts());
    parameters.extend(assumptions());
    let halves = [true, false].map(|half| agreement(&compared, half));
    let [Some(on_fitted), Some(on_held_out)] = halves else { anyhow::bail!("the published table is empty") };
    let report = Report::new(parameters, on_fitted, on_held_out, compared, &predictions, args);
    let json = serde_json::to_string(&report)?;
    if args.json {
        writeln!(stdout(), "{json}").context("cannot print")?;
    } else {
        write!(stdout(), "{report}").context("cannot print")?;
    }
    if let Some(files) = files {
        files.finish([json + "\n", csv(&report), page(&report)])?;
    }
    Ok(())
}

/// Fits the parameters from the start, and reports the loss while it runs.
fn refit(rows: &[PublishedRow], seed: u64, stop: &Stop) -> Result<FittedParameters> {
    let bar = progress::bar(USUAL_TRIALS, "trials");
    let fitted = fit(rows, &FittedParameters::START, seed, |trial| {
        bar.set_position(trial.trials as u64);
        bar.set_length(USUAL_TRIALS.max(trial.trials as u64));
        bar.set_message(format!("mean square error {:.4}", trial.loss));
        !stop.is_cancelled()
    })?;
    bar.finish_and_clear();
    stop.check()?;
    Ok(fitted)
}
