//! Figure 8 and table 4, as sections of the page.

use annulus_charts::{
    bars::{BarGroup, deviations},
    page::{self, escape},
};

use annulus_terminal::{statistics::TOO_SHORT, units::counted};

use super::{CHANNEL_CLUSTER, PAIRS, QueryLine, QueryWay, RING, Suite, WAYS};
use crate::{
    exchange::Line,
    reproduce::ring::{
        Part, Queries, Results,
        paper::{self, FIGURE_8, QueryBar, SuiteSum, TABLE_4},
    },
};

/// Draws a panel of bars for each benchmark and number of threads, and a table of all times.
pub fn figure_8(results: &Results) -> String {
    let heading = "<h2>Figure 8: whole queries</h2>";
    let queries = &results.queries;
    let panels: String =
        panels(queries).map(|(suite, threads, lines)| panel(queries, suite, threads, &lines)).collect();
    format!(
        "{heading}<p>Bars: the logarithm to base 2 of the time with channels divided by the time with the ring. At +1 \
         the ring is twice as fast, at -1 the channel. In the paper's channels, producers copy the rows of each \
         consumer into a batch, as <code>channel+cluster</code> does; with <code>channel</code>, consumers gather \
         them, as from a ring. <code>mutex-channel+cluster</code> and <code>paper-ring</code> are the paper's own \
         pair. The rings have K = {}, as in the paper, and <code>auto</code> chooses without a profile of the \
         machine. A query that shuffles no rows has no bar: its times differ by chance. One that takes under 1 \
         ms in a way is too short to measure, and has no bar there. Times: medians in ms of queries whose answers \
         were equal, with their spread, the interquartile range divided by the median.</p><p>Published, on other \
         hardware: the bars that the paper names, on {}, {} threads, {} of TPC-H, {} of ClickBench. What the paper \
         says of its query 33 of ClickBench is true of the benchmark's query 30.</p>{panels}",
        RING.groups.unwrap_or(1),
        paper::MACHINE,
        paper::QUERY_THREADS,
        TABLE_4[0].tables,
        TABLE_4[1].tables,
    )
}

/// Returns the lines of each benchmark and number of threads.
fn panels(queries: &Queries) -> impl Iterator<Item = (Suite, usize, Vec<&QueryLine>)> {
    let of = move |suite: Suite, threads: usize| {
        let lines = queries.lines.iter().filter(move |line| line.suite == suite && line.threads == threads);
        (suite, threads, lines.collect::<Vec<_>>())
    };
    queries.threads().into_iter().flat_map(move |threads| Suite::ALL.map(|suite| of(suite, threads)))
}

/// Names a channel and the ring that it is compared with.
fn against((channel, ring): (QueryWay, QueryWay)) -> String {
    format!("{} / {}", channel.way, ring.way)
}

fn panel(queries: &Queries, suite: Suite, threads: usize, lines: &[&QueryLine]) -> String {
    let clustered = |line: &QueryLine| line.log2(CHANNEL_CLUSTER, RING);
    let mut sorted = lines.to_vec();
    // Those without a bar come last.
    let place = |line: &QueryLine| clustered(line).filter(|_| line.shuffles()).unwrap_or(f64::INFINITY);
    sorted.sort_by(|a, b| place(a).total_cmp(&place(b)));
    let bars: Vec<_> = sorted
        .iter()
        .map(|line| BarGroup {
            label: format!("query {}", line.query),
            values: if line.shuffles() { PAIRS.map(|(way, ring)| line.log2(way, ring)).into() } else { Vec::new() },
            note: match published(line) {
                _ if !line.shuffles() => "no exchange".to_owned(),
                _ if PAIRS.iter().any(|&(way, ring)| line.log2(way, ring).is_none()) => TOO_SHORT.to_owned(),
                Some(bar) => format!("paper {:+.2}", bar.log2),
                None => String::new(),
            },
        })
        .collect();
    let title = format!("{}, {} on {}", suite.name(), queries.size(suite), counted(threads as u64, "thread"));
    let names = PAIRS.map(against);
    let chart = deviations(&title, &names.each_ref().map(String::as_str), &bars);
    format!("<h3>{}</h3>{chart}{}", escape(&title), times(lines))
}

/// Returns a table of the times of each query.
fn times(lines: &[&QueryLine]) -> String {
    let mut header = ["query", "shuffled rows"].map(str::to_owned).to_vec();
    header.extend(WAYS.map(QueryWay::name));
    header.extend(PAIRS.map(|pair| format!("log2 {}", against(pair))));
    header.push("published".to_owned());
    let row =
        |line: &&QueryLine| {
            let mut row = vec![line.query.to_string(), line.shuffled_rows().to_string()];
            row.extend(WAYS.map(|way| {
                line.time(way).map_or("-".to_owned(), |time| format!("{:.1} ({:.2})", time.ms, time.spread))
            }));
            let exponent = |(way, ring)| line.log2(way, ring).map_or("-".to_owned(), |value| format!("{value:+.2}"));
            row.extend(PAIRS.map(exponent));
            row.push(published(line).map_or("-".to_owned(), |bar| match bar.named {
                named if named == bar.query => format!("{:+.2}", bar.log2),
                named => format!("{:+.2} (its query {named})", bar.log2),
            }));
            row
        };
    let rows: Vec<_> = lines.iter().map(row).collect();
    page::table(&header.iter().map(String::as_str).collect::<Vec<_>>(), &rows)
}

fn published(line: &QueryLine) -> Option<&'static QueryBar> {
    FIGURE_8.iter().find(|bar| bar.suite == line.suite && bar.query == line.query)
}

/// Returns the sums of each benchmark, and the exchange alone, beside the published ones.
pub fn table_4(results: &Results) -> String {
    let heading = "<h2>Table 4: sums of whole queries</h2>";
    let queries = &results.queries;
    let mut header = vec!["workload".to_owned()];
    header.extend(WAYS.map(QueryWay::name));
    header.extend(
        ["channel+cluster / ring", "published: ring, K = 2", "ring, K = 1", "channel", "channel / ring"]
            .map(str::to_owned),
    );
    let rows: Vec<_> = panels(queries).map(|(suite, threads, lines)| sums(suite, threads, &lines)).collect();
    let sums = page::table(&header.iter().map(String::as_str).collect::<Vec<_>>(), &rows);
    format!(
        "{heading}<p>Sums of the medians, in seconds. Published, on other hardware ({}): {}, {} of TPC-H, and {}, {} \
         of ClickBench.</p>{sums}{}",
        paper::MACHINE,
        counted(TABLE_4[0].queries as u64, "query"),
        TABLE_4[0].tables,
        counted(TABLE_4[1].queries as u64, "query"),
        TABLE_4[1].tables,
        exchange_alone(results)
    )
}

fn sums(suite: Suite, threads: usize, lines: &[&QueryLine]) -> Vec<String> {
    let sum = |way: QueryWay| lines.iter().map(|line| line.ms(way)).sum::<Option<f64>>().map(|ms| ms / 1e3);
    let seconds = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.3}"));
    let ratio = |channel: f64, ring: f64| format!("{:.2}", channel / ring);
    let count = counted(lines.len() as u64, "query");
    let mut row = vec![format!("{}, {count}, {}", suite.name(), counted(threads as u64, "thread"))];
    row.extend(WAYS.map(|way| seconds(sum(way))));
    row.push(sum(CHANNEL_CLUSTER).zip(sum(RING)).map_or("-".to_owned(), |(channel, ring)| ratio(channel, ring)));
    let there = TABLE_4.iter().find(|row| row.suite == suite);
    row.extend(there.map_or_else(Vec::new, |&SuiteSum { ring_s, ring_k1_s, channel_s, .. }| {
        vec![ring_s.to_string(), ring_k1_s.to_string(), format!("{channel_s:.1}"), ratio(channel_s, ring_s)]
    }));
    row
}

/// Returns the row of table 4 that has no queries: rows of 8 bytes between threads.
fn exchange_alone(results: &Results) -> String {
    let line = |strategy: &str| {
        let mut lines = results.lines(Part::Uniform).filter(|line| line.row_bytes == 8);
        lines.find(|line| line.strategy == strategy)
    };
    let here = [("ring", "channel"), ("paper-ring", "mutex-channel")].map(|(ring, channel)| {
        let lines = [ring, channel].map(line);
        let [ring_gb_s, channel_gb_s] = lines.map(|line| line.and_then(Line::measured_gb_per_s));
        let ratio = ring_gb_s.zip(channel_gb_s).map(|(ring, channel)| format!("{:.2}", ring / channel));
        let mut row = vec![format!("{ring} and {channel}")];
        row.extend(lines.map(|line| line.map_or("-".to_owned(), Line::shown_gb_per_s)));
        row.push(ratio.unwrap_or_else(|| "-".to_owned()));
        row
    });
    let there = ["published".to_owned(), "11.6".to_owned(), "5.6".to_owned(), "2.07 (printed: 1.6)".to_owned()];
    let rows: Vec<_> = here.into_iter().chain([there.to_vec()]).collect();
    format!(
        "<p>The exchange alone, rows of 8 bytes:</p>{}",
        page::table(&["strategies", "ring GB/s", "channel GB/s", "ring / channel"], &rows)
    )
}
