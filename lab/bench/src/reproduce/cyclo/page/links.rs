//! Links between hosts: figures 5 and 12, and table I.

use annulus_terminal::{machine::cores, statistics::TOO_SHORT, units::counted};

use annulus_charts::bars::{BarGroup, bars};

use super::{measured, million};
use crate::{
    join::Line,
    reproduce::cyclo::{
        cells::PAPER_HOSTS,
        paper,
        record::{Record, What},
    },
    roundabout::{self, Transport},
};

/// The text in place of columns over libfabric.
const NO_FABRIC: &str = "<p>There are no columns over libfabric (RDMA): see 'Not measured'.</p>";
/// What the names of such columns mean.
const OF_FABRIC: &str = "<p>'ofi-' is libfabric, with the name of its provider. Only 'ofi-verbs' uses a device for \
    RDMA; the others have its calls and no such device.</p>";

/// Draws throughput by the size of a buffer.
pub(super) fn transfer(records: &[Record]) -> String {
    let transfers =
        records.iter().filter_map(|record| if let What::Transfer(line) = &record.what { Some(line) } else { None });
    let lines: Vec<&roundabout::Line> = transfers.collect();
    let groups = |ways: &[&str]| -> Vec<BarGroup> {
        let group = |same: &[&roundabout::Line]| {
            let lines = || ways.iter().map(|way| same.iter().find(|line| line.way == **way));
            let short = lines().flatten().any(|line| line.too_short);
            BarGroup {
                label: format!("{} KiB", same[0].element_bytes >> 10),
                values: lines().map(|line| line.filter(|line| !line.too_short).map(|line| line.gb_per_s)).collect(),
                note: if short { TOO_SHORT.to_owned() } else { String::new() },
            }
        };
        lines.chunk_by(|a, b| a.element_bytes == b.element_bytes).map(group).collect()
    };
    let mut fabric: Vec<&str> = Vec::new();
    for line in lines.iter().filter(|line| line.way.starts_with("ofi-")) {
        if !fabric.contains(&&line.way[..]) {
            fabric.push(&line.way);
        }
    }
    let over_fabric = if fabric.is_empty() {
        NO_FABRIC.to_owned()
    } else {
        bars("Throughput over libfabric", &fabric, "GB/s", Some(paper::LINK_GB_PER_S), &groups(&fabric))
    };
    format!(
        "<h2>Figure 5: throughput by the size of a buffer</h2>\n<p>From one host to the next, over the loopback of \
         this machine. 'plain' are streams without a roundabout. The paper's link of 10 Gb/s is saturated from 4 kB \
         on, and from 1 MB on with everything else included. The line is at its {} GB/s, the highest throughput of \
         that other hardware. A measurement under 1 ms is too short and has no bar.</p>\n{}\n<h3>In shared \
         memory</h3>\n<p>Buffers are handed over, and nothing is copied.</p>\n{}\n<h3>Over libfabric, by \
         provider</h3>\n{over_fabric}",
        paper::LINK_GB_PER_S,
        bars(
            "Throughput",
            &["plain TCP", "tcp", "plain TLS", "tls"],
            "GB/s",
            Some(paper::LINK_GB_PER_S),
            &groups(&[Transport::Plain, Transport::Tcp, Transport::Rustls, Transport::Tls].map(Transport::name))
        ),
        bars("Throughput in shared memory", &["shared memory"], "GB/s", None, &groups(&[Transport::Shared.name()]))
    )
}

/// Draws links and threads, and table I.
pub(super) fn links(lines: &[&Line]) -> String {
    let rows = lines.first().map_or(0, |line| line.rows);
    let own = counted(cores() as u64, "core");
    let same = lines.first().map_or(0, |first| lines.iter().filter(|line| line.threads == first.threads).count());
    let names: Vec<&str> = lines.iter().take(same).map(|line| &line.link[..]).collect();
    let fabric = if names.iter().any(|name| name.starts_with("ofi-")) { OF_FABRIC } else { NO_FABRIC };
    let of = |value: fn(&Line) -> Option<f64>| -> Vec<BarGroup> {
        let group = |same: &[&Line]| BarGroup {
            label: counted(same[0].threads as u64, "thread"),
            values: same.iter().map(|line| value(line)).collect(),
            note: String::new(),
        };
        lines.chunk_by(|a, b| a.threads == b.threads).map(group).collect()
    };
    let paper: Vec<BarGroup> = (1..)
        .zip(paper::CPU_LOAD)
        .map(|(threads, (tcp, rdma))| BarGroup {
            label: counted(threads, "thread"),
            values: vec![Some(rdma), Some(tcp)],
            note: String::new(),
        })
        .collect();
    format!(
        "<h2>Figure 12: links and join threads, {PAPER_HOSTS} hosts all at once</h2>\n<p>Two tables of {} rows; \
         seconds of the join. All {PAPER_HOSTS} hosts share {own}, so more threads than that compete. The paper's \
         hosts had four cores each.</p>\n{fabric}\n{}\n<h2>Table I: load of the cores during the join</h2>\n\
         <h3>Annulus, of {own}</h3>\n{}\n<h3>The paper, of four cores per host</h3>\n{}",
        million(rows),
        bars("Seconds of the join", &names, "s", None, &of(|line| measured(line, line.join_s))),
        bars("Load", &names, "%", None, &of(|line| line.cpu_load.and_then(|load| measured(line, load * 100.0)))),
        bars("The paper's load", &["RDMA", "TCP"], "%", None, &paper)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::cyclo::Figure;

    #[test]
    fn a_transfer_that_is_too_short_has_no_bar() {
        let drawn = |too_short: bool| {
            let line = roundabout::Line {
                way: Transport::Tls.name().to_owned(),
                element_bytes: 1 << 20,
                elements: 3,
                gb_per_s: 133.7,
                ratio: None,
                spread: 0.0,
                too_short,
            };
            transfer(&[Record { figure: Figure::Transfer, what: What::Transfer(line) }])
        };
        let (short, long) = (drawn(true), drawn(false));
        let note = format!(">{TOO_SHORT}<");
        assert!(short.contains(&note) && !short.contains("133.7"), "{short}");
        assert!(!long.contains(&note) && long.contains("133.7"), "{long}");
    }
}
