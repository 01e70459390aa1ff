//! Lists of column names as one text: `id,day`. A name with a comma stands in double quotes, as
//! identifiers do in SQL: `"a,b",c`. A quote within them is written twice.

use std::borrow::Cow;

use crate::error::{DatasetError, DatasetOption};

/// Returns the names in a list that is separated by commas. A name that begins with a quote ends
/// with one. Elsewhere, quotes and blanks are a part of the name.
///
/// ```
/// use annulus_dataset::parse_columns;
///
/// assert_eq!(parse_columns(r#"id,"size, in ""cm""""#)?, ["id", r#"size, in "cm""#]);
/// # Ok::<(), annulus_dataset::DatasetError>(())
/// ```
///
/// # Errors
/// If a quote is not closed, or text follows a closed one.
pub fn parse_columns(text: &str) -> Result<Vec<String>, DatasetError> {
    let invalid = || DatasetError::Config {
        option: DatasetOption::By,
        value: format!("'{text}'"),
        remedy: format!("expected names with commas between them; {QUOTING}"),
    };
    let name = |item: Item<'_>| if item.end.is_empty() { Ok(item.name.into_owned()) } else { Err(invalid()) };
    items(text).ok_or_else(invalid)?.into_iter().map(name).collect()
}

/// The syntax of any name.
pub(crate) const QUOTING: &str =
    r#"write a name with a comma as "a,b", and a quote at the beginning of a name as """x""#;

/// An item of a list.
pub(crate) struct Item<'a> {
    /// The name, without quotes. One without quotes is the whole item.
    pub(crate) name: Cow<'a, str>,
    /// Whether the name was in quotes.
    pub(crate) is_quoted: bool,
    /// The text after the closing quote.
    pub(crate) end: &'a str,
}

/// Returns the items of a list; `None` if a quote is not closed.
pub(crate) fn items(text: &str) -> Option<Vec<Item<'_>>> {
    let (mut items, mut rest) = (vec![], Some(text));
    while let Some(text) = rest {
        let (item, more) = match text.strip_prefix('"') {
            Some(quoted) => {
                let quote = closing_quote(quoted)?;
                let (end, more) = split_at_comma(&quoted[quote + 1..]);
                let name = &quoted[..quote];
                (Item { name: name.replace("\"\"", "\"").into(), is_quoted: true, end }, more)
            }
            None => {
                let (name, more) = split_at_comma(text);
                (Item { name: name.into(), is_quoted: false, end: "" }, more)
            }
        };
        items.push(item);
        rest = more;
    }
    Some(items)
}

/// Returns the position of the quote that closes a name: the first that is not one of a pair.
fn closing_quote(text: &str) -> Option<usize> {
    let mut start = 0;
    loop {
        let quote = start + text[start..].find('"')?;
        if !text[quote + 1..].starts_with('"') {
            return Some(quote);
        }
        start = quote + 2;
    }
}

fn split_at_comma(text: &str) -> (&str, Option<&str>) {
    text.split_once(',').map_or((text, None), |(item, rest)| (item, Some(rest)))
}

/// Returns a list of names, which [`parse_columns`] parses.
pub(crate) fn columns_text(names: &[String]) -> String {
    let name = |name: &String| quoted_if(name, name.contains(',') || name.starts_with('"'));
    names.iter().map(name).collect::<Vec<_>>().join(",")
}

/// Returns the name in quotes if it needs them.
pub(crate) fn quoted_if(name: &str, needs_quotes: bool) -> String {
    if needs_quotes { format!("\"{}\"", name.replace('"', "\"\"")) } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_as_they_are_written() {
        for names in [&["a"][..], &["a", " b ", "c\"d", ""], &["a,b", "\"", "\"a\"", "x:desc"], &[",", "\",\""]] {
            let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
            assert_eq!(parse_columns(&columns_text(&names)).unwrap(), names);
        }
        assert_eq!(columns_text(&["id".to_owned(), "a \"b\"".to_owned()]), "id,a \"b\"");
        assert_eq!(parse_columns("a,\"b, \"\"c\"\"\"").unwrap(), ["a", "b, \"c\""]);
    }

    #[test]
    fn quotes_that_are_not_closed_are_refused() {
        for text in ["\"a", "a,\"", "\"a\"\"", "\"a\"b", "\"a\" ,b", "\"a\":desc"] {
            let error = parse_columns(text).unwrap_err().to_string();
            assert!(error.starts_with(&format!("`by` is '{text}': expected names")), "{error}");
        }
    }
}
