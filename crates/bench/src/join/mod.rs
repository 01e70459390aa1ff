//! `annulus bench join`: a join around rings of different sizes.

mod alone;
mod args;
mod line;
mod links;
mod network;
mod process;
mod run;
mod tables;
mod transfer;

use std::io::{Write, stdout};

use annulus_terminal::{Stop, progress, units::counted};
use anyhow::{Context, Result, ensure};
pub use args::{By, Data, JoinArgs, Link};
pub(crate) use {
    line::Line,
    links::config,
    network::Network,
    run::Ring,
    tables::Tables,
    transfer::{Transfer, measure_transfer},
};

use self::alone::Fragments;

/// The seed of the tables.
const SEED: u64 = 1;

/// Runs the benchmark and prints its result.
///
/// # Errors
/// If a result is not the expected one, a host fails, or `stop` is set.
pub fn run(args: &JoinArgs, stop: &Stop) -> Result<()> {
    let tables =
        Tables::new(args.data, args.rows, args.zipf, args.scale, SEED).context("cannot generate the tables")?;
    if let Some(folder) = &args.save {
        return tables.save(folder);
    }
    if !args.ring.is_empty() {
        return process::run(args, &tables);
    }
    let bar = progress::bar((args.hosts.len() * (args.rounds + 1)) as u64, "runs");
    let mut lines = Vec::new();
    for &hosts in &args.hosts {
        let config = config(args.element, args.buffers);
        let ring =
            Ring { tables: &tables, by: args.by, link: args.link, hosts, threads: args.threads, config, network: None };
        bar.set_message(counted(hosts.into(), "host"));
        let line = measure(&ring, args.one_at_a_time, args.rounds, &|| bar.inc(1), stop)?;
        if args.json {
            bar.suspend(|| writeln!(stdout(), "{}", serde_json::to_string(&line)?).context("cannot print"))?;
        }
        lines.push(line);
    }
    bar.finish_and_clear();
    if !args.json {
        writeln!(stdout(), "{}", line::table(&lines)).context("cannot print")?;
    }
    Ok(())
}

/// Joins once to warm up and then `rounds` times. Checks every answer, and calls `ran` after each.
///
/// # Errors
/// If an answer is not the expected one, a host fails, or `stop` is set.
pub(crate) fn measure(
    ring: &Ring<'_>,
    one_at_a_time: bool,
    rounds: usize,
    ran: &dyn Fn(),
    stop: &Stop,
) -> Result<Line> {
    let fragments = if one_at_a_time { Some(Fragments::of(ring)?) } else { None };
    let mut joined = Vec::with_capacity(rounds);
    for round in 0..=rounds {
        stop.check()?;
        let one = match &fragments {
            Some(fragments) => ring.join_one_at_a_time(fragments)?,
            None => ring.join()?,
        };
        let (found, expected) = (one.answer, ring.tables.answer);
        ensure!(
            found == expected,
            "wrong result on {}: {} with the sum {}, expected {} with the sum {}",
            counted(ring.hosts.into(), "host"),
            counted(found.rows, "row"),
            found.sum,
            counted(expected.rows, "row"),
            expected.sum
        );
        // The first one warms up.
        if round > 0 {
            joined.push(one);
        }
        ran();
    }
    Ok(Line::new(ring, one_at_a_time, &joined))
}
