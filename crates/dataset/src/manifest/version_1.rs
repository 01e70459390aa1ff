//! Reads the settings of manifests of version 1: texts by name, in which commas separate the names of
//! columns. A name with a comma is read if there is only one way to read the list.

use std::{collections::BTreeMap, str::FromStr};

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

use super::{Compression, KeyType, PartitionSettings, PlacementRule, Settings, SortColumn, SpreadKey};

/// The name of the number that members of a collection have in common.
const SESSION: &str = "session";

impl Settings {
    /// Replaces texts by the settings that they stand for, of a dataset with these columns. Texts whose
    /// columns are ambiguous stay.
    pub(crate) fn resolve(&mut self, columns: &[String]) {
        let Self::Texts(texts) = self else { return };
        let partition = || partition(texts, columns).map(|settings| Self::Partition(Box::new(settings)));
        let resolved = if texts.contains_key(SESSION) { member(texts) } else { partition() };
        let resolved = if texts.is_empty() { Some(Self::None) } else { resolved };
        if let Some(settings) = resolved {
            *self = settings;
        }
    }
}

fn member(texts: &BTreeMap<String, String>) -> Option<Settings> {
    let (member, session) = (texts.get("host")?.parse().ok()?, texts.get(SESSION)?.parse().ok()?);
    (texts.len() == 2).then_some(Settings::Member { member, session })
}

fn partition(texts: &BTreeMap<String, String>, columns: &[String]) -> Option<PartitionSettings> {
    let text = |name: &str| texts.get(name).map(String::as_str);
    fn number<T: FromStr>(text: Option<&str>) -> Option<Option<T>> {
        text.filter(|text| *text != "none").map(str::parse).transpose().ok()
    }
    fn list<T>(text: Option<&str>, items: impl Fn(&str) -> Option<Vec<T>>) -> Option<Vec<T>> {
        text.map_or(Some(vec![]), items)
    }
    let format = word(text("format")?)?;
    Some(PartitionSettings {
        by: keys(text("by")?, columns)?,
        placement: placement(text("placement")?),
        into: number(text("into"))?,
        format,
        compression: text("compression").map_or(Some(format.default_compression()), word::<Compression>)?,
        page_size: number(text("page_size"))?,
        max_file_size: number(text("max_file_size"))?,
        sort_by: list(text("sort_by"), |text| sort_columns(text, columns))?,
        quarantine: text("on_bad_row") == Some("quarantine"),
        input: text("input").filter(|input| !input.is_empty()).map(str::to_owned),
        split_hot_keys: list(text("split_hot_keys"), |text| text.split(',').map(spread_key).collect())?,
        key_types: list(text("key_types"), |text| key_types(text, columns))?,
        append: number(text("append"))?,
    })
}

/// Returns the value that a word stands for.
fn word<T: DeserializeOwned>(word: &str) -> Option<T> {
    serde_json::from_value(Value::String(word.to_owned())).ok()
}

/// Returns the names in a list of key columns, which is empty if rows were placed in turn.
fn keys(text: &str, columns: &[String]) -> Option<Vec<String>> {
    let is_column = |name: &str| columns.iter().any(|column| column == name);
    if text.is_empty() && !is_column("") {
        return Some(vec![]);
    }
    if columns.iter().all(|column| !column.contains(',')) {
        return Some(text.split(',').map(str::to_owned).collect());
    }
    only_way(text, |item| is_column(item).then(|| item.to_owned()).into_iter().collect())
}

fn sort_columns(text: &str, columns: &[String]) -> Option<Vec<SortColumn>> {
    let column = |name: &str, descending| {
        let is_column = columns.iter().any(|column| column == name);
        is_column.then(|| SortColumn { column: name.to_owned(), descending })
    };
    only_way(text, |item| {
        let descending = item.strip_suffix(":desc").and_then(|name| column(name, true));
        column(item, false).into_iter().chain(descending).collect()
    })
}

fn key_types(text: &str, columns: &[String]) -> Option<Vec<KeyType>> {
    only_way(text, |item| {
        let ways = item.match_indices('=').filter_map(|(place, _)| {
            let (column, data_type) = (&item[..place], &item[place + 1..]);
            let is_type = data_type.parse::<arrow::datatypes::DataType>().is_ok();
            let is_column = columns.iter().any(|name| name == column);
            (is_type && is_column).then(|| KeyType { column: column.to_owned(), data_type: data_type.to_owned() })
        });
        ways.collect()
    })
}

/// Returns the items of a list whose commas separate items or are parts of them, if there is only one
/// way to read it. `ways` returns all ways to read one item.
fn only_way<T>(text: &str, ways: impl Fn(&str) -> Vec<T>) -> Option<Vec<T>> {
    let commas = text.match_indices(',').map(|(place, _)| place);
    let ends: Vec<usize> = commas.chain([text.len()]).collect();
    // For each item's beginning, from the last: the number of ways to read the rest of the text, and
    // the next item with its end.
    let mut rest: Vec<(usize, Option<(T, usize)>)> = vec![];
    for begin in (0..ends.len()).rev() {
        let start = begin.checked_sub(1).map_or(0, |before| ends[before] + 1);
        let (mut count, mut next) = (0_usize, None);
        for end in begin..ends.len() {
            let ways_behind = if end + 1 == ends.len() { 1 } else { rest[ends.len() - 2 - end].0 };
            for item in ways(&text[start..ends[end]]).into_iter().filter(|_| ways_behind > 0) {
                (count, next) = (count.saturating_add(ways_behind), Some((item, end + 1)));
            }
        }
        rest.push((count, next));
    }
    let (mut items, mut begin) = (vec![], 0);
    while begin < ends.len() {
        let (count, next) = &mut rest[ends.len() - 1 - begin];
        let (item, end) = next.take().filter(|_| *count == 1)?;
        items.push(item);
        begin = end;
    }
    Some(items)
}

/// Returns the rule that a JSON text with a version of its own describes.
fn placement(text: &str) -> PlacementRule {
    #[derive(Deserialize)]
    struct VersionedRule {
        version: u32,
        #[serde(flatten)]
        rule: PlacementRule,
    }
    match serde_json::from_str(text) {
        Ok(VersionedRule { version: 1, rule }) => rule,
        _ => PlacementRule::Unknown,
    }
}

/// Returns the key that a text such as `3:00c0ffee00c0ffee:2` describes: partition, hash and files.
fn spread_key(text: &str) -> Option<SpreadKey> {
    let mut parts = text.split(':');
    let (partition, hash, files) = (parts.next()?, parts.next()?, parts.next()?);
    let hash = u64::from_str_radix(hash, 16).ok()?;
    Some(SpreadKey { partition: partition.parse().ok()?, hash, files: files.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::OutputFormat;

    fn resolved(texts: &[(&str, &str)], columns: &[&str]) -> Settings {
        let text = |&(name, text): &(&str, &str)| (name.to_owned(), text.to_owned());
        let mut settings = Settings::Texts(texts.iter().map(text).collect());
        settings.resolve(&columns.iter().map(|&column| column.to_owned()).collect::<Vec<_>>());
        settings
    }

    fn by(keys: &str, columns: &[&str]) -> Option<Vec<String>> {
        let hash = r#"{"version":1,"rule":"hash","texts_as_views":true}"#;
        let settings = resolved(&[("by", keys), ("placement", hash), ("format", "arrow")], columns);
        assert_eq!(settings.ambiguous_key().is_some(), settings.partition().is_none());
        settings.partition().map(|partition| partition.by.clone())
    }

    #[test]
    fn keys_are_read_unless_they_are_ambiguous() {
        let is = |names: &[&str]| Some(names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>());
        assert_eq!(by("a,b", &["b", "c", "a"]), is(&["a", "b"]));
        assert_eq!(by("a,b", &["c"]), is(&["a", "b"]), "that the columns are missing is found later");
        assert_eq!(by("", &["c"]), is(&[]));
        assert_eq!(by("a,b,c", &["a,b", "c"]), is(&["a,b", "c"]));
        assert_eq!(by("a,b", &["a,b", "a", "c"]), is(&["a,b"]));
        assert_eq!(by("a,b", &["a,b", "a", "b"]), None);
        assert_eq!(by("a,b", &["a,b,c"]), None);
        let many = ["a"; 60].join(",");
        assert_eq!(by(&many, &["a", "a,a"]), None, "it takes no time");
    }

    #[test]
    fn all_settings_of_a_split_are_read() {
        let texts = [
            ("by", "k"),
            ("placement", r#"{"version":1,"rule":"key_groups","groups":64,"texts_as_views":true}"#),
            ("into", "4"),
            ("format", "pages"),
            ("compression", "none"),
            ("page_size", "65536"),
            ("max_file_size", "none"),
            ("sort_by", "t,k:desc"),
            ("on_bad_row", "quarantine"),
            ("input", "/a.csv 7"),
            ("split_hot_keys", "3:00c0ffee00c0ffee:2,3:00c0ffee00c0fffe:2"),
            ("key_types", "k=Decimal128(10, 2),t=Utf8View"),
            ("append", "2"),
        ];
        let settings = resolved(&texts, &["k", "t"]);
        let partition = settings.partition().expect("the settings of a split");
        assert_eq!((partition.format, partition.max_file_size, partition.append), (OutputFormat::Pages, None, Some(2)));
        let rule = PlacementRule::KeyGroups { groups: 64, texts_as_views: true, hash: None };
        assert_eq!((&partition.placement, partition.key_types.len()), (&rule, 2));
        let mut shown = settings.to_texts();
        assert_eq!(
            shown.remove("placement").as_deref(),
            Some(r#"{"rule":"key_groups","groups":64,"texts_as_views":true}"#)
        );
        for (name, text) in texts.iter().filter(|(name, _)| !["placement", "max_file_size"].contains(name)) {
            assert_eq!(shown.get(*name).map(String::as_str), Some(*text), "{name}");
        }
    }

    #[test]
    fn other_settings() {
        let member = Settings::Member { member: 1, session: u64::MAX };
        assert_eq!(resolved(&[("host", "1"), ("session", "18446744073709551615")], &["k"]), member);
        let join = resolved(&[("left", "a"), ("on", "k=k")], &["k"]);
        assert!(matches!(&join, Settings::Texts(texts) if texts.len() == 2) && join.ambiguous_key().is_none());
        assert_eq!(placement(r#"{"version":2,"rule":"round_robin"}"#), PlacementRule::Unknown);
        assert_eq!(placement(r#"{"version":1,"rule":"by_moon"}"#), PlacementRule::Unknown);
    }
}
