//! The page with all figures.

mod groups;
mod tables;

use annulus_charts::{
    lines::{Series, Stroke, lines},
    page,
};

use annulus_terminal::{statistics::TOO_SHORT, units::counted};

use super::{Part, Results, paper, queries};
use crate::{exchange::Line, reproduce};

/// Returns the page.
pub fn page(results: &Results) -> String {
    let lead = format!(
        "One Ring to Shuffle Them All (arXiv:2605.29099): its evaluation on this machine, with all strategies, beside \
         the published values, which come from other hardware ({}). {}; {}. {} here; with more threads, they share. \
         Medians of {}. Runs under 1 ms are too short to measure: they have no throughput, and no point in a chart.",
        paper::MACHINE,
        results.origin.cpu(),
        results.origin.line(),
        counted(results.cores as u64, "core"),
        counted(results.rounds as u64, "round")
    );
    let mut sections = vec![
        figure_5(results),
        tables::table_1(results),
        tables::table_2(results),
        figure_6(results),
        tables::table_3(results),
        groups::figure_7(results),
        queries::figure_8(results),
        queries::table_4(results),
        tables::left_out(results),
        tables::two_rings(results),
        tables::events(results),
    ];
    sections.extend(reproduce::not_measured(&results.absent));
    reproduce::page("The ring's paper on this machine", &lead, results.quick.clone(), sections)
}

/// Draws throughput over `x`, with a line for each name. Says so if nothing could be measured.
fn chart(
    title: &str,
    x_label: &str,
    of: &[&Line],
    name: impl Fn(&Line) -> String,
    x: impl Fn(&Line) -> usize,
) -> String {
    let of: Vec<_> = of.iter().filter_map(|line| Some((*line, line.measured_gb_per_s()?))).collect();
    if of.is_empty() {
        return format!("<h3>{title}</h3><p>Left out: {TOO_SHORT} to measure.</p>");
    }
    let mut names = Vec::new();
    for (line, _) in &of {
        let name = name(line);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let series: Vec<_> = names
        .into_iter()
        .enumerate()
        .map(|(number, shown)| {
            let same = of.iter().filter(|(line, _)| name(line) == shown);
            let points = same.map(|(line, gb_per_s)| (x(line), *gb_per_s)).collect();
            let stroke = if number == 0 { Stroke::Main } else { Stroke::Thin(number - 1) };
            Series { name: shown, stroke, points }
        })
        .collect();
    lines(title, x_label, "GB/s", &series)
}

fn owned<const N: usize>(rows: &[[&str; N]]) -> Vec<Vec<String>> {
    rows.iter().map(|row| row.iter().map(|cell| (*cell).to_owned()).collect()).collect()
}

fn figure_5(results: &Results) -> String {
    let of: Vec<_> = results.lines(Part::Threads).collect();
    let chart =
        chart("Throughput by threads, rows of 8 bytes", "M = N", &of, |line| line.strategy.clone(), |line| line.m);
    let table = page::table(&["threads, published", "batch", "channel", "ring"], &owned(&paper::FIGURE_5));
    format!("<h2>Figure 5: threads</h2>{chart}<p>Published on {}, in GB/s:</p>{table}", paper::MACHINE)
}

fn figure_6(results: &Results) -> String {
    let of: Vec<_> = results.lines(Part::Normal).collect();
    let title = "Throughput by the size of rows, nearly normal";
    let chart = chart(title, "bytes of a row", &of, |line| line.strategy.clone(), |line| line.row_bytes as usize);
    format!("<h2>Figure 6: sizes of rows</h2>{chart}<p>The published points are in table 2, normal.</p>")
}
