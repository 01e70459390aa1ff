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
/// The width for the value at either end of a bar that may be negative.
const SIGNED: f64 = 40.0;
const BAR: f64 = 13.0;
const GAP: f64 = 9.0;
const LEGEND: f64 = 28.0;

/// Draws horizontal bars on a linear scale from zero, with a vertical line at `mark`. The bars of
/// series `i` have the class `s{i}`.
pub fn bars(title: &str, series: &[&str], unit: &str, mark: Option<f64>, groups: &[BarGroup]) -> String {
    let labels = labels_width(groups);
    let largest = values(groups).fold(mark.unwrap_or(0.0), f64::max);
    let per_unit = if largest > 0.0 { (WIDTH - labels - NOTES - VALUES) / largest } else { 0.0 };
    let draw = |svg: &mut String, series: usize, value: f64, y: f64| {
        let width = (value * per_unit).max(1.0);
        bar(svg, series, labels, y, width);
        text(svg, labels + width + 5.0, y + BAR - 3.0, "start", &format!("{} {unit}", short(value)));
    };
    chart(title, series, groups, mark.map(|mark| labels + mark * per_unit), draw)
}

/// Draws horizontal bars on a linear scale to both sides of zero, with their values. The bars of
/// series `i` have the class `s{i}`.
pub fn deviations(title: &str, series: &[&str], groups: &[BarGroup]) -> String {
    let left = labels_width(groups) + SIGNED;
    let right = WIDTH - NOTES - SIGNED;
    let (least, most) = values(groups).fold((0.0, 0.0), |(least, most): (f64, f64), v| (least.min(v), most.max(v)));
    let per_unit = if most > least { (right - left) / (most - least) } else { 0.0 };
    let zero = left - least * per_unit;
    let draw = |svg: &mut String, series: usize, value: f64, y: f64| {
        let end = zero + value * per_unit;
        bar(svg, series, zero.min(end), y, (end - zero).abs().max(1.0));
        let (x, anchor) = if value < 0.0 { (end - 4.0, "end") } else { (end + 4.0, "start") };
        text(svg, x, y + BAR - 3.0, anchor, &format!("{value:+.2}"));
    };
    chart(title, series, groups, Some(zero), draw)
}

/// Draws what all bar charts have. `draw` adds the bar of a series with its value, at a height.
fn chart(
    title: &str,
    series: &[&str],
    groups: &[BarGroup],
    line: Option<f64>,
    draw: impl Fn(&mut String, usize, f64, f64),
) -> String {
    let group_height = BAR * series.len() as f64 + GAP;
    let height = LEGEND + group_height * groups.len() as f64;
    let labels = labels_width(groups);
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
            if let Some(value) = value {
                draw(&mut svg, series, *value, top + BAR * series as f64);
            }
        }
    }
    if let Some(x) = line {
        push(&mut svg, format_args!("<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{LEGEND}\" y2=\"{height}\"/>\n"));
    }
    svg.push_str("</svg>\n");
    svg
}

fn labels_width(groups: &[BarGroup]) -> f64 {
    let longest = groups.iter().map(|group| group.label.chars().count()).max().unwrap_or(0);
    LABELS.max(longest as f64 * LETTER + 12.0)
}

fn values(groups: &[BarGroup]) -> impl Iterator<Item = f64> {
    groups.iter().flat_map(|group| group.values.iter().flatten().copied())
}

fn bar(svg: &mut String, series: usize, x: f64, y: f64, width: f64) {
    let rect = format!("<rect class=\"s{series}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\"");
    push(svg, format_args!("{rect} height=\"{}\" rx=\"2\"/>\n", BAR - 2.0));
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

#[cfg(test)]
mod tests {
    use super::*;

    fn group(label: &str, values: &[Option<f64>]) -> BarGroup {
        BarGroup { label: label.to_owned(), values: values.to_vec(), note: "n".to_owned() }
    }

    #[test]
    fn negative_bars_end_where_positive_ones_begin() {
        let groups = [group("a", &[Some(-1.0)]), group("b", &[Some(3.0), None])];
        let svg = deviations("t", &["x", "y"], &groups);
        // Four units share the width from 140 to 750.
        assert!(svg.contains("class=\"s0\" x=\"140.0\" y=\"28.0\" width=\"152.5\""), "{svg}");
        assert!(svg.contains("class=\"s0\" x=\"292.5\" y=\"63.0\" width=\"457.5\""), "{svg}");
        assert!(svg.contains("x1=\"292.5\"") && svg.contains(">-1.00<") && svg.contains(">+3.00<"), "{svg}");
    }

    #[test]
    fn nothing_and_zeros_can_be_drawn() {
        for groups in [&[][..], &[group("a", &[None])], &[group("a", &[Some(0.0)])]] {
            for svg in [deviations("t", &["x"], groups), bars("t", &["x"], "ms", None, groups)] {
                assert!(svg.ends_with("</svg>\n") && !svg.contains("NaN") && !svg.contains("inf"), "{svg}");
            }
        }
    }
}
