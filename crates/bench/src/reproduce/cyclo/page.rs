//! The page with the figures.

use annulus_terminal::{
    machine::cores,
    report::{
        chart::{BarGroup, bars},
        lines::{self, Series, Stroke},
        page::{self, table},
    },
};

use super::{
    args::{CycloJoinArgs, Figure},
    cells::PAPER_HOSTS,
    paper,
    record::{Record, What},
};
use crate::{
    join::Line,
    roundabout::{self, Way},
};

/// All figures that were measured, and the paper's numbers beside them.
pub(super) fn page(machine: &str, args: &CycloJoinArgs, records: &[Record]) -> String {
    let lead = format!(
        "{machine}. All hosts are threads of one process on these {} cores. Where it says 'one at a time', each host joined while no other \
         did, on one thread, with what the others send coming from a second one: that is what a host has to do, not how fast a ring is. Where it \
         says 'all at once', the hosts shared the cores. Medians of {} rounds, every result compared with an independent answer. The \
         paper's numbers, where its text has them, are from other hardware ({}): shapes may be compared, numbers may not.",
        cores(),
        args.rounds,
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
    sections.push("<h2>All measurements</h2>\n<p>cyclo-join.csv beside this page has them all.</p>".to_owned());
    page::page("A spinning join: the figures of the paper, and Annulus", &lead, &sections)
}

fn million(rows: u64) -> String {
    format!("{} million", rows as f64 / 1e6)
}

/// Setup, join and waiting time as bars, for each number of hosts.
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
    if hosts == 1 { "1 host".to_owned() } else { format!("{hosts} hosts") }
}

fn alone<'a>(lines: &[&'a Line]) -> Vec<&'a Line> {
    lines.iter().copied().filter(|line| line.one_at_a_time).collect()
}

/// The same tables on more and more hosts.
fn fixed(number: &str, join: &str, lines: &[&Line]) -> String {
    let rows = lines.first().map_or(0, |line| line.rows);
    let mut text = format!(
        "<h2>Figure {number}: {join} of the same tables on more and more hosts</h2>\n<p>Two tables of {} rows of 12 bytes. The paper: \
         setup falls with the hosts, the join does not, since every host scans the whole table that goes around.{}</p>\n\
         <h3>One at a time, the host that takes longest</h3>\n{}",
        million(rows),
        if number == "10" { " Its text has no numbers of this figure." } else { "" },
        times("Seconds of a host", &alone(lines))
    );
    let together: Vec<_> = lines.iter().copied().filter(|line| !line.one_at_a_time).collect();
    if !together.is_empty() {
        let title = format!("All at once on {} cores", cores());
        text += &format!("<h3>{title}</h3>\n{}", times(&title, &together));
    }
    text
}

/// Setup by hosts, as a multiple of what one host takes, beside the paper's and 1/T.
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
        "<h3>Setup and memory of a host, by those of one host alone</h3>\n<p>Setup is time on a core, where the system tells it, as other work on \
         the machine weighs less on that. The paper's text has one host and six, on its hardware: 16.2 s and \
         2.7 s.</p>\n{}",
        lines::lines("Setup and memory of a host", "hosts", "%", &series)
    )
}

/// What does not depend on the machine, and what follows from it.
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
        ["hosts", "rows that came by", "pairs compared", "MB", "peak MB in setup", "memory x hosts", "setup x hosts"];
    format!(
        "<h3>Work and memory of a host</h3>\n<p>The last two columns are by those of one host: 1.00 where they \
            fall as 1/T.</p>\n{}",
        table(&header, &lines.iter().map(row).collect::<Vec<_>>())
    )
}

/// Tables that grow with the hosts.
fn growing(number: &str, join: &str, lines: &[&Line]) -> String {
    let rows = lines.first().map_or(0, |line| line.rows / u64::from(line.hosts));
    format!(
        "<h2>Figure {number}: {join} of tables that grow with the hosts</h2>\n<p>Two tables of {} rows of 12 bytes for each host, one host at a \
         time. The paper: setup stays, the join grows with the table that goes around.</p>\n{}",
        million(rows),
        times("Seconds of a host", lines)
    )
}

fn paper_chart(title: &str, series: &[&str], values: Vec<Option<f64>>) -> String {
    let group = BarGroup { label: hosts(PAPER_HOSTS), values, note: String::new() };
    format!("<h3>The paper's, 19.2 GB on its own hardware</h3>\n{}", bars(title, series, "s", None, &[group]))
}

fn paper_hash() -> String {
    paper_chart("The paper's hash join", &["setup", "join"], vec![None, Some(paper::HASH_JOIN_S)])
}

fn paper_sort() -> String {
    let values = vec![None, Some(paper::SORT_JOIN_S), Some(paper::SORT_WAITING_S)];
    paper_chart("The paper's sort-merge join", &["setup", "join", "waiting for data"], values)
}

/// One host and six, by the exponent.
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
        "<h2>Figure 9: keys by Zipf's law</h2>\n<p>Two tables of {} rows, over 2^20 keys. Seconds of the join, without setup, one host at a \
         time.</p>\n{}\n<h3>One host by a host of {PAPER_HOSTS}</h3>\n<p>Work is rows that came by and pairs that were compared, whatever the \
         machine. The paper's text has a number for z = 0.9, from its own hardware.</p>\n{}\n{}",
        million(rows),
        bars("Seconds of the join", &["1 host", "a host of 6"], "s", None, &seconds),
        bars("One host by a host of six", &["work", "time", "the paper's time"], "x", None, &factors),
        table(&["", "matches", "work of one host", "work of a host of 6"], &cells)
    )
}

/// Throughput by the size of a buffer.
fn transfer(records: &[Record]) -> String {
    let transfers =
        records.iter().filter_map(|record| if let What::Transfer(line) = &record.what { Some(line) } else { None });
    let lines: Vec<&roundabout::Line> = transfers.collect();
    let groups = |ways: &[Way]| -> Vec<BarGroup> {
        let of = |same: &[&roundabout::Line], way: &Way| {
            same.iter().find(|line| line.way == way.name()).map(|line| line.gb_per_s)
        };
        let group = |same: &[&roundabout::Line]| BarGroup {
            label: format!("{} KiB", same[0].element_bytes >> 10),
            values: ways.iter().map(|way| of(same, way)).collect(),
            note: String::new(),
        };
        lines.chunk_by(|a, b| a.element_bytes == b.element_bytes).map(group).collect()
    };
    format!(
        "<h2>Figure 5: throughput by the size of a buffer</h2>\n<p>From one host to the next, over the loopback of this machine; 'plain' are streams \
         without a roundabout. The paper's link of 10 Gb/s is saturated from 4 kB on, and with all else from 1 MB on; the line is at its \
         {} GB/s, the most of that other hardware.</p>\n{}\n<h3>In shared memory</h3>\n<p>Buffers are handed over, and nothing is \
         copied.</p>\n{}",
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

/// Links and threads, and table I.
fn links(lines: &[&Line]) -> String {
    let rows = lines.first().map_or(0, |line| line.rows);
    let names = ["shared memory", "tcp", "tls"];
    let of = |value: fn(&Line) -> Option<f64>| -> Vec<BarGroup> {
        let group = |same: &[&Line]| BarGroup {
            label: if same[0].threads == 1 { "1 thread".to_owned() } else { format!("{} threads", same[0].threads) },
            values: same.iter().map(|line| value(line)).collect(),
            note: String::new(),
        };
        lines.chunk_by(|a, b| a.threads == b.threads).map(group).collect()
    };
    let paper: Vec<BarGroup> = (1..)
        .zip(paper::CPU_LOAD)
        .map(|(threads, (tcp, rdma))| BarGroup {
            label: if threads == 1 { "1 thread".to_owned() } else { format!("{threads} threads") },
            values: vec![Some(rdma), Some(tcp)],
            note: String::new(),
        })
        .collect();
    format!(
        "<h2>Figure 12: links and join threads, {PAPER_HOSTS} hosts all at once</h2>\n<p>Two tables of {} rows; seconds of the join. All \
         {PAPER_HOSTS} hosts share {} cores, so threads beyond those compete, where the paper's hosts had four cores each.</p>\n{}\n\
         <h2>Table I: load of the cores during the join</h2>\n<h3>Ours, of {} cores</h3>\n{}\n<h3>The paper's, of four cores a host</h3>\n{}",
        million(rows),
        cores(),
        bars("Seconds of the join", &names, "s", None, &of(|line| Some(line.join_s))),
        cores(),
        bars("Load", &names, "%", None, &of(|line| line.cpu_load.map(|load| load * 100.0))),
        bars("The paper's load", &["RDMA", "TCP"], "%", None, &paper)
    )
}
