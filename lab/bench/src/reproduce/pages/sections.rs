//! The parts of the page besides the figures of throughput.

use std::collections::BTreeMap;

use annulus_charts::{
    bars::{BarGroup, bars},
    lines::lines,
};

use annulus_terminal::{statistics::TOO_SHORT, units::counted};

use super::{
    figures::{FLINK_PARTITIONS, FLINK_TUPLE_BYTES, Figure, MEMORY, lines_of},
    page::series,
    paper::{self, AGAINST_FLINK},
    published,
    results::Results,
};
use crate::pages::{Comparison, Line, TupleSizes, html_table, verdict};

/// Draws the peak memory of every variant: by number of threads beyond the tuples on pages, and in
/// all with the most threads.
pub(super) fn memory(results: &Results) -> String {
    let Figure { number, tuple_bytes, partitions: [partitions, _] } = MEMORY;
    let heading = format!("<h2>Figure {number}: peak memory, {tuple_bytes}-byte tuples, {partitions} partitions</h2>");
    let published = published::memory(results);
    let Some(last) = results.memory.last() else {
        return format!("{heading}\n<p>Skipped; see below.</p>\n{published}");
    };
    let (threads, tuples) = (last.cell.threads, last.cell.tuples);
    let (most, cores) = (counted(threads as u64, "thread"), counted(results.cores as u64, "core"));
    let points = results.memory.iter().map(|line| (line.variant, line.cell.threads, line.beyond_mb));
    let least = last.peak_mb - last.beyond_mb;
    let groups: Vec<_> = results
        .memory
        .iter()
        .filter(|line| line.cell.threads == threads)
        .map(|line| BarGroup {
            label: format!("{}, {} KiB", line.variant, line.page_bytes >> 10),
            values: vec![Some(line.peak_mb)],
            note: format!("+{:.0} MB", line.beyond_mb),
        })
        .collect();
    format!(
        "{heading}\n<p>{:.1} million tuples; pages of the paper's size, and Ranges with its own. Pages, buffers and \
         copies of tuples, in units of 1024 x 1024 bytes. This machine has {cores}: more threads than that share \
         them, which changes times, not how many pages each thread keeps open.</p>\n\
         <h3>Memory beyond the tuples on pages</h3>\n{}\n<h3>All memory, {most}</h3>\n\
         <p>The paper used {} threads. The line is what the tuples take on pages.</p>\n{}\n{published}",
        tuples as f64 / 1e6,
        lines("Memory beyond the tuples", "threads", "MB", &series(points)),
        paper::MEMORY_THREADS,
        bars("Peak memory", &["peak MB"], "MB", Some(least), &groups)
    )
}

/// Draws Flink, the paper's fastest variant, and Annulus.
pub(super) fn flink(results: &Results, cells: &[Line]) -> String {
    let threads = counted(results.cores as u64, "thread");
    let heading = format!("<h2>Figure 4.7: Apache Flink's keyBy, {FLINK_PARTITIONS} partitions, {threads}</h2>");
    let published = published::flink(results);
    if results.flink.is_empty() {
        return format!("{heading}\n<p>Skipped; see below.</p>\n{published}");
    }
    let (mut speeds, mut memories) = (Vec::new(), Vec::new());
    for tuple_bytes in FLINK_TUPLE_BYTES {
        let lines: BTreeMap<_, _> = lines_of(cells, tuple_bytes, FLINK_PARTITIONS)
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
        let measured = flink.filter(|line| !line.too_short);
        let mut speed = group(measured.map(|line| line.mtuples_per_s), |line| line.mtuples_per_s);
        if flink.is_some() && measured.is_none() {
            speed.note = TOO_SHORT.to_owned();
        }
        speeds.push(speed);
        memories.push(group(flink.map(|line| line.peak_mb), |line| line.peak_mb));
    }
    let names = ["Flink", "Ranges", AGAINST_FLINK];
    format!(
        "{heading}\n<p>Flink counts the tuples of each partition, as in the paper, and keeps none of them. The other \
         two put them on pages, which are all in memory at the end. Flink's memory is that of its whole process. At \
         the right: Ranges divided by Flink.</p>\n<h3>Throughput</h3>\n{}\n<h3>Peak memory</h3>\n{}\n{published}",
        bars("Million tuples per second", &names, "M/s", None, &speeds),
        bars("Peak memory", &names, "MB", None, &memories)
    )
}

/// Draws tuples of any size: the fastest of the paper's variants, and Annulus.
pub(super) fn sizes(lines: &[Line]) -> String {
    let heading = "<h2>Tuples of any size</h2>\n<p>The paper has tuples of one size. Here payloads are from 0 to twice \
                   their mean (uniform), or nearly normal with a standard deviation of 0.29 of their mean.</p>";
    let of = |sizes| lines.iter().filter(|line| line.sizes == Some(sizes)).cloned().collect::<Vec<_>>();
    let parts = [("Uniform", TupleSizes::Uniform), ("Normal", TupleSizes::Normal)].map(|(name, sizes)| {
        let lines = of(sizes);
        compared(&format!("{name} sizes"), &lines)
    });
    format!("{heading}\n{}", parts.join("\n"))
}

/// Draws streams: the fastest of the paper's variants, and Annulus.
pub(super) fn streams(lines: &[Line]) -> String {
    let heading = "<h2>Streams</h2>\n<p>One more thread takes pages out while the variants run, and gives them back. \
                   Peak memory is of pages on their way and of buffers.</p>";
    format!("{heading}\n{}", compared("Streams", lines))
}

/// Draws the throughput of each cell, and lists the comparison.
fn compared(title: &str, lines: &[Line]) -> String {
    let comparisons = Comparison::all(lines);
    if comparisons.is_empty() {
        return format!("<h3>{title}</h3>\n<p>Left out; see below.</p>");
    }
    let group = |comparison: &Comparison<'_>| BarGroup {
        label: format!("{} B, {} partitions", comparison.cell.tuple_bytes, comparison.cell.partitions),
        values: [comparison.best, comparison.ours].map(|line| line.map(|line| line.mtuples_per_s)).to_vec(),
        note: comparison.ratio().map_or(String::new(), |ratio| format!("{ratio:.2}x")),
    };
    let groups: Vec<_> = comparisons.iter().map(group).collect();
    format!(
        "<h3>{title}</h3>\n{}\n<p>{}</p>\n{}",
        bars(title, &["fastest of the paper's", "Ranges"], "M/s", None, &groups),
        verdict(&comparisons).replace('\n', "<br>"),
        html_table(&comparisons)
    )
}
