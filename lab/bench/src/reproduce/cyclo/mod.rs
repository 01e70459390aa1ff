//! `annulus-lab reproduce cyclo-join`: the figures of the paper's evaluation, on this machine.

mod args;
mod cells;
mod fabric;
mod measure;
mod network;
mod page;
mod paper;
mod record;
mod simulation;

use std::collections::BTreeSet;

use annulus_terminal::progress;
use anyhow::Result;
pub use args::{CycloJoinArgs, Figure};
use serde_json::json;

use self::{
    measure::Run,
    page::Page,
    record::{csv, json_lines},
};
use super::{Files, origin::Origin, store::Store};
use crate::Stop;

/// The files of results.
const FILES: [&str; 3] = ["cyclo-join.jsonl", "cyclo-join.csv", "cyclo-join.html"];
/// The results of an unfinished run.
const PARTIAL: &str = "cyclo-join.partial.jsonl";

/// Measures the figures in `args` and writes the three files. Goes on with an unfinished run of the
/// same settings in the same folder.
///
/// # Errors
/// If a result is not the expected one, a host fails, a file cannot be written, the folder has an
/// unfinished run of other settings, or `stop` is set.
pub fn run(args: &CycloJoinArgs, stop: &Stop) -> Result<()> {
    let args = args.sized();
    let origin = Origin::new(args.seed);
    let mut store = Store::open(&args.out, PARTIAL, &origin.run(args.settings()), args.start())?;
    // So that a name that cannot be written fails early.
    drop(Files::create(&args.out, FILES)?);
    store.say_resumed();
    let bar = progress::bar(0, "runs");
    let mut run =
        Run { args: &args, store: &mut store, bar: bar.clone(), stop, absent: BTreeSet::new(), providers: Vec::new() };
    let records = run.measure();
    let absent = run.absent;
    bar.finish_and_clear();
    let records = records.inspect_err(|_| store.say_stopped(stop))?;
    let machine = annulus_topology::machine();
    let setting = json!({
        "origin": origin,
        "machine": machine,
        "quick": args.quick,
        "rounds": args.rounds,
        "paper_machines": paper::MACHINES,
        "absent": absent,
    });
    let page = Page { origin: &origin, args: &args, records: &records, absent: &absent }.html();
    Files::create(&args.out, FILES)?.finish([json_lines(&setting, &records)?, csv(&records)?, page])?;
    store.finish()
}
