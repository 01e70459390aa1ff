//! `annulus-lab reproduce pages`: the figures of the paper's evaluation, on this machine.

mod args;
mod figures;
mod flink;
mod measure;
mod page;
mod paper;
mod published;
mod results;
mod sections;

use annulus_terminal::{machine, progress};
use anyhow::Result;
pub use args::ReproduceArgs;

use self::{
    measure::{Extent, Run},
    results::Results,
};
use super::{Files, origin::Origin, store::Store};
use crate::Stop;
use crate::pages::{Counters, SEED, lead};

/// The files of results.
const FILES: [&str; 3] = ["pages.json", "pages.csv", "pages.html"];
/// The results of an unfinished run.
const PARTIAL: &str = "pages.partial.jsonl";

/// Measures the figures and writes the three files. Goes on with an unfinished run of the same
/// settings in the same folder.
///
/// # Errors
/// If a variant puts a tuple into a wrong place, nothing fits in memory, a file cannot be written,
/// the folder has an unfinished run of other settings, or `stop` is set.
pub fn run(args: &ReproduceArgs, stop: &Stop) -> Result<()> {
    let origin = Origin::new(SEED);
    let mut store = Store::open(&args.out, PARTIAL, &origin.run(args.settings()), args.start())?;
    // So that a name that cannot be written fails early.
    drop(Files::create(&args.out, FILES)?);
    store.say_resumed();
    let results = measure(args, origin, &mut store, stop).inspect_err(|_| store.say_stopped(stop))?;
    let json = serde_json::to_string_pretty(&results)? + "\n";
    Files::create(&args.out, FILES)?.finish([json, results.csv()?, page::page(&results)])?;
    store.finish()
}

fn measure(args: &ReproduceArgs, origin: Origin, store: &mut Store, stop: &Stop) -> Result<Results> {
    let mut setting = args.setting();
    let extent = store.get_or("extent", || Ok(Extent::new(args, &setting)))?;
    extent.apply(&mut setting);
    let no_counters = Counters::open().err();
    if let Some(reason) = &no_counters {
        eprintln!("no counters: {reason}");
    }
    setting.counters = no_counters.is_none();
    let mut results = Results {
        setting: lead(&setting, args.threads().last().copied().unwrap_or(1)),
        origin,
        quick: args.quick_size(),
        paper_machine: paper::MACHINE,
        cores: machine::cores(),
        no_counters,
        cells: Vec::new(),
        memory: Vec::new(),
        sizes: Vec::new(),
        streams: Vec::new(),
        flink: Vec::new(),
        skipped: Vec::new(),
    };
    let bar = progress::bar(0, "runs");
    Run { args, extent, store, bar: bar.clone(), stop }.measure(&setting, &mut results)?;
    bar.finish_and_clear();
    let flink = &results.flink;
    results.origin.set_flink(flink::versions(flink, |line| &line.flink), flink::versions(flink, |line| &line.java));
    Ok(results)
}
