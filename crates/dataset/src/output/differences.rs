//! The first setting in which a run differs from the run before, as errors show it.

use std::{collections::BTreeMap, path::Path};

use super::{ExistingPolicy, OutputError, Settings};

/// The longest value that errors show. Of longer ones, like the list of all inputs, they show the place
/// where two differ.
const SHOWN_CHARS: usize = 80;
/// The characters before that place.
const SHOWN_BEFORE: usize = 30;

/// Returns an error unless a run that resumes has the settings of the run before.
pub(super) fn same_settings(
    dir: &Path,
    existing: ExistingPolicy,
    now: &Settings,
    before: &Settings,
) -> Result<(), OutputError> {
    let (own, others) = (now.to_texts(), before.to_texts());
    let names = own.keys().chain(others.keys()).map(String::as_str);
    let difference = match before.ambiguous_key() {
        Some(key) => {
            let by = own.get("by").map_or_else(String::new, |by| excerpt(by, 0));
            Some(("by".to_owned(), by, format!("{}, in which a comma may be a part of a name", excerpt(key, 0))))
        }
        None => difference(&own, &others, names),
    };
    let Some((setting, now, before)) = difference else { return Ok(()) };
    Err(OutputError::ResumeDiffers { path: dir.to_owned(), setting, now, before, remedy: existing.start_again() })
}

/// Returns the first of the settings `names` in which two runs differ, with both values as errors
/// show them.
pub(super) fn difference<'a>(
    now: &BTreeMap<String, String>,
    before: &BTreeMap<String, String>,
    names: impl IntoIterator<Item = &'a str>,
) -> Option<(String, String, String)> {
    let name = names.into_iter().find(|&name| now.get(name) != before.get(name))?;
    let (a, b) = (now.get(name), before.get(name));
    let alike = match (a, b) {
        (Some(a), Some(b)) => a.chars().zip(b.chars()).take_while(|(a, b)| a == b).count(),
        _ => 0,
    };
    let shown = |value: Option<&String>| value.map_or("not given".to_owned(), |value| excerpt(value, alike));
    Some((name.to_owned(), shown(a), shown(b)))
}

/// Returns a value in quotes; if it is long, its characters around number `place`.
fn excerpt(value: &str, place: usize) -> String {
    let count = value.chars().count();
    let first = if count > SHOWN_CHARS { place.saturating_sub(SHOWN_BEFORE) } else { 0 };
    let part: String = value.chars().skip(first).take(SHOWN_CHARS).collect();
    let before = if first > 0 { "..." } else { "" };
    let after = if first + SHOWN_CHARS < count { "..." } else { "" };
    format!("'{before}{}{after}'", part.replace(char::is_control, " "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_values_are_shown_where_they_differ() {
        let long = |last: &str| format!("{}b.csv\t{last}\t{}", "/a/folder/".repeat(20), "1".repeat(100));
        let settings = |input: &str| BTreeMap::from([("input".to_owned(), input.to_owned())]);
        let (name, now, before) = difference(&settings(&long("12")), &settings(&long("13")), ["input"]).unwrap();
        assert_eq!(name, "input");
        assert!(now.contains("folder/b.csv 12 1") && now.starts_with("'...") && now.ends_with("...'"), "{now}");
        assert!(before.contains("folder/b.csv 13 1") && before.len() < 100, "{before}");
        let (_, now, before) = difference(&settings("short"), &BTreeMap::new(), ["input"]).unwrap();
        assert_eq!((now.as_str(), before.as_str()), ("'short'", "not given"));
    }
}
