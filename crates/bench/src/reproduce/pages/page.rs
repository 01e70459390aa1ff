//! The page of figures.

use std::collections::BTreeMap;

use annulus_terminal::{
    report::{
        chart::{BarGroup, bars},
        lines::{Series, Stroke, lines},
        page::escape,
    },
    units::counted,
};

use super::{
    Results,
    figures::{FIGURES, FLINK_PARTITIONS, FLINK_TUPLE_BYTES, Figure, MEMORY, of},
};
use crate::{
    pages::{Comparison, Line, all_lines, html_table, verdict},
    reproduce,
};

/// The paper's fastest variant, which is compared with Flink.
const AGAINST_FLINK: &str = "SmbLockFreeBatched";

/// Returns the page: all figures, the cells in which Annulus is slower, the skipped measurements,
/// and all measurements.
pub(super) fn page(results: &Results) -> String {
    let mut sections = Vec::new();
    for figure in FIGURES {
        sections.push(heading(&figure));
        sections.extend(figure.partitions.map(|partitions| throughput(&results.cells, &figure, partitions)));
    }
    sections.push(memory(results));
    sections.push(flink(results));
    let comparisons = Comparison::all(&results.cells);
    sections.push("<h2>Ranges and the fastest of the paper's variants</h2>".to_owned());
    sections.push(format!("<p>{}</p>", escape(&verdict(&comparisons)).replace('\n', "<br>")));
    sections.push(html_table(&comparisons));
    if !results.skipped.is_empty() {
        sections.push(format!("<h2>Skipped</h2><p>{}</p>", escape(&results.skipped.join("\n")).replace('\n', "<br>")));
    }
    sections.push("<h2>All measurements</h2>".to_owned());
    sections.push(all_lines(&results.cells));
    let lead = format!(
        "{}. Throughput leaves out the time that generates the tuples. The paper measured on other hardware ({}): \
         compare shapes, not numbers.",
        results.setting, results.paper_machine
    );
    let title = "Shuffling onto pages: the paper's figures, with Annulus (Ranges)";
    reproduce::page(title, &lead, results.quick.clone(), sections)
}

fn heading(Figure { number, tuple_bytes, partitions }: &Figure) -> String {
    let [few, many] = partitions;
    format!("<h2>Figure {number}: {tuple_bytes}-byte tuples, {few} and {many} partitions</h2>")
}

/// Draws a chart with a line for each variant, by number of threads.
fn throughput(cells: &[Line], figure: &Figure, partitions: usize) -> String {
    let mut series: Vec<Series> = Vec::new();
    for line in of(cells, figure.tuple_bytes, partitions) {
        let point = (line.cell.threads, line.mtuples_per_s);
        match series.iter_mut().find(|series| series.name == line.variant.name()) {
            Some(series) => series.points.push(point),
            None => {
                series.push(Series { name: line.variant.name().to_owned(), stroke: stroke(line), points: vec![point] })
            }
        }
    }
    let title = format!("{partitions} partitions, {}-byte tuples", figure.tuple_bytes);
    format!("<h3>{title}</h3>\n{}", lines(&title, "threads", "million tuples per second", &series))
}

/// Returns the style of a variant's line; its colour is the same in every chart.
fn stroke(line: &Line) -> Stroke {
    match (line.variant.is_ours(), line.variant.paper_number()) {
        (true, _) => Stroke::Main,
        (_, Some(number)) => Stroke::Thin(number),
        _ => Stroke::Dashed,
    }
}

/// Draws the peak memory of every variant. The note is the memory beyond its tuples on pages.
fn memory(results: &Results) -> String {
    let Figure { number, tuple_bytes, partitions: [partitions, _] } = MEMORY;
    let of_cores = |line: &&Line| line.cell.threads == results.cores;
    let lines: Vec<_> = of(&results.cells, tuple_bytes, partitions).filter(of_cores).collect();
    let tuples = lines.first().map_or(0, |line| line.cell.tuples);
    let least = tuples as f64 * f64::from(tuple_bytes + 8) / f64::from(1 << 20);
    let groups: Vec<_> = lines
        .into_iter()
        .map(|line| BarGroup {
            label: line.variant.name().to_owned(),
            values: vec![Some(line.peak_mb)],
            note: format!("+{:.0} MB", line.peak_mb - least),
        })
        .collect();
    format!(
        "<h2>Figure {number}: peak memory, {:.1} million {tuple_bytes}-byte tuples, {partitions} partitions, {}</h2>\n\
         <p>Pages, buffers and copies of tuples, in units of 1024 x 1024 bytes. The line is what the tuples take on \
         pages. The number at the right is what a variant takes above it. The paper used 40 threads.</p>\n{}",
        tuples as f64 / 1e6,
        counted(results.cores as u64, "thread"),
        bars("Peak memory", &["peak MB"], "MB", Some(least), &groups)
    )
}

/// Draws Flink, the paper's fastest variant, and Annulus.
fn flink(results: &Results) -> String {
    let threads = counted(results.cores as u64, "thread");
    let heading = format!("<h2>Figure 4.7: Apache Flink's keyBy, {FLINK_PARTITIONS} partitions, {threads}</h2>");
    if results.flink.is_empty() {
        return format!("{heading}\n<p>Skipped; see below.</p>");
    }
    let (mut speeds, mut memories) = (Vec::new(), Vec::new());
    for tuple_bytes in FLINK_TUPLE_BYTES {
        let lines: BTreeMap<_, _> = of(&results.cells, tuple_bytes, FLINK_PARTITIONS)
            .filter(|line| line.cell.threads == results.cores)
            .map(|line| (if line.variant.is_ours() { "ours" } else { line.variant.name() }, line))
            .collect();
        let flink = results.flink.iter().find(|line| line.tuple_bytes == tuple_bytes);
        let group = |flink: Option<f64>, of: fn(&Line) -> f64| {
            let [paper, ours] = [AGAINST_FLINK, "ours"].map(|name| lines.get(name).map(|line| of(line)));
            let note = match (flink, ours) {
                (Some(flink), Some(ours)) => format!("{:.2}x", ours / flink),
                _ => String::new(),
            };
            BarGroup { label: format!("{tuple_bytes} B"), values: vec![flink, ours, paper], note }
        };
        speeds.push(group(flink.map(|line| line.mtuples_per_s), |line| line.mtuples_per_s));
        memories.push(group(flink.map(|line| line.peak_mb), |line| line.peak_mb));
    }
    let names = ["Flink", "Ranges", AGAINST_FLINK];
    format!(
        "{heading}\n<p>Flink counts the tuples of each partition, as in the paper, and keeps none of them. The other \
         two put them on pages, which are all in memory at the end. Flink's memory is that of its whole process. At \
         the right: Ranges divided by Flink.</p>\n<h3>Throughput</h3>\n{}\n<h3>Peak memory</h3>\n{}",
        bars("Million tuples per second", &names, "M/s", None, &speeds),
        bars("Peak memory", &names, "MB", None, &memories)
    )
}
