//! `annulus reproduce ring`: the figures of the ring's paper, on this machine.

mod args;
mod cells;
mod page;
mod paper;

use annulus_simulate::PublishedRow;
use annulus_terminal::{Stop, machine, progress, unfinished::Files};
use anyhow::Result;
pub use args::RingArgs;
use serde::{Serialize, Serializer};
use serde_json::{Map, json};

use self::cells::Part;
use super::{origin::Origin, store::Store};
use crate::exchange::{self, Line, csv};

/// The files of results.
const FILES: [&str; 3] = ["ring.json", "ring.csv", "ring.html"];
/// The results of an unfinished run.
const PARTIAL: &str = "ring.partial.jsonl";

/// All results, as in the JSON file.
#[derive(Serialize)]
struct Results {
    origin: Origin,
    /// The size of a quick run in words. Missing if it was not one.
    #[serde(skip_serializing_if = "Option::is_none")]
    quick: Option<String>,
    cores: usize,
    rounds: usize,
    cells: Vec<Measured>,
    #[serde(serialize_with = "published_rows")]
    published: Vec<PublishedRow>,
}

/// The lines of all cells of a figure.
#[derive(Serialize)]
struct Measured {
    part: &'static str,
    #[serde(skip)]
    of: Part,
    lines: Vec<Line>,
}

/// Writes the rows of the published tables without the model of their machines.
fn published_rows<S: Serializer>(rows: &[PublishedRow], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(rows.iter().map(|row| {
        let gb_s: Map<_, _> = row.gb_s.iter().map(|(strategy, gb_s)| (strategy.to_string(), json!(gb_s))).collect();
        json!({ "place": row.place, "machine": row.machine.name, "threads": row.threads, "row_bytes": row.row_bytes,
            "sizes": row.sizes, "gb_per_s": gb_s })
    }))
}

impl Results {
    /// Returns the lines of a part that were long enough to measure.
    fn lines(&self, part: Part) -> impl Iterator<Item = &Line> {
        let cells = self.cells.iter().filter(move |cell| cell.of == part);
        cells.flat_map(|cell| &cell.lines).filter(|line| !line.too_short)
    }
}

/// Measures the figures and writes the three files. Goes on with an unfinished run of the same
/// settings in the same folder.
///
/// # Errors
/// If a row is lost or changed, a file cannot be written, the folder has an unfinished run of other
/// settings, or `stop` is set.
pub fn run(args: &RingArgs, stop: &Stop) -> Result<()> {
    let origin = Origin::new(args.seed);
    let mut store = Store::open(&args.out, PARTIAL, &origin.run(args.settings()), args.start())?;
    // So that a name that cannot be written fails early.
    drop(Files::create(&args.out, FILES)?);
    if store.len() > 0 {
        eprintln!("going on with the {} results in '{}'", store.len(), args.out.join(PARTIAL).display());
    }
    let all = cells::cells(args);
    let bar = progress::bar(all.iter().map(|(_, cell)| exchange::runs(cell) as u64).sum(), "runs");
    let mut cells = Vec::new();
    for (part, cell) in &all {
        let key = format!("{} {}", part.word(), cell.key());
        let before = bar.position();
        let lines = store.get_or(&key, || exchange::measure(cell, None, &bar, stop, |_| Ok(())))?;
        bar.set_position(before + exchange::runs(cell) as u64);
        cells.push(Measured { part: part.word(), of: *part, lines });
    }
    bar.finish_and_clear();
    let results = Results {
        origin,
        quick: args.quick_size(),
        cores: machine::cores(),
        rounds: args.rounds(),
        cells,
        published: annulus_simulate::published()?,
    };
    let lines = results.cells.iter().map(|cell| (cell.part, &cell.lines[..]));
    let json = serde_json::to_string_pretty(&results)? + "\n";
    Files::create(&args.out, FILES)?.finish([json, csv(lines), page::page(&results)])?;
    store.finish()
}
