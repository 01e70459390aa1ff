//! The page of figures.

use annulus_terminal::{
    machine::cores,
    report::{
        chart::{BarGroup, bars},
        lines::{self, Series, Stroke},
        page::table,
    },
    units::counted,
};

use super::{
    args::{CycloJoinArgs, Figure},
    cells::PAPER_HOSTS,
    paper,
    record::{Record, What},
};
use crate::{
    join::Line,
    reproduce,
    roundabout::{self, Way},
};

/// Returns the page with all measured figures and the paper's numbers.
pub(super) fn page(machine: &str, args: &CycloJoinArgs, records: &[Record]) -> String {
    let lead = format!(
        "{machine}. All hosts are threads of one process on {}. 'One at a time' means that each host joined while no \
         other did, on one thread, and a second thread sent what the other hosts send. It shows the work of a host, \
         and not how fast a ring is. 'All at once' means that the hosts shared the cores. Values are medians of {}, \
         and every result was compared with an independent answer. The paper's numbers, where its text has them, are \
         from other hardware ({}): compare shapes, not numbers.",
        counted(cores() as u64, "core"),
        counted(args.rounds as u64, "round"),
        paper::MACHINES
    );
    let of = |figure: Figure| -> Vec<&Line> {
        let joins = records.iter().filter(|record| record.figure == figure);
        joins.filter_map(|record| if let What::Join(line) = &record.what { Some(&**line) } else { None }).collect()
    };
    let mut sections = Vec::new();
    for &figure in &args.figures {
        let lines = of(figure);
        sections.push(match figure {
            Figure::Transfer => transfer(records),
            Figure::Hash => [fixed("7", "hash join", &lines), setup(&lines), work(&lines)].concat(),
            Figure::HashGrowing => [growing("8", "hash join", &lines), paper_hash()].concat(),
            Figure::Zipf => zipf(&lines),
            Figure::Sort => fixed("10", "sort-merge join", &lines),
            Figure::SortGrowing => [growing("11", "sort-merge join", &lines), paper_sort()].concat(),
            Figure::Links => links(&lines),
        });
    }
    sections.push("<h2>All measurements</h2>\n<p>cyclo-join.csv, beside this page, has them.</p>".to_owned());
    reproduce::page("A spinning join: the paper's figures, measured with Annulus", &lead, args.quick_size(), sections)
}

fn million(rows: u64) -> String {
    format!("{} million", rows as f64 / 1e6)
}

/// Draws setup, join and waiting time as bars, for each number of hosts.
fn times(title: &str, lines: &[&Line]) -> String {
    let group = |line: &&Line| {
        let waiting = line.waiting_share * line.join_s;
        BarGroup {
            label: hosts(line.hosts),
            values: vec![Some(line.setup_s), Some(line.join_s - waiting), Some(waiting)],
            note: format!("{:.3} s", line.total_s),
        }
    };
    bars(title, &["setup", "join", "waiting for data"], "s", None, &lines.iter().map(group).collect::<Vec<_>>())
}

fn hosts(hosts: u16) -> String {
    counted(hosts.into(), "host")
}

fn alone<'a>(lines: &[&'a Line]) -> Vec<&'a Line> {
    lines.iter().copied().filter(|line| line.one_at_a_time).collect()
}

/// Draws the join of the same tables, by number of hosts.
fn fixed(number: &str, join: &str, lines: &[&Line]) -> String {
    let rows = lines.first().map_or(0, |line| line.rows);
    let mut text = format!(
        "<h2>Figure {number}: {join} of the same tables, by hosts</h2>\n<p>Two tables of {} rows of 12 bytes. In the \
         paper, setup gets shorter with more hosts and the join does not, because every host scans the whole rotating \
         table.{}</p>\n<h3>One at a time, the slowest host</h3>\n{}",
        million(rows),
        if number == "10" { " Its text has no numbers for this figure." } else { "" },
        times("Seconds of a host", &alone(lines))
    );
    let together: Vec<_> = lines.iter().copied().filter(|line| !line.one_at_a_time).collect();
    if !together.is_empty() {
        let title = format!("All at once on {}", counted(cores() as u64, "core"));
        text += &format!("<h3>{title}</h3>\n{}", times(&title, &together));
    }
    text
}

/// Draws setup and memory by number of hosts, as percentages of those of one host, with the paper's
/// values and 1/T.
fn setup(lines: &[&Line]) -> String {
    let lines = alone(lines);
    let Some(one) = lines.iter().find(|line| line.hosts == 1) else { return String::new() };
    let share = |value: f64, of: f64| 100.0 * value / of;
    let ours = |value: fn(&Line) -> f64| -> Vec<(usize, f64)> {
        lines.iter().map(|line| (usize::from(line.hosts), share(value(line), value(one)))).collect()
    };
    let ideal = lines.iter().map(|line| (usize::from(line.hosts), share(1.0, f64::from(line.hosts)))).collect();
    let paper =
        paper::HASH_SETUP_S.map(|(hosts, seconds)| (usize::from(hosts), share(seconds, paper::HASH_SETUP_S[0].1)));
    let line = |name: &str, stroke, points| Series { name: name.to_owned(), stroke, points };
    let series = [
        line("setup", Stroke::Main, ours(Line::own_setup_s)),
        line("memory", Stroke::Thin(4), ours(|line| line.host_mb)),
        line("paper's setup", Stroke::Thin(0), paper.into()),
        line("1/T", Stroke::Dashed, ideal),
    ];
    format!(
        "<h3>Setup and memory of a host, in percent of a single host's</h3>\n<p>Setup is time on a core where the \
         system measures it, because other work on the machine disturbs it less. The paper's text has one host and \
         six, on its hardware: 16.2 s and 2.7 s.</p>\n{}",
        lines::lines("Setup and memory of a host", "hosts", "%", &series)
    )
}

/// Returns a table of work, which does not depend on the machine, and of memory.
fn work(lines: &[&Line]) -> String {
    let lines = alone(lines);
    let Some(one) = lines.iter().find(|line| line.hosts == 1) else { return String::new() };
    let row = |line: &&Line| {
        let times = f64::from(line.hosts);
        vec![
            line.hosts.to_string(),
            line.host_probed.to_string(),
            line.host_compared.to_string(),
            format!("{:.1}", line.host_mb),
            line.peak_mb.map_or("-".to_owned(), |peak| format!("{peak:.1}")),
            format!("{:.2}", line.host_mb * times / one.host_mb),
            format!("{:.2}", line.own_setup_s() * times / one.own_setup_s()),
        ]
    };
    let header =
        ["hosts", "rows probed", "pairs compared", "MB", "peak MB in setup", "memory x hosts", "setup x hosts"];
    format!(
        "<h3>Work and memory of a host</h3>\n<p>The last two columns are divided by those of one host: 1.00 means \
         that they fall as 1/T.</p>\n{}",
        table(&header, &lines.iter().map(row).collect::<Vec<_>>())
    )
}

/// Draws the join of tables that grow with the number of hosts.
fn growing(number: &str, join: &str, lines: &[&Line]) -> String {
    let rows = lines.first().map_or(0, |line| line.rows / u64::from(line.hosts));
    format!(
        "<h2>Figure {number}: {join} of tables that grow with the hosts</h2>\n<p>Two tables of {} rows of 12 bytes per \
         host, one host at a time. In the paper, setup stays the same and the join grows with the rotating \
         table.</p>\n{}",
        million(rows),
        times("Seconds of a host", lines)
    )
}

fn paper_chart(title: &str, series: &[&str], values: Vec<Option<f64>>) -> String {
    let group = BarGroup { label: hosts(PAPER_HOSTS), values, note: String::new() };
    format!("<h3>The paper's, with 19.2 GB on its own hardware</h3>\n{}", bars(title, series, "s", None, &[group]))
}

fn paper_hash() -> String {
    paper_chart("The paper's hash join", &["setup", "join"], vec![None, Some(paper::HASH_JOIN_S)])
}

fn paper_sort() -> String {
    let values = vec![None, Some(paper::SORT_JOIN_S), Some(paper::SORT_WAITING_S)];
    paper_chart("The paper's sort-merge join", &["setup", "join", "waiting for data"], values)
}

/// Draws one host and six, by Zipf exponent.
fn zipf(lines: &[&Line]) -> String {
    let rows = lines.first().map_or(0, |line| line.rows);
    let (mut seconds, mut factors, mut cells) = (Vec::new(), Vec::new(), Vec::new());
    for pair in lines.chunks_exact(2) {
        let [one, six] = [pair[0], pair[1]];
        let label = format!("z = {:.1}", one.zipf.unwrap_or_default());
        let bars = |values| BarGroup { label: label.clone(), values, note: String::new() };
        seconds.push(bars(vec![Some(one.join_s), Some(six.join_s)]));
        let (work, time) = (one.work() as f64 / six.work() as f64, one.join_s / six.join_s);
        let paper = (one.zipf == Some(0.9)).then_some(paper::ZIPF_FACTOR);
        factors.push(bars(vec![Some(work), Some(time), paper]));
        cells.push(vec![label, one.matches.to_string(), one.work().to_string(), six.work().to_string()]);
    }
    format!(
        "<h2>Figure 9: keys by Zipf's law</h2>\n<p>Two tables of {} rows, over 2^20 keys. Seconds of the join, without \
         setup, one host at a time.</p>\n{}\n<h3>A single host divided by a host of {PAPER_HOSTS}</h3>\n<p>Work is \
         rows probed and pairs compared, and does not depend on the machine. The paper's text has a number for z = \
         0.9, from its own hardware.</p>\n{}\n{}",
        million(rows),
        bars("Seconds of the join", &["1 host", "a host of 6"], "s", None, &seconds),
        bars("A single host divided by a host of six", &["work", "time", "the paper's time"], "x", None, &factors),
        table(&["", "matches", "work of one host", "work of a host of 6"], &cells)
    )
}

/// Draws throughput by the size of a buffer.
fn transfer(records: &[Record]) -> String {
    let transfers =
        records.iter().filter_map(|record| if let What::Transfer(line) = &record.what { Some(line) } else { None });
    let lines: Vec<&roundabout::Line> = transfers.collect();
    let groups = |ways: &[Way]| -> Vec<BarGroup> {
        let group = |same: &[&roundabout::Line]| {
            let lines = || ways.iter().map(|way| same.iter().find(|line| line.way == way.name()));
            let short = lines().flatten().any(|line| line.too_short);
            BarGroup {
                label: format!("{} KiB", same[0].element_bytes >> 10),
                values: lines().map(|line| line.filter(|line| !line.too_short).map(|line| line.gb_per_s)).collect(),
                note: if short { roundabout::TOO_SHORT.to_owned() } else { String::new() },
            }
        };
        lines.chunk_by(|a, b| a.element_bytes == b.element_bytes).map(group).collect()
    };
    format!(
        "<h2>Figure 5: throughput by the size of a buffer</h2>\n<p>From one host to the next, over the loopback of \
         this machine. 'plain' are streams without a roundabout. The paper's link of 10 Gb/s is saturated from 4 kB \
         on, and from 1 MB on with everything else included. The line is at its {} GB/s, the highest throughput of \
         that other hardware. A measurement under 1 ms is too short and has no bar.</p>\n{}\n<h3>In shared \
         memory</h3>\n<p>Buffers are handed over, and nothing is copied.</p>\n{}",
        paper::LINK_GB_PER_S,
        bars(
            "Throughput",
            &["plain TCP", "tcp", "plain TLS", "tls"],
            "GB/s",
            Some(paper::LINK_GB_PER_S),
            &groups(&[Way::Plain, Way::Tcp, Way::Rustls, Way::Tls])
        ),
        bars("Throughput in shared memory", &["shared memory"], "GB/s", None, &groups(&[Way::Shared]))
    )
}

/// Draws links and threads, and table I.
fn links(lines: &[&Line]) -> String {
    let rows = lines.first().map_or(0, |line| line.rows);
    let own = counted(cores() as u64, "core");
    let names = ["shared memory", "tcp", "tls"];
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
         hosts had four cores each.</p>\n{}\n<h2>Table I: load of the cores during the join</h2>\n\
         <h3>Annulus, of {own}</h3>\n{}\n<h3>The paper, of four cores per host</h3>\n{}",
        million(rows),
        bars("Seconds of the join", &names, "s", None, &of(|line| Some(line.join_s))),
        bars("Load", &names, "%", None, &of(|line| line.cpu_load.map(|load| load * 100.0))),
        bars("The paper's load", &["RDMA", "TCP"], "%", None, &paper)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transfer_that_is_too_short_has_no_bar() {
        let drawn = |too_short: bool| {
            let line = roundabout::Line {
                way: Way::Tls.name(),
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
        let note = format!(">{}<", roundabout::TOO_SHORT);
        assert!(short.contains(&note) && !short.contains("133.7"), "{short}");
        assert!(!long.contains(&note) && long.contains("133.7"), "{long}");
    }
}
