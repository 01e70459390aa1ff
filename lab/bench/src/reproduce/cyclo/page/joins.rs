//! Joins by the number of hosts and by Zipf's exponent: figures 7 to 11.

use annulus_terminal::{machine::cores, statistics::TOO_SHORT, units::counted};

use annulus_charts::{
    bars::{BarGroup, bars},
    lines::{self, Series, Stroke},
    page::table,
};

use super::{hosts, measured, million};
use crate::{
    join::Line,
    reproduce::cyclo::{cells::PAPER_HOSTS, paper},
};

/// Draws setup, join and waiting time as bars, for each number of hosts.
fn times(title: &str, lines: &[&Line]) -> String {
    let group = |line: &&Line| {
        let values = [line.setup_s, line.joining_s(), line.join_s - line.joining_s()];
        BarGroup {
            label: hosts(line.hosts),
            values: values.map(|value| measured(line, value)).into(),
            note: measured(line, line.total_s).map_or(TOO_SHORT.to_owned(), |total| format!("{total:.3} s")),
        }
    };
    bars(title, &["setup", "join", "waiting for data"], "s", None, &lines.iter().map(group).collect::<Vec<_>>())
}

fn one_at_a_time<'a>(lines: &[&'a Line]) -> Vec<&'a Line> {
    lines.iter().copied().filter(|line| line.one_at_a_time).collect()
}

/// Draws the join of the same tables, by number of hosts.
pub(super) fn fixed(number: &str, join: &str, lines: &[&Line]) -> String {
    let rows = lines.first().map_or(0, |line| line.rows);
    let mut text = format!(
        "<h2>Figure {number}: {join} of the same tables, by hosts</h2>\n<p>Two tables of {} rows of 12 bytes. In the \
         paper, setup gets shorter with more hosts and the join does not, because every host scans the whole rotating \
         table.{}</p>\n<h3>One at a time, the slowest host</h3>\n{}",
        million(rows),
        if number == "10" { " Its text has no numbers for this figure." } else { "" },
        times("Seconds of a host", &one_at_a_time(lines))
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
pub(super) fn setup(lines: &[&Line]) -> String {
    let mut lines = one_at_a_time(lines);
    lines.retain(|line| !line.too_short);
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
pub(super) fn work(lines: &[&Line]) -> String {
    let lines = one_at_a_time(lines);
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
            if line.too_short || one.too_short {
                TOO_SHORT.to_owned()
            } else {
                format!("{:.2}", line.own_setup_s() * times / one.own_setup_s())
            },
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
pub(super) fn growing(number: &str, join: &str, lines: &[&Line]) -> String {
    let rows = lines.first().map_or(0, |line| line.rows / u64::from(line.hosts));
    format!(
        "<h2>Figure {number}: {join} of tables that grow with the hosts</h2>\n<p>Two tables of {} rows of 12 bytes per \
         host, one host at a time. In the paper, setup stays the same and the join grows with the rotating \
         table.</p>\n{}",
        million(rows),
        times("Seconds of a host", &one_at_a_time(lines))
    )
}

fn paper_chart(title: &str, series: &[&str], values: Vec<Option<f64>>) -> String {
    let group = BarGroup { label: hosts(PAPER_HOSTS), values, note: String::new() };
    format!("<h3>The paper's, with 19.2 GB on its own hardware</h3>\n{}", bars(title, series, "s", None, &[group]))
}

pub(super) fn paper_hash() -> String {
    paper_chart("The paper's hash join", &["setup", "join"], vec![None, Some(paper::HASH_JOIN_S)])
}

pub(super) fn paper_sort() -> String {
    let values = vec![None, Some(paper::SORT_JOIN_S), Some(paper::SORT_WAITING_S)];
    paper_chart("The paper's sort-merge join", &["setup", "join", "waiting for data"], values)
}

/// Draws one host and six, by Zipf exponent.
pub(super) fn zipf(lines: &[&Line]) -> String {
    let rows = lines.first().map_or(0, |line| line.rows);
    let (mut seconds, mut factors, mut cells) = (Vec::new(), Vec::new(), Vec::new());
    for pair in lines.chunks_exact(2) {
        let [one, six] = [pair[0], pair[1]];
        let label = format!("z = {:.1}", one.zipf.unwrap_or_default());
        let bars = |values| BarGroup { label: label.clone(), values, note: String::new() };
        seconds.push(bars(vec![measured(one, one.join_s), measured(six, six.join_s)]));
        let work = one.work() as f64 / six.work() as f64;
        let time = measured(one, one.join_s).zip(measured(six, six.join_s)).map(|(one, six)| one / six);
        let paper = (one.zipf == Some(0.9)).then_some(paper::ZIPF_FACTOR);
        factors.push(bars(vec![Some(work), time, paper]));
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
