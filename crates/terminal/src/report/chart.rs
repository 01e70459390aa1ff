//! Bar charts as SVG text, coloured by the page's style.

use std::fmt::Write;

use super::page::escape;

/// Bars that belong together, one for each series.
pub struct BarGroup {
    /// The text at the left.
    pub label: String,
    /// One value for each series; `None` draws no bar.
    pub values: Vec<Option<f64>>,
    /// The text at the right end.
    pub note: String,
}

const WIDTH: f64 = 860.0;
/// The smallest width for labels; longer labels get more.
const LABELS: f64 = 100.0;
const LETTER: f64 = 6.2;
const NOTES: f64 = 70.0;
/// The width for the value after the longest bar.
const VALUES: f64 = 90.0;
const BAR: f64 = 13.0;
const GAP: f64 = 9.0;
const LEGEND: f64 = 28.0;

/// Draws horizontal bars on a linear scale from zero, with a vertical line at `mark`. The bars of
/// series `i` have the class `s{i}`.
pub fn bars(title: &str, series: &[&str], unit: &str, mark: Option<f64>, groups: &[BarGroup]) -> String {
    let group_height = BAR * series.len() as f64 + GAP;
    let height = LEGEND + group_height * groups.len() as f64;
    let longest = groups.iter().map(|group| group.label.chars().count()).max().unwrap_or(0);
    let labels = LABELS.max(longest as f64 * LETTER + 12.0);
    let largest =
        groups.iter().flat_map(|group| group.values.iter().flatten()).fold(mark.unwrap_or(0.0), |a: f64, b| a.max(*b));
    let per_unit = if largest > 0.0 { (WIDTH - labels - NOTES - VALUES) / largest } else { 0.0 };
    let mut svg = format!(
        "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{title}\"><title>{title}</title>\n",
        title = escape(title)
    );
    legend(&mut svg, labels, series);
    for (index, group) in groups.iter().enumerate() {
        let top = LEGEND + group_height * index as f64;
        let middle = top + (group_height - GAP) / 2.0 + 4.0;
        text(&mut svg, labels - 8.0, middle, "end", &group.label);
        text(&mut svg, WIDTH, middle, "end", &group.note);
        for (series, value) in group.values.iter().enumerate() {
            let Some(value) = value else { continue };
            let y = top + BAR * series as f64;
            let width = (value * per_unit).max(1.0);
            let rect = format!("<rect class=\"s{series}\" x=\"{labels}\" y=\"{y:.1}\" width=\"{width:.1}\"");
            push(&mut svg, format_args!("{rect} height=\"{}\" rx=\"2\"/>\n", BAR - 2.0));
            text(&mut svg, labels + width + 5.0, y + BAR - 3.0, "start", &format!("{} {unit}", short(*value)));
        }
    }
    if let Some(mark) = mark {
        let x = labels + mark * per_unit;
        push(&mut svg, format_args!("<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{LEGEND}\" y2=\"{height}\"/>\n"));
    }
    svg.push_str("</svg>\n");
    svg
}

/// Rounds to about three digits.
fn short(value: f64) -> String {
    let digits = if value >= 10.0 {
        1
    } else if value >= 1.0 {
        2
    } else {
        3
    };
    format!("{value:.digits$}")
}

fn legend(svg: &mut String, left: f64, series: &[&str]) {
    let step = ((WIDTH - left) / series.len().max(1) as f64).min(150.0);
    for (index, name) in series.iter().enumerate() {
        let x = left + step * index as f64;
        let rect = format!("<rect class=\"s{index}\" x=\"{x:.1}\" y=\"4\"");
        push(svg, format_args!("{rect} width=\"12\" height=\"12\" rx=\"2\"/>\n"));
        text(svg, x + 18.0, 14.0, "start", name);
    }
}

pub(super) fn text(svg: &mut String, x: f64, y: f64, anchor: &str, content: &str) {
    let content = escape(content);
    push(svg, format_args!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{content}</text>\n"));
}

pub(super) fn push(svg: &mut String, content: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    svg.write_fmt(content).ok();
}
