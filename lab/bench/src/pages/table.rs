//! Tables and pages that compare Ranges with the fastest of the paper's variants.

use annulus_charts::{
    bars::{BarGroup, bars},
    page,
};

use annulus_terminal::{plain, units::counted};

use super::{
    line::{self, Line},
    setting::Cell,
};

/// The lines of one cell that are compared.
pub struct Comparison<'a> {
    /// The cell.
    pub cell: Cell,
    /// Our line.
    pub ours: Option<&'a Line>,
    /// The fastest of the paper's variants.
    pub best: Option<&'a Line>,
    /// The faster of the paper's best cases.
    pub bound: Option<&'a Line>,
}

impl<'a> Comparison<'a> {
    /// Returns one comparison for each cell, in the order of the lines. The lines of a cell must be
    /// consecutive.
    pub fn all(lines: &'a [Line]) -> Vec<Self> {
        let cells = lines.chunk_by(|a, b| a.cell == b.cell);
        cells
            .map(|lines| Self {
                cell: lines[0].cell,
                ours: lines.iter().find(|line| line.variant.is_ours()),
                best: fastest(lines.iter().filter(|line| line.variant.is_paper())),
                bound: fastest(lines.iter().filter(|line| !line.variant.is_paper() && !line.variant.is_ours())),
            })
            .collect()
    }

    /// Returns our throughput divided by that of the fastest of the paper's variants.
    pub fn ratio(&self) -> Option<f64> {
        Some(self.ours?.mtuples_per_s / self.best?.mtuples_per_s)
    }

    /// Returns whether a compared throughput comes from runs that were too short.
    fn is_too_short(&self) -> bool {
        [self.ours, self.best].into_iter().flatten().any(|line| line.too_short)
    }

    fn cells(&self) -> Vec<String> {
        let Cell { tuple_bytes, partitions, threads, tuples } = self.cell;
        let both = |of: fn(&Line) -> f64, digits: usize| {
            format!("{} / {}", optional(self.ours.map(of), digits), optional(self.best.map(of), digits))
        };
        vec![
            tuple_bytes.to_string(),
            partitions.to_string(),
            threads.to_string(),
            format!("{:.1}", tuples as f64 / 1e6),
            optional(self.ours.map(|line| line.mtuples_per_s), 1),
            optional(self.best.map(|line| line.mtuples_per_s), 1),
            self.best.map_or("-".to_owned(), |line| format!("{}, {} KiB", line.variant, line.page_bytes >> 10)),
            optional(self.ratio(), 2),
            optional(self.bound.map(|line| line.mtuples_per_s), 1),
            optional(self.ours.map(|line| line.limit_share), 2),
            optional(self.ours.or(self.best).map(Line::best_copy), 1),
            both(|line| line.peak_mb, 0),
            both(|line| line.spread, 2),
        ]
        .into_iter()
        .chain(self.streams().then(|| both(|line| line.first_page_s.unwrap_or_default() * 1e3, 2)))
        .collect()
    }

    /// Returns whether pages were taken out while the variants ran.
    fn streams(&self) -> bool {
        [self.ours, self.best].into_iter().flatten().any(|line| line.first_page_s.is_some())
    }
}

fn fastest<'a>(lines: impl Iterator<Item = &'a Line>) -> Option<&'a Line> {
    lines.max_by(|a, b| a.mtuples_per_s.total_cmp(&b.mtuples_per_s))
}

const HEADER: [&str; 14] = [
    "tuple B",
    "partitions",
    "threads",
    "M tuples",
    "ours M/s",
    "paper's M/s",
    "its best",
    "ratio",
    "bound M/s",
    "limit share",
    "copy M/s",
    "peak MB ours / paper's",
    "spread ours / paper's",
    "first page ms ours / paper's",
];

/// Returns the header: its last column is for streams alone.
fn header(comparisons: &[Comparison<'_>]) -> &'static [&'static str] {
    if comparisons.iter().any(Comparison::streams) { &HEADER } else { &HEADER[..13] }
}

/// Returns a table for the terminal.
pub fn table(comparisons: &[Comparison<'_>]) -> String {
    plain::table(header(comparisons), &[], comparisons.iter().map(Comparison::cells)).to_string()
}

/// Returns the same as an HTML table.
pub fn html_table(comparisons: &[Comparison<'_>]) -> String {
    let rows: Vec<_> = comparisons.iter().map(Comparison::cells).collect();
    page::table(header(comparisons), &rows)
}

/// Returns the cells in which Ranges is slower than the fastest of the paper's variants, one per
/// line, or a line that there are none. Also reports how many cells were too short to measure.
pub fn verdict(comparisons: &[Comparison<'_>]) -> String {
    let compared: Vec<_> = comparisons.iter().filter(|comparison| comparison.ratio().is_some()).collect();
    if compared.is_empty() {
        return "no comparison: a cell needs Ranges and at least one of the paper's variants".to_owned();
    }
    let behind: Vec<_> = compared.iter().filter_map(|comparison| behind(comparison)).collect();
    let cells = counted(compared.len() as u64, "cell");
    let mut text = if behind.is_empty() {
        format!("Ranges is ahead of the paper's variants in all of {cells}.")
    } else {
        format!("Ranges is behind in {} of {cells}:\n{}", behind.len(), behind.join("\n"))
    };
    let short = compared.iter().filter(|comparison| comparison.is_too_short()).count();
    if short > 0 {
        text += &format!("\nRuns of {} took under 1 ms, too short to measure.", counted(short as u64, "cell"));
    }
    text
}

fn behind(comparison: &Comparison<'_>) -> Option<String> {
    let (ours, best, ratio) = (comparison.ours?, comparison.best?, comparison.ratio()?);
    let Cell { tuple_bytes, partitions, threads, .. } = comparison.cell;
    (ratio < 1.0).then(|| {
        format!(
            "  {tuple_bytes} B, {}, {}: {:.1} against {:.1} M/s of {}, ratio {ratio:.2}",
            counted(partitions as u64, "partition"),
            counted(threads as u64, "thread"),
            ours.mtuples_per_s,
            best.mtuples_per_s,
            best.variant
        )
    })
}

/// Returns a page with bars for each tuple size and number of threads, the comparison as a table,
/// and all lines.
pub fn html(lead: &str, lines: &[Line]) -> String {
    let comparisons = Comparison::all(lines);
    let mut groups: Vec<(u32, usize)> =
        comparisons.iter().map(|comparison| (comparison.cell.tuple_bytes, comparison.cell.threads)).collect();
    groups.sort_unstable();
    groups.dedup();
    let mut sections = Vec::new();
    for (tuple_bytes, threads) in groups {
        let title = format!("{tuple_bytes}-byte tuples, {}", counted(threads as u64, "thread"));
        sections.push(format!("<h2>{title}</h2>"));
        let of_group = comparisons
            .iter()
            .filter(|comparison| (comparison.cell.tuple_bytes, comparison.cell.threads) == (tuple_bytes, threads));
        let groups: Vec<_> = of_group.map(bar_group).collect();
        sections.push(bars(&title, &["fastest of the paper's", "Ranges"], "M/s", None, &groups));
    }
    sections.push(format!("<h2>Comparison</h2><p>{}</p>", page::escape(&verdict(&comparisons)).replace('\n', "<br>")));
    sections.push(html_table(&comparisons));
    sections.push("<h2>All measurements</h2>".to_owned());
    sections.push(all_lines(lines));
    page::page("Shuffle onto pages: the paper's variants and Annulus", lead, &sections)
}

fn bar_group(comparison: &Comparison<'_>) -> BarGroup {
    BarGroup {
        label: counted(comparison.cell.partitions as u64, "partition"),
        values: [comparison.best, comparison.ours].map(|line| line.map(|line| line.mtuples_per_s)).to_vec(),
        note: comparison.ratio().map_or(String::new(), |ratio| format!("{ratio:.2}x")),
    }
}

/// Returns every line with all its columns, as an HTML table.
pub fn all_lines(lines: &[Line]) -> String {
    let rows: Vec<_> = lines.iter().map(Line::fields).collect();
    let (names, cells) = line::table(&rows);
    page::table(&names.iter().map(String::as_str).collect::<Vec<_>>(), &cells)
}

fn optional(value: Option<f64>, digits: usize) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.digits$}"))
}
