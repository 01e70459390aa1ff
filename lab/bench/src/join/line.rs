//! The result of one ring.

use std::time::Duration;

use annulus_roundabout::Revolution;
use annulus_terminal::{
    plain,
    statistics::{SHORTEST_S, TOO_SHORT, median},
};
use comfy_table::Table;
use serde::{Deserialize, Serialize};

use super::{
    links::buffer_bytes,
    run::{HostStats, JoinOutcome, Ring},
};
use crate::words::name;

const MB: f64 = (1 << 20) as f64;

/// The result of a ring of one size. `annulus-lab bench join --help` explains the columns.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Line {
    pub(crate) data: String,
    pub(crate) by: String,
    pub(crate) link: String,
    pub(crate) hosts: u16,
    pub(crate) threads: usize,
    pub(crate) buffers: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) zipf: Option<f64>,
    pub(crate) one_at_a_time: bool,
    pub(crate) rows: u64,
    pub(crate) probe_rows: u64,
    pub(crate) matches: u64,
    pub(crate) sum: i64,
    pub(crate) setup_s: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) setup_cpu_s: Option<f64>,
    pub(crate) join_s: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) join_cpu_s: Option<f64>,
    pub(crate) waiting_share: f64,
    pub(crate) waiting_least_share: f64,
    pub(crate) waiting_most_share: f64,
    pub(crate) waiting_first_share: f64,
    pub(crate) waiting_last_share: f64,
    pub(crate) total_s: f64,
    pub(crate) host_probed: u64,
    pub(crate) host_compared: u64,
    pub(crate) host_mb: f64,
    pub(crate) fragments: u64,
    pub(crate) fragments_mb: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) peak_mb: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cpu_load: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cpu_s: Option<f64>,
    /// The part of the cores' time that other processes used, in the most disturbed round.
    #[serde(skip)]
    pub(crate) others_share: f64,
    /// Whether setup or join took less than [`SHORTEST_S`].
    pub(crate) too_short: bool,
}

impl Line {
    /// Computes the medians of the rounds, of which there is at least one.
    pub(super) fn new(ring: &Ring<'_>, one_at_a_time: bool, rounds: &[JoinOutcome]) -> Self {
        let of = |value: &dyn Fn(&JoinOutcome) -> f64| median(&rounds.iter().map(value).collect::<Vec<_>>());
        // The largest of the hosts' medians. The median of each round's largest value would grow
        // with the number of hosts, merely by chance.
        let most = |value: &dyn Fn(&HostStats) -> f64| {
            let host = |host: usize| of(&|joined| value(&joined.hosts[host]));
            (0..usize::from(ring.hosts)).map(host).fold(0.0, f64::max)
        };
        let setup_s = most(&|host| host.stats.setup.as_secs_f64());
        let join_s = most(&|host| host.join.as_secs_f64());
        let average = |joined: &JoinOutcome, value: &dyn Fn(&HostStats) -> f64| {
            joined.hosts.iter().map(value).sum::<f64>() / joined.hosts.len() as f64
        };
        let share_in = |joined: &JoinOutcome, time: fn(&Revolution) -> Duration| {
            average(joined, &|host| time(&host.stats.revolution).as_secs_f64() / host.join.as_secs_f64())
        };
        let share_of = |time: fn(&Revolution) -> Duration| of(&|joined| share_in(joined, time));
        let waiting = || rounds.iter().map(|joined| share_in(joined, |revolution| revolution.waiting));
        let join_cpu = || of(&|joined| average(joined, &|host| host.join_cpu.as_secs_f64()));
        let known = |known: &dyn Fn(&HostStats) -> bool| rounds.iter().flat_map(|joined| &joined.hosts).all(known);
        // The smallest value: other work on the machine can only add to it.
        let least_cpu = |host: usize| rounds.iter().filter_map(|joined| joined.hosts[host].setup_cpu).min();
        let setup_cpu = (0..usize::from(ring.hosts)).map(least_cpu).collect::<Option<Vec<_>>>();
        let setup_cpu = setup_cpu.and_then(|hosts| hosts.into_iter().max());
        let known_of = |value: &dyn Fn(&JoinOutcome) -> Option<f64>| {
            rounds.iter().map(value).collect::<Option<Vec<_>>>().map(|values| median(&values))
        };
        let buffers = buffer_bytes(ring.hosts, &ring.config) as f64;
        let [rows, probe_rows] = ring.tables.rows();
        Self {
            data: name(&ring.tables.data),
            by: name(&ring.tables.by(ring.by)),
            link: name(&ring.link),
            hosts: ring.hosts,
            threads: ring.threads,
            buffers: ring.config.buffers(),
            zipf: ring.tables.zipf,
            one_at_a_time,
            rows,
            probe_rows,
            matches: ring.tables.answer.rows,
            sum: ring.tables.answer.sum,
            setup_s,
            setup_cpu_s: setup_cpu.map(|time| time.as_secs_f64()),
            join_s,
            // It counts only one thread, so helpers would be missing.
            join_cpu_s: (ring.threads == 1).then(join_cpu).filter(|&seconds| seconds > 0.0),
            waiting_least_share: waiting().fold(1.0, f64::min),
            waiting_most_share: waiting().fold(0.0, f64::max),
            waiting_share: share_of(|revolution| revolution.waiting),
            waiting_first_share: share_of(|revolution| revolution.waiting_first),
            waiting_last_share: share_of(|revolution| revolution.waiting_last),
            total_s: setup_s + join_s,
            host_probed: most(&|host| host.stats.probed as f64) as u64,
            host_compared: most(&|host| host.stats.compared as f64) as u64,
            host_mb: most(&|host| (host.stats.memory.build + host.stats.memory.fragments) as f64 + buffers) / MB,
            fragments: most(&|host| host.stats.revolution.joined as f64) as u64,
            fragments_mb: most(&|host| host.stats.revolution.bytes as f64) / MB,
            peak_mb: known(&|host| host.peak.is_some())
                .then(|| most(&|host| host.peak.unwrap_or_default() as f64) / MB),
            cpu_load: known_of(&|joined| joined.cpu_load),
            cpu_s: known_of(&|joined| joined.cpu),
            others_share: rounds.iter().map(|joined| joined.others_share).fold(0.0, f64::max),
            too_short: setup_s.min(join_s) < SHORTEST_S,
        }
    }

    /// Returns the seconds of setup, as time on a core if that is known: other work on the machine
    /// disturbs it less.
    pub(crate) fn own_setup_s(&self) -> f64 {
        self.setup_cpu_s.unwrap_or(self.setup_s)
    }

    /// Returns the seconds of the join that hosts did not wait, on average.
    pub(crate) fn joining_s(&self) -> f64 {
        self.join_s * (1.0 - self.waiting_share)
    }

    /// Returns the rows that a host probed plus the pairs that it compared. The sum does not depend
    /// on the machine.
    pub(crate) fn work(&self) -> u64 {
        self.host_probed + self.host_compared
    }
}

/// Returns a table for the terminal.
pub(super) fn table(lines: &[Line]) -> Table {
    let header = [
        "hosts",
        "matches",
        "setup s",
        "on a core",
        "join s",
        "waiting",
        "(first, last)",
        "total s",
        "work a host",
        "MB a host",
        "peak MB",
    ];
    let row = |line: &Line| {
        vec![
            line.hosts.to_string(),
            line.matches.to_string(),
            format!("{:.3}", line.setup_s),
            line.setup_cpu_s.map_or("-".to_owned(), |seconds| format!("{seconds:.3}")),
            if line.too_short { TOO_SHORT.to_owned() } else { format!("{:.3}", line.join_s) },
            format!("{:.1} %", line.waiting_share * 100.0),
            format!("({:.1}, {:.1})", line.waiting_first_share * 100.0, line.waiting_last_share * 100.0),
            format!("{:.3}", line.total_s),
            line.work().to_string(),
            format!("{:.0}", line.host_mb),
            line.peak_mb.map_or("-".to_owned(), |peak| format!("{peak:.0}")),
        ]
    };
    plain::table(&header, &[], lines.iter().map(row))
}
