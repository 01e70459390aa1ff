//! The page of figures.

use annulus_charts::{
    lines::{Series, Stroke, lines},
    page::{escape, table},
};

use super::{
    figures::{FIGURES, Figure, lines_of},
    published,
    results::Results,
    sections,
};
use crate::{
    pages::{Comparison, Line, Variant, all_lines, html_table, verdict},
    reproduce,
};

/// Returns the page: all figures, the cells in which Annulus is slower, the skipped measurements,
/// and all measurements.
pub(super) fn page(results: &Results) -> String {
    let drawn = long_enough(&results.cells);
    let mut parts = Vec::new();
    for figure in FIGURES {
        parts.push(heading(&figure));
        parts.extend(figure.partitions.map(|partitions| throughput(&drawn, &figure, partitions)));
        parts.push(published::claims(results, &figure));
    }
    parts.push(sections::memory(results));
    parts.push(sections::flink(results, &drawn));
    parts.push(sections::sizes(&long_enough(&results.sizes)));
    parts.push(sections::streams(&long_enough(&results.streams)));
    parts.push(counters(results));
    let comparisons = Comparison::all(&drawn);
    parts.push("<h2>Ranges and the fastest of the paper's variants</h2>".to_owned());
    parts.push(format!("<p>{}</p>", escape(&verdict(&comparisons)).replace('\n', "<br>")));
    parts.push(html_table(&comparisons));
    if !results.skipped.is_empty() {
        parts.push(format!("<h2>Skipped</h2><p>{}</p>", escape(&results.skipped.join("\n")).replace('\n', "<br>")));
    }
    parts.push("<h2>All measurements</h2>".to_owned());
    let all: Vec<Line> = [&results.cells, &results.sizes, &results.streams].into_iter().flatten().cloned().collect();
    parts.push(all_lines(&all));
    let lead = format!(
        "{}. {}. Throughput leaves out the time that generates the tuples. The paper measured on other hardware ({}): \
         compare shapes, not numbers.",
        results.setting,
        results.origin.line(),
        results.paper_machine
    );
    let title = "Shuffling onto pages: the paper's figures, with Annulus (Ranges)";
    reproduce::page(title, &lead, results.quick.clone(), parts)
}

/// Returns the lines that were long enough to measure. Figures have no others.
fn long_enough(lines: &[Line]) -> Vec<Line> {
    lines.iter().filter(|line| !line.too_short).cloned().collect()
}

fn heading(Figure { number, tuple_bytes, partitions }: &Figure) -> String {
    let [few, many] = partitions;
    format!("<h2>Figure {number}: {tuple_bytes}-byte tuples, {few} and {many} partitions</h2>")
}

/// Draws a chart with a line for each variant, by number of threads.
fn throughput(cells: &[Line], figure: &Figure, partitions: usize) -> String {
    let points = lines_of(cells, figure.tuple_bytes, partitions);
    let series = series(points.map(|line| (line.variant, line.cell.threads, line.mtuples_per_s)));
    let title = format!("{partitions} partitions, {}-byte tuples", figure.tuple_bytes);
    if series.is_empty() {
        return format!("<h3>{title}</h3>\n<p>Left out: too short to measure; see below.</p>");
    }
    format!("<h3>{title}</h3>\n{}", lines(&title, "threads", "million tuples per second", &series))
}

/// Returns a line for each variant, from its points.
pub(super) fn series(points: impl Iterator<Item = (Variant, usize, f64)>) -> Vec<Series> {
    let mut series: Vec<Series> = Vec::new();
    for (variant, x, y) in points {
        match series.iter_mut().find(|series| series.name == variant.name()) {
            Some(series) => series.points.push((x, y)),
            None => {
                series.push(Series { name: variant.name().to_owned(), stroke: stroke(variant), points: vec![(x, y)] })
            }
        }
    }
    series
}

/// Returns the style of a variant's line; its colour is the same in every chart.
fn stroke(variant: Variant) -> Stroke {
    match (variant.is_ours(), variant.paper_number()) {
        (true, _) => Stroke::Main,
        (_, Some(number)) => Stroke::Thin(number),
        _ => Stroke::Dashed,
    }
}

/// Lists the events for each tuple with all cores, or says why there are none.
fn counters(results: &Results) -> String {
    let heading = "<h2>Processor events for each tuple</h2>";
    if let Some(reason) = &results.no_counters {
        return format!("{heading}\n<p>None: {}.</p>", escape(reason));
    }
    let lines: Vec<_> = results.cells.iter().filter(|line| line.cell.threads == results.cores).collect();
    let Some(first) = lines.first() else { return format!("{heading}\n<p>None.</p>") };
    let names: Vec<&str> = first.counts.keys().map(|name| name.trim_end_matches("_per_tuple")).collect();
    let header = [&["variant", "tuple B", "partitions"], &names[..]].concat();
    let row = |line: &&Line| {
        let cell =
            [line.variant.name().to_owned(), line.cell.tuple_bytes.to_string(), line.cell.partitions.to_string()];
        cell.into_iter().chain(line.counts.values().map(|count| format!("{count:.3}"))).collect()
    };
    format!("{heading}\n{}", table(&header, &lines.iter().map(row).collect::<Vec<_>>()))
}
