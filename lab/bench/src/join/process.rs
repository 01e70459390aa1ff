//! A host of a ring whose hosts are processes, on one or more machines.

use std::{
    io::{Write, stdout},
    net::{SocketAddr, TcpListener},
    time::Duration,
};

use annulus_roundabout::Address;
use anyhow::{Context, Result, bail, ensure};
use serde::Serialize;

use super::{
    JoinArgs,
    args::Link,
    links::{config, start_at},
    run::{Ring, Totals, revolve},
    tables::Tables,
};
use crate::words::name;

/// The result of this host. The fields that begin with `all_` are totals of all hosts.
#[derive(Debug, Serialize)]
struct HostLine {
    host: u16,
    hosts: u16,
    matches: u64,
    sum: i64,
    all_matches: u64,
    all_sum: i64,
    setup_s: f64,
    join_s: f64,
    waiting_share: f64,
    waiting_first_share: f64,
    waiting_last_share: f64,
    /// The bytes of the fragments joined, in 1e9 per second.
    gb_per_s: f64,
    host_probed: u64,
    host_compared: u64,
}

/// Joins once as host `--place` of the ring at `--ring`, and prints a line of JSON.
///
/// # Errors
/// If options contradict each other, a host fails, or this one cannot listen at its address.
pub(super) fn run(args: &JoinArgs, tables: &Tables) -> Result<()> {
    let (ring, me) = (&args.ring, args.place.unwrap_or_default());
    let place = usize::from(me);
    let hosts = u16::try_from(ring.len()).context("--ring has too many hosts")?;
    ensure!(hosts > 1, "--ring has one host: name all of them");
    let Some(&own) = ring.get(place) else { bail!("--place is {place}, and --ring has the places 0 to {}", hosts - 1) };
    if !matches!(args.link, Link::Shared | Link::Tcp) {
        bail!("--ring connects by TCP without certificates: leave out --link {}", name(&args.link));
    }
    let config = config(args.element, args.buffers);
    let JoinArgs { by, threads, .. } = *args;
    let parts = Ring { tables, by, link: Link::Tcp, hosts, threads, config, times: 1, network: None, join_s: None };
    // A host connects only when it is ready, so the revolution starts when the last host is ready.
    let share = parts.prepare(me)?;
    let listener = TcpListener::bind(own).with_context(|| format!("cannot listen at {own}, which --ring names"))?;
    let successor: SocketAddr = ring[(place + 1) % ring.len()];
    let host = start_at(me, hosts, &config, Address::Tcp { listener, successor })?;
    let totals = Totals::default();
    let measured = revolve(host, share, &totals, parts.pace())?;
    let (answer, all) = (totals.answer(), tables.answer);
    ensure!(answer.rows <= all.rows, "wrong result: {} rows on this host, {} on all", answer.rows, all.rows);
    let join_s = measured.join.as_secs_f64();
    let revolution = measured.stats.revolution;
    let share = |time: Duration| time.as_secs_f64() / join_s;
    let line = HostLine {
        host: me,
        hosts,
        matches: answer.rows,
        sum: answer.sum,
        all_matches: all.rows,
        all_sum: all.sum,
        setup_s: measured.stats.setup.as_secs_f64(),
        join_s,
        waiting_share: share(revolution.waiting),
        waiting_first_share: share(revolution.waiting_first),
        waiting_last_share: share(revolution.waiting_last),
        gb_per_s: revolution.bytes as f64 / join_s / 1e9,
        host_probed: measured.stats.probed,
        host_compared: measured.stats.compared,
    };
    writeln!(stdout(), "{}", serde_json::to_string(&line)?).context("cannot print")
}
