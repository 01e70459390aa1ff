//! The page with all figures.

use std::collections::BTreeSet;

use annulus_simulate::{PublishedRow, RowSizes};
use annulus_terminal::{
    report::{
        lines::{Series, Stroke, lines},
        page,
    },
    units::counted,
};

use super::{Part, Results, paper, queries};
use crate::{exchange::Line, reproduce};

/// Returns the page.
pub fn page(results: &Results) -> String {
    let lead = format!(
        "One Ring to Shuffle Them All (arXiv:2605.29099): its evaluation on this machine, with all strategies, beside \
         the published values, which come from other hardware ({}). {}. {} here; with more threads, they share. \
         Medians of {}.",
        paper::MACHINE,
        results.origin.line(),
        counted(results.cores as u64, "core"),
        counted(results.rounds as u64, "round")
    );
    let sections = vec![
        figure_5(results),
        table_1(results),
        table_2(results),
        figure_6(results),
        table_3(results),
        figure_7(results),
        queries::figure_8(results),
        queries::table_4(results),
        left_out(results),
    ];
    reproduce::page("The ring's paper on this machine", &lead, results.quick.clone(), sections)
}

/// Returns the strategies of some lines, in their order.
fn strategies<'a>(lines: &[&'a Line]) -> Vec<&'a str> {
    let mut seen = BTreeSet::new();
    lines.iter().map(|line| &line.strategy[..]).filter(|strategy| seen.insert(*strategy)).collect()
}

/// Draws throughput over `x`, with a line for each name.
fn chart(
    title: &str,
    x_label: &str,
    of: &[&Line],
    name: impl Fn(&Line) -> String,
    x: impl Fn(&Line) -> usize,
) -> String {
    let mut names = Vec::new();
    for line in of {
        let name = name(line);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let series: Vec<_> = names
        .into_iter()
        .enumerate()
        .map(|(number, shown)| {
            let points = of.iter().filter(|line| name(line) == shown).map(|line| (x(line), line.gb_per_s)).collect();
            let stroke = if number == 0 { Stroke::Main } else { Stroke::Thin(number - 1) };
            Series { name: shown, stroke, points }
        })
        .collect();
    lines(title, x_label, "GB/s", &series)
}

fn owned<const N: usize>(rows: &[[&str; N]]) -> Vec<Vec<String>> {
    rows.iter().map(|row| row.iter().map(|cell| (*cell).to_owned()).collect()).collect()
}

fn optional(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.2}"))
}

fn figure_5(results: &Results) -> String {
    let of: Vec<_> = results.lines(Part::Threads).collect();
    let chart =
        chart("Throughput by threads, rows of 8 bytes", "M = N", &of, |line| line.strategy.clone(), |line| line.m);
    let table = page::table(&["threads, published", "batch", "channel", "ring"], &owned(&paper::FIGURE_5));
    format!("<h2>Figure 5: threads</h2>{chart}<p>Published on {}, in GB/s:</p>{table}", paper::MACHINE)
}

fn table_1(results: &Results) -> String {
    let published = page::table(&["property, published", "batch", "channel", "ring"], &owned(&paper::TABLE_1));
    let rows: Vec<_> = results
        .lines(Part::Threads)
        .map(|line| {
            let sync = line.ops_per_batch + line.handoffs_per_batch + line.locks_per_batch;
            vec![
                line.strategy.clone(),
                line.m.to_string(),
                format!("{:.1}", line.peak_mb),
                format!("{sync:.1}"),
                format!("{:.1}", line.ops_per_batch),
                format!("{:.1}", line.handoffs_per_batch),
                format!("{:.1}", line.locks_per_batch),
                format!("{:.2}", line.first_ms),
            ]
        })
        .collect();
    let header =
        ["strategy", "M = N", "peak MB", "synchronisation a batch", "operations", "hand-offs", "locks", "first ms"];
    format!(
        "<h2>Table 1: properties</h2>{published}<p>Measured: of producers, for each batch of the input. Waits and \
         wake-ups are among the operations.</p>{}",
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
            optional(line.map(|line| line.gb_per_s))
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

fn table_2(results: &Results) -> String {
    let [uniform, normal] = [Part::Uniform, Part::Normal].map(|part| results.lines(part).collect::<Vec<_>>());
    format!(
        "<h2>Table 2: sizes of rows</h2>{}{}",
        sized("Uniform", &uniform, &second(results, RowSizes::Uniform)),
        sized("Normal", &normal, &second(results, RowSizes::Normal))
    )
}

fn figure_6(results: &Results) -> String {
    let of: Vec<_> = results.lines(Part::Normal).collect();
    let title = "Throughput by the size of rows, nearly normal";
    let chart = chart(title, "bytes of a row", &of, |line| line.strategy.clone(), |line| line.row_bytes as usize);
    format!("<h2>Figure 6: sizes of rows</h2>{chart}")
}

fn table_3(results: &Results) -> String {
    let of: Vec<_> = results.lines(Part::Uniform).collect();
    let ours = |bytes: usize, strategy: &str| {
        let line = of.iter().find(|line| line.row_bytes as usize == bytes && line.strategy == strategy);
        optional(line.map(|line| line.gb_per_s))
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

fn figure_7(results: &Results) -> String {
    let charts = ["ring", "paper-ring"].map(|strategy| {
        let of: Vec<_> = results.lines(Part::Groups).filter(|line| line.strategy == strategy).collect();
        let title = format!("Throughput of {strategy} by the size of rows and K");
        chart(&title, "bytes of a row", &of, |line| format!("K = {}", line.groups), |line| line.row_bytes as usize)
    });
    format!("<h2>Figure 7: K</h2>{}", charts.concat())
}

fn left_out(results: &Results) -> String {
    let rows: Vec<_> = [(Part::Unequal, "uniform keys"), (Part::Skew, "Zipf's law")]
        .into_iter()
        .flat_map(|(part, keys)| results.lines(part).map(move |line| (keys, line)))
        .map(|(keys, line)| {
            vec![
                format!("{}x{}", line.m, line.n),
                keys.to_owned(),
                line.strategy.clone(),
                format!("{:.2}", line.gb_per_s),
                format!("{:.2}", line.spread),
                format!("{:.1}", line.peak_mb),
            ]
        })
        .collect();
    let header = ["threads", "keys", "strategy", "GB/s", "spread", "peak MB"];
    format!("<h2>What the paper left out: M and N that differ, skew</h2>{}", page::table(&header, &rows))
}
