//! Line charts as SVG text, coloured by the page's style.

use super::{
    chart::{push, text},
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

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 330.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 600.0;
const TOP: f64 = 24.0;
const BOTTOM: f64 = 290.0;
const NAME_HEIGHT: f64 = 17.0;
/// The number of colours of thin lines.
const COLOURS: usize = 12;
const TICKS: f64 = 4.0;

/// Draws lines over a scale from zero. Their names are at the right, in the order of their last
/// values. Thin lines have the classes `c0` to `c11`.
pub fn lines(title: &str, x_label: &str, y_label: &str, series: &[Series]) -> String {
    let xs: Vec<usize> = {
        let mut xs: Vec<_> = series.iter().flat_map(|series| &series.points).map(|point| point.0).collect();
        xs.sort_unstable();
        xs.dedup();
        xs
    };
    let largest = series.iter().flat_map(|series| &series.points).fold(0.0, |most: f64, point| most.max(point.1));
    let scale = Scale::new(&xs, largest);
    let mut svg = format!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{title}\"><title>{title}</title>\n",
        title = escape(title)
    );
    axes(&mut svg, &scale, &xs, x_label, y_label);
    let mut names = Vec::new();
    for series in series {
        let class = match series.stroke {
            Stroke::Main => "main".to_owned(),
            Stroke::Dashed => "dashed".to_owned(),
            Stroke::Thin(colour) => format!("c{}", colour % COLOURS),
        };
        draw(&mut svg, &scale, series, &class);
        if let Some(&(_, last)) = series.points.last() {
            names.push((last, class, &series.name));
        }
    }
    names.sort_by(|a, b| b.0.total_cmp(&a.0));
    for (index, (last, class, name)) in names.iter().enumerate() {
        let y = TOP + NAME_HEIGHT * index as f64;
        let x = RIGHT + 20.0;
        push(&mut svg, format_args!("<polyline class=\"{class}\" points=\"{x},{y:.1} {:.1},{y:.1}\"/>\n", x + 18.0));
        text(&mut svg, x + 24.0, y + 4.0, "start", &format!("{name} {last:.1}"));
    }
    svg.push_str("</svg>\n");
    svg
}

struct Scale {
    first: f64,
    per_x: f64,
    step: f64,
    per_y: f64,
}

impl Scale {
    /// Puts ticks at multiples of 1, 2 or 5 times a power of ten.
    fn new(xs: &[usize], largest: f64) -> Self {
        let (first, last) = (xs.first().map_or(0.0, |x| *x as f64), xs.last().map_or(0.0, |x| *x as f64));
        let largest = if largest > 0.0 { largest } else { 1.0 };
        let rough = largest / TICKS;
        let power = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power).into_iter().find(|step| *step >= rough);
        let step = step.unwrap_or(10.0 * power);
        let most = (largest / step).ceil().max(1.0) * step;
        Self { first, per_x: (RIGHT - LEFT) / (last - first).max(1.0), step, per_y: (BOTTOM - TOP) / most }
    }

    fn x(&self, x: usize) -> f64 {
        LEFT + (x as f64 - self.first) * self.per_x
    }

    fn y(&self, y: f64) -> f64 {
        BOTTOM - y * self.per_y
    }
}

fn axes(svg: &mut String, scale: &Scale, xs: &[usize], x_label: &str, y_label: &str) {
    let ticks = ((BOTTOM - TOP) / scale.per_y / scale.step).round() as usize;
    for tick in 0..=ticks {
        let value = tick as f64 * scale.step;
        let y = scale.y(value);
        push(svg, format_args!("<path class=\"grid\" d=\"M{LEFT} {y:.1}H{RIGHT}\"/>\n"));
        text(svg, LEFT - 6.0, y + 4.0, "end", &format!("{value}"));
    }
    for &x in xs {
        text(svg, scale.x(x), BOTTOM + 16.0, "middle", &x.to_string());
    }
    text(svg, (LEFT + RIGHT) / 2.0, BOTTOM + 34.0, "middle", x_label);
    text(svg, LEFT - 6.0, TOP - 10.0, "start", y_label);
}

fn draw(svg: &mut String, scale: &Scale, series: &Series, class: &str) {
    let points: Vec<_> = series.points.iter().map(|&(x, y)| format!("{:.1},{:.1}", scale.x(x), scale.y(y))).collect();
    push(svg, format_args!("<polyline class=\"{class}\" points=\"{}\"/>\n", points.join(" ")));
    for &(x, y) in &series.points {
        let hint = escape(&format!("{}, {x}: {y:.1}", series.name));
        push(
            svg,
            format_args!(
                "<circle class=\"{class}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\"><title>{hint}</title></circle>\n",
                scale.x(x),
                scale.y(y)
            ),
        );
    }
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
        assert!(svg.contains("points=\"60.0,157.0 600.0,24.0\""), "{svg}");
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
        assert!(svg.contains("cx=\"60.0\"") && !svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }
}
