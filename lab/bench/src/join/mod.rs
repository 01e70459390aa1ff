//! `annulus-lab bench join`: a join around rings of different sizes.

use crate::Stop;

mod args;
mod line;
mod links;
mod network;
mod one_at_a_time;
mod pace;
mod process;
mod rounds;
mod run;
mod tables;
mod transfer;

use std::io::{Write, stdout};

use annulus_terminal::{progress, units::counted};
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

use self::one_at_a_time::Fragments;

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
        let JoinArgs { by, link, threads, .. } = *args;
        let ring = Ring { tables: &tables, by, link, hosts, threads, config, times: 1, network: None, join_s: None };
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
/// In a network of its own, repeats what other processes have disturbed.
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
    let fragments = if one_at_a_time { Some(Fragments::prepare(ring)?) } else { None };
    let run = || {
        let one = match &fragments {
            Some(fragments) => ring.join_one_at_a_time(fragments)?,
            None => ring.join()?,
        };
        let (found, expected) = (one.answer, ring.tables.answer.times(ring.times));
        ensure!(
            found == expected,
            "wrong result on {}: {} with the sum {}, expected {} with the sum {}",
            counted(ring.hosts.into(), "host"),
            counted(found.rows, "row"),
            found.sum,
            counted(expected.rows, "row"),
            expected.sum
        );
        Ok(one)
    };
    let joined = rounds::rounds(rounds, ran, stop, |one| one.others_share, run)?;
    Ok(Line::new(ring, one_at_a_time, &joined))
}
