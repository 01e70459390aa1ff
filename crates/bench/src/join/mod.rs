//! `annulus bench join`: a join around rings of different sizes.

mod args;
mod run;
mod tables;

use std::{
    io::{Write, stdout},
    time::Duration,
};

use annulus_roundabout::host::Revolution;
use anyhow::{Context, Result, ensure};
pub use args::JoinArgs;
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

use self::{
    run::{Joined, Ring},
    tables::Tables,
};
use crate::{Stop, progress, statistics::median};

/// A ring of one size.
#[derive(Debug, Serialize)]
struct Line {
    hosts: u16,
    rows: u64,
    threads: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    zipf: Option<f64>,
    matches: u64,
    setup_s: f64,
    join_s: f64,
    waiting_share: f64,
    waiting_first_share: f64,
    waiting_last_share: f64,
    total_s: f64,
    host_mb: f64,
}

/// Runs the benchmark that `args` ask for, and prints its result.
///
/// # Errors
/// If a result is not the expected one, a host fails, or `stop` is set meanwhile.
pub fn run(args: &JoinArgs, stop: &Stop) -> Result<()> {
    let tables = Tables::new(args.rows, args.zipf).context("cannot make the tables")?;
    let bar = progress::bar((args.hosts.len() * (args.rounds + 1)) as u64, "runs");
    let mut lines = Vec::new();
    for &hosts in &args.hosts {
        let ring = Ring { hosts, threads: args.threads, element: args.element, tables: &tables };
        let mut rounds = Vec::new();
        // The first one warms up, and is checked like the others.
        for round in 0..=args.rounds {
            stop.check()?;
            bar.set_message(format!("{hosts} hosts"));
            let joined = ring.join()?;
            ensure!(
                joined.answer == tables.answer,
                "{hosts} hosts gave {:?}, and {:?} was expected",
                joined.answer,
                tables.answer
            );
            if round > 0 {
                rounds.push(joined);
            }
            bar.inc(1);
        }
        let line = line(args, hosts, tables.answer.rows, &rounds);
        if args.json {
            bar.suspend(|| writeln!(stdout(), "{}", serde_json::to_string(&line)?).context("cannot print"))?;
        }
        lines.push(line);
    }
    bar.finish_and_clear();
    if !args.json {
        writeln!(stdout(), "{}", table(&lines)).context("cannot print")?;
    }
    Ok(())
}

fn line(args: &JoinArgs, hosts: u16, matches: u64, rounds: &[Joined]) -> Line {
    let of = |value: &dyn Fn(&Joined) -> f64| median(&rounds.iter().map(value).collect::<Vec<_>>());
    let setup_s = of(&|joined| joined.turns.iter().map(|turn| turn.setup.as_secs_f64()).fold(0.0, f64::max));
    let join_s = of(&|joined| joined.join.as_secs_f64());
    let share_of = |time: fn(&Revolution) -> Duration| {
        of(&|joined| {
            let waiting: f64 = joined.turns.iter().map(|turn| time(&turn.revolution).as_secs_f64()).sum();
            waiting / joined.join.as_secs_f64() / f64::from(hosts)
        })
    };
    let waiting_share = share_of(|revolution| revolution.waiting);
    let waiting_first_share = share_of(|revolution| revolution.waiting_first);
    let waiting_last_share = share_of(|revolution| revolution.waiting_last);
    // Keys and numbers of this host's part of both tables.
    let host_mb = 2.0 * args.rows.div_ceil(u64::from(hosts)) as f64 * 12.0 / f64::from(1 << 20);
    let (rows, threads, zipf) = (args.rows, args.threads, args.zipf);
    Line {
        hosts,
        rows,
        threads,
        zipf,
        matches,
        setup_s,
        join_s,
        waiting_share,
        waiting_first_share,
        waiting_last_share,
        total_s: setup_s + join_s,
        host_mb,
    }
}

fn table(lines: &[Line]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table.set_header(["hosts", "matches", "setup s", "join s", "waiting", "(first, last)", "total s", "MB a host"]);
    for line in lines {
        table.add_row([
            line.hosts.to_string(),
            line.matches.to_string(),
            format!("{:.3}", line.setup_s),
            format!("{:.3}", line.join_s),
            format!("{:.1} %", line.waiting_share * 100.0),
            format!("({:.1}, {:.1})", line.waiting_first_share * 100.0, line.waiting_last_share * 100.0),
            format!("{:.3}", line.total_s),
            format!("{:.0}", line.host_mb),
        ]);
    }
    for column in table.column_iter_mut() {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
