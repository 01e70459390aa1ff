//! Parsers for the values of options: sizes, counts, times, settings.

use std::time::Duration;

pub use annulus_terminal::units::{parse_count, parse_scale, parse_size};

/// Parses a number of rows, or `inf` for no limit.
pub fn parse_max_rows(text: &str) -> Result<usize, String> {
    match text {
        "inf" | "none" => Ok(usize::MAX),
        _ => text.parse().map_err(|_| format!("invalid number of rows '{text}': expected a number, or inf for all")),
    }
}

/// The largest number of threads of a process.
const MOST_THREADS: usize = 4096;

/// Parses a number of threads.
pub fn parse_threads(text: &str) -> Result<usize, String> {
    match parse_count(text)? {
        threads if threads <= MOST_THREADS => Ok(threads),
        _ => Err(format!("invalid number of threads '{text}': expected at most {MOST_THREADS}")),
    }
}

/// Parses a share, which may exceed 1.
pub fn parse_share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if (0.001..=1000.0).contains(&share) => Ok(share),
        _ => Err(format!("invalid share '{text}': expected 0.001 to 1000, where 1 is an average partition")),
    }
}

/// Parses a time in seconds; peers send several heartbeats in the shortest one.
pub fn parse_seconds(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(seconds) if (0.05..=86_400.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err(format!("invalid time '{text}': expected 0.05 to 86400 seconds")),
    }
}

/// An option of a session and its value.
pub type Setting = (String, String);

/// Parses `key=value`, where the key is a dotted name.
pub fn parse_setting(text: &str) -> Result<Setting, String> {
    let (key, value) = text.split_once('=').ok_or_else(|| format!("invalid setting '{text}': expected KEY=VALUE"))?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    if key.is_empty() || !key.chars().all(is_name) {
        return Err(format!("invalid option '{key}': expected a name such as datafusion.execution.batch_size"));
    }
    Ok((key.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_split_at_the_first_equals_sign() {
        assert_eq!(parse_setting("a.b=c=d"), Ok(("a.b".into(), "c=d".into())));
        assert!(parse_setting("a.b").is_err());
        assert!(parse_setting("a; drop table t=1").is_err());
        assert!(parse_setting("=1").is_err());
    }

    #[test]
    fn shares_and_rows_have_bounds() {
        assert_eq!(parse_share("0.5"), Ok(0.5));
        assert!(parse_share("0").is_err());
        assert!(parse_share("50%").is_err());
        assert_eq!(parse_max_rows("inf"), Ok(usize::MAX));
        assert!(parse_max_rows("many").is_err());
    }
}
