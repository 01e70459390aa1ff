//! Bar charts.

use std::ops::Range;

use plotters::{
    coord::{ranged1d::Ranged, types::RangedCoordf64},
    element::DashedPathElement,
    prelude::{Color, Rectangle},
    style::text_anchor::HPos,
};

use crate::canvas::{Area, Drawn, INK, SERIES, svg, text};

/// Bars that belong together, one for each series.
pub struct BarGroup {
    /// The text at the left.
    pub label: String,
    /// One value for each series; `None` draws no bar.
    pub values: Vec<Option<f64>>,
    /// The text at the right end.
    pub note: String,
}

const WIDTH: i32 = 860;
/// The smallest width for labels; longer labels get more.
const LABELS: i32 = 100;
const LETTER: f64 = 6.2;
const NOTES: i32 = 70;
/// The width for the value after the longest bar.
const VALUES: i32 = 90;
/// The width for the value at either end of a bar that may be negative.
const SIGNED: i32 = 40;
const BAR: i32 = 13;
const GAP: i32 = 9;
const LEGEND: i32 = 28;

/// Draws horizontal bars on a linear scale from zero, with a vertical line at `mark`.
pub fn bars(title: &str, series: &[&str], unit: &str, mark: Option<f64>, groups: &[BarGroup]) -> String {
    let most = values(groups).fold(mark.unwrap_or(0.0), f64::max);
    let plot = labels_width(groups)..WIDTH - NOTES - VALUES;
    let chart = Chart { series, groups, range: 0.0..most, plot, mark };
    chart.svg(title, |value| format!("{} {unit}", short(value)))
}

/// Draws horizontal bars on a linear scale to both sides of zero, with their values.
pub fn deviations(title: &str, series: &[&str], groups: &[BarGroup]) -> String {
    let (least, most) = values(groups).fold((0.0, 0.0), |(least, most): (f64, f64), v| (least.min(v), most.max(v)));
    let plot = labels_width(groups) + SIGNED..WIDTH - NOTES - SIGNED;
    let chart = Chart { series, groups, range: least..most, plot, mark: Some(0.0) };
    chart.svg(title, |value| format!("{value:+.2}"))
}

/// A bar chart, with its values from left to right and the pixels between which they lie.
struct Chart<'a> {
    series: &'a [&'a str],
    groups: &'a [BarGroup],
    range: Range<f64>,
    plot: Range<i32>,
    mark: Option<f64>,
}

impl Chart<'_> {
    fn svg(&self, title: &str, shown: impl Fn(f64) -> String) -> String {
        let group_height = BAR * self.series.len() as i32 + GAP;
        let height = LEGEND + group_height * self.groups.len() as i32;
        svg(title, (WIDTH as u32, height as u32), |area| {
            self.legend(area)?;
            for (index, group) in (0..).zip(self.groups) {
                self.group(area, group, LEGEND + group_height * index, &shown)?;
            }
            if let Some(mark) = self.mark {
                let x = self.x(mark);
                area.draw(&DashedPathElement::new([(x, LEGEND), (x, height)], 4, 3, INK.stroke_width(1)))?;
            }
            Ok(String::new())
        })
    }

    /// Returns the pixel of a value.
    fn x(&self, value: f64) -> i32 {
        if self.range.is_empty() {
            return self.plot.start;
        }
        RangedCoordf64::from(self.range.clone()).map(&value, (self.plot.start, self.plot.end))
    }

    fn legend(&self, area: &Area<'_>) -> Drawn {
        let left = labels_width(self.groups);
        let step = ((WIDTH - left) / self.series.len().max(1) as i32).min(150);
        for ((name, colour), index) in self.series.iter().zip(SERIES.iter().cycle()).zip(0..) {
            let x = left + step * index;
            area.draw(&Rectangle::new([(x, 4), (x + 12, 16)], colour.filled()))?;
            text(area, (x + 18, 10), HPos::Left, name)?;
        }
        Ok(())
    }

    fn group(&self, area: &Area<'_>, group: &BarGroup, top: i32, shown: &impl Fn(f64) -> String) -> Drawn {
        let middle = top + BAR * self.series.len() as i32 / 2;
        text(area, (labels_width(self.groups) - 8, middle), HPos::Right, &group.label)?;
        text(area, (WIDTH, middle), HPos::Right, &group.note)?;
        for ((value, colour), y) in group.values.iter().zip(SERIES.iter().cycle()).zip((top..).step_by(BAR as usize)) {
            let Some(value) = *value else { continue };
            let (zero, end) = (self.x(0.0), self.x(value));
            let (left, right) = (zero.min(end), zero.max(end).max(zero.min(end) + 1));
            area.draw(&Rectangle::new([(left, y), (right, y + BAR - 2)], colour.filled()))?;
            let (x, start) = if value < 0.0 { (left - 4, HPos::Right) } else { (right + 5, HPos::Left) };
            text(area, (x, y + BAR / 2), start, &shown(value))?;
        }
        Ok(())
    }
}

fn labels_width(groups: &[BarGroup]) -> i32 {
    let longest = groups.iter().map(|group| group.label.chars().count()).max().unwrap_or(0);
    LABELS.max((longest as f64 * LETTER) as i32 + 12)
}

fn values(groups: &[BarGroup]) -> impl Iterator<Item = f64> {
    groups.iter().flat_map(|group| group.values.iter().flatten().copied())
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
        assert!(svg.contains("x=\"140\" y=\"28\" width=\"152\""), "{svg}");
        assert!(svg.contains("x=\"292\" y=\"63\" width=\"458\""), "{svg}");
        assert!(svg.contains("points=\"292,28 ") && svg.contains(">-1.00<") && svg.contains(">+3.00<"), "{svg}");
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
