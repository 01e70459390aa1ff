//! Progress bars on standard error. Nothing is drawn when it is not a terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// The time between two redraws of a bar's elapsed time.
const TICK: Duration = Duration::from_millis(200);

/// Returns a bar of `total` steps with the name `what`. Its message can name the running step.
pub fn bar(total: u64, what: &'static str) -> ProgressBar {
    let template = "{prefix} {wide_bar:.cyan/blue} {human_pos}/{human_len} {elapsed} {msg}";
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = ProgressBar::new(total).with_style(style).with_prefix(what);
    bar.enable_steady_tick(TICK);
    bar
}

/// Returns a bar over `total` bytes of input that shows the time left, or a spinner if `total` is 0
/// (unknown).
pub fn bytes(total: u64) -> ProgressBar {
    let (bar, template) = match total {
        0 => (ProgressBar::new_spinner(), "{spinner} {bytes} {elapsed} {msg}"),
        _ => (ProgressBar::new(total), "{wide_bar:.cyan/blue} {bytes}/{total_bytes} {msg} {eta} left"),
    };
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    bar.set_style(style);
    bar.enable_steady_tick(TICK);
    bar
}

/// Returns a spinner beside the elapsed time and a text.
pub fn working(text: String) -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} {elapsed} {msg}");
    let bar = ProgressBar::new_spinner().with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    bar.set_message(text);
    bar.enable_steady_tick(TICK);
    bar
}
