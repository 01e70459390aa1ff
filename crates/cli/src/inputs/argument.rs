//! Inputs as they are typed: `~/a.csv`, `{a,b}.csv`, `a.csv?delimiter=;&types=zip=text`.

use std::{fmt::Write, path::Path};

use annulus_dataset::{DatasetOption, InputOptions};
use anyhow::{Context, Result};
use url::Url;

use crate::objects::is_url;

/// An input as it was typed.
#[derive(Debug, PartialEq, Eq)]
pub struct InputArgument {
    /// Its paths, or its URL.
    pub paths: Vec<String>,
    pub options: InputOptions,
}

impl InputArgument {
    /// Splits an input into its paths and options. Options behind `?` replace `options`; one that
    /// adds, such as `null`, replaces those that all inputs have.
    ///
    /// # Errors
    /// If an option is unknown, or has a wrong value.
    pub fn parse(input: &str, options: &InputOptions) -> Result<Self> {
        let mut options = options.clone();
        let path = match divide(input) {
            Some((path, settings)) => {
                if settings.iter().any(|(name, _)| InputOptions::find_option(name) == Some(DatasetOption::Null)) {
                    options.csv.nulls.clear();
                }
                for (name, value) in settings {
                    options.set(name, &value).with_context(|| format!("options of '{path}'"))?;
                }
                path
            }
            None => input,
        };
        // A URL of a local file is its path.
        let file = path.starts_with("file://").then(|| Url::parse(path).ok()?.to_file_path().ok()).flatten();
        let file = file.and_then(|path| path.into_os_string().into_string().ok());
        let path = file.as_deref().unwrap_or(path);
        let paths = if is_url(path) || Path::new(path).exists() { vec![path.to_owned()] } else { expand(path) };
        Ok(Self { paths, options })
    }
}

/// Returns `path` with options behind it, as [`InputArgument::parse`] reads them.
pub fn with_options(path: &str, options: &[(String, String)]) -> String {
    let mut text = path.to_owned();
    for (number, (name, value)) in options.iter().enumerate() {
        let mark = if number == 0 { '?' } else { '&' };
        let value = value.replace('%', "%25").replace('&', "%26").replace('?', "%3F");
        // Writing to a text does not fail.
        let _ = write!(text, "{mark}{name}={value}");
    }
    text
}

/// Divides an input at the `?` before its options. `None` if it has none: a glob may have `?`, and
/// so may a URL, whose own parameters are not options.
fn divide(input: &str) -> Option<(&str, Vec<(&str, String)>)> {
    if Path::new(input).exists() {
        return None;
    }
    let (path, settings) = input.rsplit_once('?')?;
    let setting = |part| {
        let (name, value) = str::split_once(part, '=').unwrap_or((part, "true"));
        (name, decoded(value))
    };
    let settings: Vec<_> = settings.split('&').map(setting).collect();
    let are_known = settings.iter().all(|(name, _)| InputOptions::find_option(name).is_some());
    // A file with an unknown option deserves the list of those that there are.
    let is_file = || !is_url(path) && Path::new(path).is_file();
    (are_known || is_file()).then_some((path, settings))
}

/// Returns a text with escapes like `%26` replaced by what they stand for.
fn decoded(text: &str) -> String {
    let mut parts = text.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        match part.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                bytes.extend_from_slice(&part.as_bytes()[2..]);
            }
            None => {
                bytes.push(b'%');
                bytes.extend_from_slice(part.as_bytes());
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Returns the paths that a path with `~` or braces stands for, as in a shell.
fn expand(path: &str) -> Vec<String> {
    let path = match (path.strip_prefix('~'), dirs::home_dir()) {
        (Some(rest), Some(home)) if rest.is_empty() || rest.starts_with('/') => format!("{}{rest}", home.display()),
        _ => path.to_owned(),
    };
    braces(&path)
}

/// Returns a text for each of the alternatives of its braces, which may be nested.
fn braces(text: &str) -> Vec<String> {
    let Some(marks) = first_braces(text) else { return vec![text.to_owned()] };
    let (before, after) = (&text[..marks[0]], &text[marks[marks.len() - 1] + 1..]);
    let alternatives = marks.windows(2).map(|pair| &text[pair[0] + 1..pair[1]]);
    alternatives.flat_map(|alternative| braces(&format!("{before}{alternative}{after}"))).collect()
}

/// Returns the positions of the first brace that has alternatives, of the commas between them, and
/// of the closing brace.
fn first_braces(text: &str) -> Option<Vec<usize>> {
    for (start, _) in text.match_indices('{') {
        let (mut marks, mut depth) = (vec![start], 0);
        for (at, c) in text[start + 1..].char_indices() {
            match (c, depth) {
                ('{', _) => depth += 1,
                ('}', 0) => {
                    marks.push(start + 1 + at);
                    break;
                }
                ('}', _) => depth -= 1,
                (',', 0) => marks.push(start + 1 + at),
                _ => {}
            }
        }
        if marks.len() > 2 && text[marks[marks.len() - 1]..].starts_with('}') {
            return Some(marks);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn braces_have_alternatives() {
        assert_eq!(braces("{a,b}.csv"), ["a.csv", "b.csv"]);
        assert_eq!(braces("x/{a,b{1,2}}/{c,}"), ["x/a/c", "x/a/", "x/b1/c", "x/b1/", "x/b2/c", "x/b2/"]);
        for text in ["a.csv", "{a}.csv", "{a,b", "a,b}"] {
            assert_eq!(braces(text), [text]);
        }
    }

    #[test]
    fn options_are_those_behind_a_question_mark() {
        let options = InputOptions::default();
        let given = InputArgument::parse("a.csv?delimiter=%26&types=zip=text,n=int&no%", &options).expect("a glob");
        assert_eq!(given.paths, ["a.csv?delimiter=%26&types=zip=text,n=int&no%"]);
        let given =
            InputArgument::parse("a.csv?delimiter=%26&types=zip=text,n=int&all_text", &options).expect("options");
        assert_eq!(given.paths, ["a.csv"]);
        assert_eq!((given.options.csv.delimiter, given.options.types.all_text), (Some(b'&'), true));
        assert_eq!(given.options.types.columns.len(), 2);
        let url = "http://localhost/a.csv?token=1";
        assert_eq!(InputArgument::parse(url, &options).expect("a URL").paths, [url]);
        assert!(InputArgument::parse("a.csv?delimiter=ab", &options).is_err());
    }

    #[test]
    fn options_that_are_written_are_read_again() {
        let pairs = [("delimiter", "&"), ("null", "50%?"), ("types", "a=decimal(9,2)")];
        let written = with_options("a.csv", &pairs.map(|(name, value)| (name.to_owned(), value.to_owned())));
        let given = InputArgument::parse(&written, &InputOptions::default()).expect("options");
        assert_eq!((given.options.csv.delimiter, &given.options.csv.nulls[..]), (Some(b'&'), &["50%?".to_owned()][..]));
    }
}
