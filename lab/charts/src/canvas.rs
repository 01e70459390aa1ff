//! What all charts share: an SVG canvas, colours, and text.

use std::io;

use plotters::{
    coord::Shift,
    prelude::{DrawingArea, DrawingAreaErrorKind, IntoDrawingArea, IntoFont, RGBColor, SVGBackend, Text},
    style::text_anchor::{HPos, Pos, VPos},
};

use crate::page::escape;

pub(crate) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
pub(crate) type Drawn<T = ()> = Result<T, DrawingAreaErrorKind<io::Error>>;

/// The colours of text, and of lines behind a chart. The page's style replaces these, and the first
/// four of [`SERIES`], by those of a light or a dark screen.
pub(crate) const INK: RGBColor = RGBColor(0x1c, 0x24, 0x30);
pub(crate) const GRID: RGBColor = RGBColor(0xd5, 0xda, 0xe1);
/// The colours of series, in their order.
pub(crate) const SERIES: [RGBColor; 10] = [
    RGBColor(0x9a, 0xa5, 0xb4),
    RGBColor(0x17, 0x68, 0xc4),
    RGBColor(0xc8, 0x74, 0x2c),
    RGBColor(0x4c, 0x9a, 0x52),
    RGBColor(0x7a, 0x6f, 0xf0),
    RGBColor(0xd1, 0x49, 0x5b),
    RGBColor(0x2a, 0x9d, 0x8f),
    RGBColor(0x8c, 0x6d, 0x46),
    RGBColor(0xe3, 0x77, 0xa2),
    RGBColor(0x7f, 0x8c, 0x99),
];
/// The size of letters; the backend divides it by 1.24.
pub(crate) const LETTERS: f64 = 11.0 * 1.24;

/// Draws a chart with a title for those who cannot see it. `draw` returns SVG to add at the end.
pub(crate) fn svg(title: &str, size: (u32, u32), draw: impl FnOnce(&Area<'_>) -> Drawn<String>) -> String {
    let mut svg = String::new();
    let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
    let added = draw(&area).expect("a string takes every shape");
    drop(area);
    let title = escape(title);
    let titled = svg.replacen('>', &format!(" role=\"img\" aria-label=\"{title}\"><title>{title}</title>"), 1);
    let drawn = titled.replace("</svg>", &format!("{added}</svg>"));
    // In a page of HTML, the picture needs no address of its language.
    without_breaks(&drawn.replacen(" xmlns=\"http://www.w3.org/2000/svg\"", "", 1))
}

/// Returns the picture with the text of each element beside its tags; the backend puts it on a line
/// of its own.
fn without_breaks(svg: &str) -> String {
    let mut joined = String::with_capacity(svg.len());
    for line in svg.lines() {
        if line.starts_with("</text>") && joined.ends_with('\n') {
            joined.pop();
        }
        joined.push_str(line);
        if !line.starts_with("<text ") || line.ends_with("</text>") {
            joined.push('\n');
        }
    }
    joined
}

/// Writes text beside a point, which is at its start, middle or end.
pub(crate) fn text(area: &Area<'_>, (x, y): (i32, i32), start: HPos, content: &str) -> Drawn {
    let style = ("sans-serif", LETTERS).into_font().color(&INK).pos(Pos::new(start, VPos::Center));
    area.draw(&Text::new(content.to_owned(), (x, y), style))
}
