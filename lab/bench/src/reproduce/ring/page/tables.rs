//! The tables of the page.

use std::collections::BTreeSet;

use annulus_charts::page::{self, escape};
use annulus_simulate::{PublishedRow, RowSizes};
use annulus_terminal::units::counted;

use super::{
    super::{Part, Results, paper},
    owned,
};
use crate::exchange::{self, Line};

/// Returns the strategies of some lines, in their order.
fn strategies<'a>(lines: &[&'a Line]) -> Vec<&'a str> {
    let mut seen = BTreeSet::new();
    lines.iter().map(|line| &line.strategy[..]).filter(|strategy| seen.insert(*strategy)).collect()
}

fn optional(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.2}"))
}

/// Returns the spread of a throughput, if there is one.
fn spread(line: &Line) -> String {
    optional(line.measured_gb_per_s().map(|_| line.spread))
}

pub(super) fn table_1(results: &Results) -> String {
    let published = page::table(&["property, published", "batch", "channel", "ring"], &owned(&paper::TABLE_1));
    let rows: Vec<_> = results
        .lines(Part::Threads)
        .map(|line| {
            let producers = line.ops_per_batch + line.locks_per_batch;
            let consumers = line.consumer_ops_per_batch + line.consumer_locks_per_batch;
            let figures = [
                line.peak_mb,
                producers + consumers + line.handoffs_per_batch,
                line.ops_per_batch,
                line.consumer_ops_per_batch,
                line.locks_per_batch,
                line.consumer_locks_per_batch,
                line.handoffs_per_batch,
            ];
            let mut row = vec![line.strategy.clone(), line.m.to_string()];
            row.extend(figures.map(|figure| format!("{figure:.1}")));
            row.push(line.shown(line.first_ms));
            row
        })
        .collect();
    let header = [
        "strategy",
        "M = N",
        "peak MB",
        "synchronisation a batch",
        "producers' operations",
        "consumers' operations",
        "producers' locks",
        "consumers' locks",
        "hand-offs",
        "first ms",
    ];
    format!(
        "<h2>Table 1: properties</h2>{published}<p>Measured, for each batch of the input. The first column of \
         synchronisation is the sum of those after it. Waits and wake-ups are among the operations. Runs that are too \
         short to measure are here, too, without times.</p>{}",
        page::table(&header, &rows)
    )
}

/// Returns a row of throughputs for each size of rows.
fn by_size(of: &[&Line], published: &[&PublishedRow]) -> (Vec<String>, Vec<Vec<String>>) {
    let strategies = strategies(of);
    let mut header = vec!["row bytes".to_owned()];
    header.extend(strategies.iter().map(|strategy| (*strategy).to_owned()));
    if let Some(row) = published.first() {
        header.extend(row.gb_s.iter().map(|(strategy, _)| format!("{strategy}, published")));
    }
    let measured = of.iter().map(|line| line.row_bytes as usize);
    let sizes: BTreeSet<_> = measured.chain(published.iter().map(|row| row.row_bytes)).collect();
    let rows = sizes.into_iter().map(|bytes| {
        let figure = |strategy: &&str| {
            let line = of.iter().find(|line| line.row_bytes as usize == bytes && line.strategy == *strategy);
            line.map_or("-".to_owned(), |line| line.shown_gb_per_s())
        };
        let mut row = vec![bytes.to_string()];
        row.extend(strategies.iter().map(figure));
        let same = published.iter().find(|row| row.row_bytes == bytes);
        if let Some(first) = published.first() {
            row.extend(first.gb_s.iter().map(|(strategy, _)| {
                let cell = same.and_then(|row| row.gb_s.iter().find(|cell| cell.0 == *strategy));
                optional(cell.map(|cell| cell.1))
            }));
        }
        row
    });
    (header, rows.collect())
}

fn sized(title: &str, of: &[&Line], published: &[&PublishedRow]) -> String {
    let (header, rows) = by_size(of, published);
    format!("<h3>{title}</h3>{}", page::table(&header.iter().map(String::as_str).collect::<Vec<_>>(), &rows))
}

/// Returns the rows of table 2.
fn second(results: &Results, sizes: RowSizes) -> Vec<&PublishedRow> {
    results.published.iter().filter(|row| row.place.starts_with("Table 2") && row.sizes == sizes).collect()
}

pub(super) fn table_2(results: &Results) -> String {
    let [uniform, normal] = [Part::Uniform, Part::Normal].map(|part| results.lines(part).collect::<Vec<_>>());
    format!(
        "<h2>Table 2: sizes of rows</h2>{}{}",
        sized("Uniform", &uniform, &second(results, RowSizes::Uniform)),
        sized("Normal", &normal, &second(results, RowSizes::Normal))
    )
}

pub(super) fn table_3(results: &Results) -> String {
    let of: Vec<_> = results.lines(Part::Uniform).collect();
    let ours = |bytes: usize, strategy: &str| {
        let line = of.iter().find(|line| line.row_bytes as usize == bytes && line.strategy == strategy);
        line.map_or("-".to_owned(), |line| line.shown_gb_per_s())
    };
    let rows: Vec<_> = results
        .published
        .iter()
        .filter(|row| row.place.starts_with("Table 3"))
        .map(|row| {
            let mut cells = vec![row.place.clone(), row.row_bytes.to_string()];
            let published = row.gb_s.iter().map(|(strategy, gb_s)| format!("{strategy} {gb_s:.2}"));
            cells.push(published.collect::<Vec<_>>().join(", "));
            cells.extend(["mutex-channel", "paper-ring", "ring"].map(|strategy| ours(row.row_bytes, strategy)));
            cells
        })
        .collect();
    let header = ["published", "row bytes", "GB/s there", "mutex-channel here", "paper-ring here", "ring here"];
    format!("<h2>Table 3: machines</h2>{}", page::table(&header, &rows))
}

pub(super) fn left_out(results: &Results) -> String {
    let rows: Vec<_> = [(Part::Unequal, "uniform keys"), (Part::Skew, "Zipf's law")]
        .into_iter()
        .flat_map(|(part, keys)| results.lines(part).map(move |line| (keys, line)))
        .map(|(keys, line)| {
            vec![
                format!("{}x{}", line.m, line.n),
                keys.to_owned(),
                line.strategy.clone(),
                line.shown_gb_per_s(),
                spread(line),
                format!("{:.1}", line.peak_mb),
            ]
        })
        .collect();
    let header = ["threads", "keys", "strategy", "GB/s", "spread", "peak MB"];
    format!("<h2>What the paper left out: M and N that differ, skew</h2>{}", page::table(&header, &rows))
}

/// Shows what a second ring costs or gains, also where all threads share a cache.
pub(super) fn two_rings(results: &Results) -> String {
    let usual = results.lines(Part::Uniform).find(|line| line.strategy == "ring-per-domain");
    let caches = counted(usual.map_or(1, |line| line.domains) as u64, "last-level cache");
    let row = |line: &Line| {
        let rings = if line.strategy == "ring" { 1 } else { line.domains };
        vec![
            line.strategy.clone(),
            rings.to_string(),
            line.shown_gb_per_s(),
            spread(line),
            format!("{:.1}", line.ops_per_batch),
            format!("{:.1}", line.consumer_ops_per_batch),
        ]
    };
    let header = ["strategy", "rings", "GB/s", "spread", "producers' operations", "consumers' operations"];
    format!(
        "<h2>Two rings</h2><p>The paper proposes a ring for each cache domain. Here the producers' threads have \
         {caches}, which is the number of rings of <code>ring-per-domain</code> elsewhere on this page. These have \
         two in any case.</p>{}",
        page::table(&header, &results.lines(Part::Domains).map(row).collect::<Vec<_>>())
    )
}

/// Lists the processor's events in the cells of table 2, or says why there are none.
pub(super) fn events(results: &Results) -> String {
    let heading = "<h2>Processor events for each row</h2>";
    if let Some(reason) = &results.no_counters {
        return format!("{heading}<p>None: {}.</p>", escape(reason));
    }
    let events = exchange::events(results.lines(Part::Uniform));
    let header: Vec<_> =
        ["strategy", "row bytes"].map(str::to_owned).into_iter().chain(exchange::event_header(&events)).collect();
    let row =
        |line: &Line| [vec![line.strategy.clone(), line.row_bytes.to_string()], line.events_per_row(&events)].concat();
    let rows: Vec<_> = results.lines(Part::Uniform).map(row).collect();
    format!("{heading}{}", page::table(&header.iter().map(String::as_str).collect::<Vec<_>>(), &rows))
}
