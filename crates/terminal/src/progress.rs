//! Progress bars on the standard error; nothing is drawn when that is no terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// How often the elapsed time of a bar is drawn anew.
const TICK: Duration = Duration::from_millis(200);

/// A bar of `total` steps, named `what`, whose message says what is going on.
pub fn bar(total: u64, what: &'static str) -> ProgressBar {
    let template = "{prefix} {wide_bar:.cyan/blue} {human_pos}/{human_len} {elapsed} {msg}";
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = ProgressBar::new(total).with_style(style).with_prefix(what);
    bar.enable_steady_tick(TICK);
    bar
}

/// A bar over `total` bytes of input, with the time left; a spinner if nobody knows how many there
/// are.
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
