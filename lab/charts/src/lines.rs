//! Line charts.

use plotters::{
    coord::combinators::BindKeyPoints,
    element::DashedPathElement,
    prelude::{ChartBuilder, Circle, Color, LineSeries, PathElement, RGBColor},
    style::{ShapeStyle, text_anchor::HPos},
};

use crate::{
    canvas::{Area, Drawn, GRID, INK, LETTERS, SERIES, svg, text},
    page::escape,
};

/// The style of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stroke {
    /// Thick, for the subject of the chart.
    Main,
    /// Dashed, for a reference.
    Dashed,
    /// Thin, in one of twelve colours.
    Thin(usize),
}

/// One line.
#[derive(Clone, Debug)]
pub struct Series {
    /// Its name, at the end of the line and in the hints of its points.
    pub name: String,
    /// The style of the line.
    pub stroke: Stroke,
    /// Points from left to right; x is a count.
    pub points: Vec<(usize, f64)>,
}

const WIDTH: u32 = 860;
const HEIGHT: u32 = 330;
/// The width of the chart without the names of its lines.
const PLOT: u32 = 620;
const MARGIN: u32 = 16;
const NAME_HEIGHT: i32 = 17;
/// The lengths of the dashes of a line and of what is between them.
const DASH: (i32, i32) = (5, 4);
const POINT: i32 = 3;
/// The colours of thin lines.
const THIN: [RGBColor; 12] = [
    RGBColor(0xd1, 0x49, 0x5b),
    RGBColor(0xe0, 0x8e, 0x45),
    RGBColor(0xb5, 0xa2, 0x1c),
    RGBColor(0x5f, 0x9e, 0x3e),
    RGBColor(0x2a, 0x9d, 0x8f),
    RGBColor(0x7a, 0x6f, 0xf0),
    RGBColor(0xb4, 0x55, 0xb6),
    RGBColor(0x8c, 0x6d, 0x46),
    RGBColor(0xe3, 0x77, 0xa2),
    RGBColor(0x7f, 0x8c, 0x99),
    RGBColor(0xa1, 0x1d, 0x4f),
    RGBColor(0x1f, 0x5f, 0x5b),
];

impl Stroke {
    fn style(self) -> ShapeStyle {
        match self {
            Self::Main => SERIES[1].filled().stroke_width(4),
            Self::Dashed => INK.filled().stroke_width(1),
            Self::Thin(colour) => THIN[colour % THIN.len()].filled().stroke_width(2),
        }
    }
}

/// Draws lines over a scale from zero. Their names are at the right, in the order of their last
/// values.
pub fn lines(title: &str, x_label: &str, y_label: &str, series: &[Series]) -> String {
    svg(title, (WIDTH, HEIGHT), |area| {
        let (left, right) = area.split_horizontally(PLOT);
        names(&right, series)?;
        plot(&left, x_label, y_label, series)
    })
}

/// Draws the lines and their axes. Returns the values of all points, which a browser shows beside the
/// mouse.
fn plot(area: &Area<'_>, x_label: &str, y_label: &str, series: &[Series]) -> Drawn<String> {
    let points = || series.iter().flat_map(|series| &series.points);
    let mut xs: Vec<usize> = points().map(|point| point.0).collect();
    xs.sort_unstable();
    xs.dedup();
    let first = xs.first().copied().unwrap_or(0);
    let last = xs.last().copied().unwrap_or(0).max(first + 1);
    let most = points().fold(0.0, |most: f64, point| most.max(point.1));
    let most = if most > 0.0 { most } else { 1.0 };
    let mut chart = ChartBuilder::on(area)
        .margin(MARGIN)
        .x_label_area_size(36)
        .y_label_area_size(48)
        .build_cartesian_2d((first..last).with_key_points(xs), 0.0..most)?;
    let mut mesh = chart.configure_mesh();
    mesh.disable_x_mesh().bold_line_style(GRID).light_line_style(GRID.mix(0.0)).axis_style(GRID);
    mesh.label_style(("sans-serif", LETTERS, &INK)).y_labels(6).x_desc(x_label).y_desc(y_label).draw()?;
    let mut hints = String::new();
    for series in series {
        let style = series.stroke.style();
        let points = series.points.iter().copied();
        if series.stroke == Stroke::Dashed {
            chart.draw_series([DashedPathElement::new(points.clone(), DASH.0, DASH.1, style)])?;
        } else {
            chart.draw_series(LineSeries::new(points.clone(), style))?;
        }
        chart.draw_series(points.clone().map(|point| Circle::new(point, POINT, style)))?;
        for (x, y) in points {
            let (hint, place) = (escape(&format!("{}, {x}: {y:.1}", series.name)), chart.backend_coord(&(x, y)));
            let circle = format!("<circle cx=\"{}\" cy=\"{}\" r=\"6\" opacity=\"0\">", place.0, place.1);
            hints += &format!("{circle}<title>{hint}</title></circle>\n");
        }
    }
    Ok(hints)
}

/// Writes the names of the lines and their last values.
fn names(area: &Area<'_>, series: &[Series]) -> Drawn {
    let mut names: Vec<_> = series.iter().filter_map(|series| Some((series.points.last()?.1, series))).collect();
    names.sort_by(|a, b| b.0.total_cmp(&a.0));
    for ((last, series), index) in names.into_iter().zip(0..) {
        let y = MARGIN as i32 + NAME_HEIGHT * index;
        let (sample, style) = ([(0, y), (18, y)], series.stroke.style());
        if series.stroke == Stroke::Dashed {
            area.draw(&DashedPathElement::new(sample, DASH.0, DASH.1, style))?;
        } else {
            area.draw(&PathElement::new(sample, style))?;
        }
        text(area, (24, y), HPos::Left, &format!("{} {last:.1}", series.name))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(name: &str, points: &[(usize, f64)]) -> Series {
        Series { name: name.to_owned(), stroke: Stroke::Thin(0), points: points.to_vec() }
    }

    #[test]
    fn a_line_goes_through_its_points() {
        let svg = lines("t", "threads", "M/s", &[series("a<b", &[(1, 50.0), (2, 100.0)])]);
        assert!(svg.contains("points=\"64,147 603,16 \""), "{svg}");
        assert!(svg.contains("a&lt;b 100.0") && svg.contains("<title>a&lt;b, 1: 50.0</title>"), "{svg}");
    }

    #[test]
    fn names_stand_in_the_order_of_the_last_values() {
        let svg = lines("t", "x", "y", &[series("low", &[(1, 9.0), (2, 1.0)]), series("high", &[(1, 2.0), (2, 7.0)])]);
        assert!(svg.find("high 7.0") < svg.find("low 1.0"), "{svg}");
    }

    #[test]
    fn nothing_and_a_single_point_can_be_drawn() {
        assert!(lines("t", "x", "y", &[]).contains("</svg>"));
        let svg = lines("t", "x", "y", &[series("one", &[(4, 0.0)])]);
        assert!(svg.contains("cx=\"64\" cy=\"277\"") && !svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }
}
