//! Charts as SVG text, and self-contained HTML pages that hold them.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod bars;
mod canvas;
pub mod lines;
pub mod page;
