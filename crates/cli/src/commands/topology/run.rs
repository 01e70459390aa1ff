//! Reads the topology and prints it.

use std::io::{Write, stdout};

use annulus_topology::{Policy, Topology};
use anyhow::{Context, Result};

use super::{
    TopologyArgs,
    report::{Plan, Report},
};
use crate::outcome::Outcome;

/// Prints the topology of this machine, what it suggests, and the plan if one was asked for.
pub fn run(args: TopologyArgs) -> Result<Outcome> {
    let topology = Topology::detect();
    let batch_bytes = args.batch_bytes.map(|bytes| bytes as u64);
    let policy = if args.spread { Policy::Spread } else { Policy::Compact };
    let plan = args.plan.map(|shape| Plan::new(&topology, shape, policy, batch_bytes));
    let report = Report::new(&topology, batch_bytes, plan);
    let text = if args.json { serde_json::to_string(&report)? } else { report.text() };
    writeln!(stdout(), "{text}").context("cannot print")?;
    Ok(Outcome::Done)
}
