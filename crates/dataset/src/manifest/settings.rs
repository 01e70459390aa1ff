//! The settings of a run, as a manifest records them.

use std::{collections::BTreeMap, num::NonZeroUsize};

use serde::{Deserialize, Serialize};

use super::{ColumnEntry, Compression, OutputFormat, PlacementRule, SortColumn};
use crate::{
    column_list::{columns_text, quoted_if},
    column_types::view_of,
};

/// The settings of a run: everything that decides which rows go to which file, and how files are
/// written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    tag = "kind",
    rename_all = "snake_case",
    expecting = "expected settings with a `kind` that this version knows, or texts by name"
)]
pub enum Settings {
    /// Nothing is recorded.
    #[default]
    None,
    /// Those of a [`split`](crate::split()).
    Partition(Box<PartitionSettings>),
    /// Those of a join.
    Join(Box<JoinSettings>),
    /// Those of a member of a [`Collection`](crate::Collection).
    Member {
        /// The member's number.
        member: usize,
        /// A different number for each run.
        session: u64,
    },
    /// Settings of a manifest of version 1, as texts by name. When a manifest is read, those of a
    /// split become [`Partition`](Self::Partition), unless their key is ambiguous.
    #[serde(untagged)]
    Texts(BTreeMap<String, String>),
}

/// The settings of a split.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionSettings {
    /// The key columns; none if rows were placed in turn.
    pub by: Vec<String>,
    /// The rule by which rows were placed.
    pub placement: PlacementRule,
    /// The number of partitions; `None` if each value has a folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub into: Option<NonZeroUsize>,
    /// The format of the files.
    pub format: OutputFormat,
    /// The compression of the files' content.
    pub compression: Compression,
    /// The size of pages in bytes, of page files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page_size: Option<usize>,
    /// The size in bytes at which a file was ended, and a further one begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_file_size: Option<u64>,
    /// The columns that the rows of each file are sorted by.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sort_by: Vec<SortColumn>,
    /// Whether rows that could not be read were kept in a file.
    pub quarantine: bool,
    /// The inputs' fingerprint; `None` if they could be read only once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
    /// The keys whose rows were spread over extra files of their partition.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub split_hot_keys: Vec<SpreadKey>,
    /// The keys that the files store as another type than they were hashed as.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub key_types: Vec<KeyType>,
    /// The number of the append, from 1; `None` for a first run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub append: Option<usize>,
}

/// A key whose rows were spread over extra files of its partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpreadKey {
    /// The partition.
    pub partition: u16,
    /// The key's hash, which is stored in hexadecimal.
    #[serde(with = "hexadecimal")]
    pub hash: u64,
    /// The number of extra files.
    pub files: usize,
}

/// The type that a key column was hashed as.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyType {
    /// The column's name.
    pub column: String,
    /// The Arrow type.
    #[serde(rename = "type")]
    pub data_type: String,
}

/// The settings of a join.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinSettings {
    /// The left input.
    pub left: String,
    /// The right input.
    pub right: String,
    /// The pairs of key columns that are equal.
    pub on: Vec<JoinKey>,
    /// The condition on the rows of both sides.
    #[serde(rename = "where", default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
    /// The comparison of times of an as-of join.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asof: Option<String>,
    /// The order of a nearest-rows join, such as `10 BY DISTANCE abs(a.x - b.x)`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nearest: Option<String>,
    /// The type of the join, like `inner`.
    #[serde(rename = "type")]
    pub join_type: String,
    /// The columns of the result as they were given; `None` for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub select: Option<String>,
}

/// A key column of each side of a join.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinKey {
    /// The left side's column.
    pub left: String,
    /// The right side's column.
    pub right: String,
}

impl Settings {
    /// Returns the settings of a split, unless they are others.
    pub fn partition(&self) -> Option<&PartitionSettings> {
        match self {
            Self::Partition(settings) => Some(settings),
            _ => None,
        }
    }

    pub(crate) fn partition_mut(&mut self) -> Option<&mut PartitionSettings> {
        match self {
            Self::Partition(settings) => Some(settings),
            _ => None,
        }
    }

    /// Returns the number of the append that has these settings; `None` for a first run.
    pub(crate) fn append(&self) -> Option<usize> {
        match self {
            Self::Partition(settings) => settings.append,
            Self::Texts(texts) => texts.get("append")?.parse().ok(),
            _ => None,
        }
    }

    /// Returns the same settings without the number of an append.
    pub(crate) fn without_append(&self) -> Self {
        let mut settings = self.clone();
        if let Some(partition) = settings.partition_mut() {
            partition.append = None;
        }
        settings
    }

    /// Returns the session of a member's dataset.
    pub(crate) fn session(&self) -> Option<u64> {
        match self {
            Self::Member { session, .. } => Some(*session),
            Self::Texts(texts) => texts.get("session")?.parse().ok(),
            _ => None,
        }
    }

    /// Returns the key of a split, as a list of its columns, if it is ambiguous: it is of version 1,
    /// and a column has a comma in its name.
    pub(crate) fn ambiguous_key(&self) -> Option<&str> {
        match self {
            Self::Texts(texts) if texts.contains_key("placement") => texts.get("by").map(String::as_str),
            _ => None,
        }
    }

    /// Returns all settings as texts by name, as errors show them.
    pub(crate) fn to_texts(&self) -> BTreeMap<String, String> {
        let texts: Vec<(&str, Option<String>)> = match self {
            Self::None => vec![],
            Self::Texts(texts) => return texts.clone(),
            Self::Member { member, session } => {
                vec![("host", Some(member.to_string())), ("session", Some(session.to_string()))]
            }
            Self::Join(join) => join.to_texts(),
            Self::Partition(partition) => partition.to_texts(),
        };
        texts.into_iter().filter_map(|(name, text)| Some((name.to_owned(), text?))).collect()
    }
}

impl PartitionSettings {
    /// Returns whether a key is a text or bytes, but not in views, in files with these columns.
    pub(crate) fn has_texts(&self, columns: &[ColumnEntry]) -> bool {
        self.by.iter().any(|key| {
            let data_type = columns.iter().find(|column| column.name == *key).map(|column| column.data_type.parse());
            !matches!(data_type, Some(Ok(data_type)) if view_of(&data_type).is_none())
        })
    }

    fn to_texts(&self) -> Vec<(&'static str, Option<String>)> {
        fn list<T: ToString>(items: &[T]) -> Option<String> {
            (!items.is_empty()).then(|| list_text(items))
        }
        let on_bad_row = if self.quarantine { "quarantine" } else { "fail or skip" };
        vec![
            ("by", Some(columns_text(&self.by))),
            ("placement", serde_json::to_string(&self.placement).ok()),
            ("into", self.into.map(|into| into.to_string())),
            ("format", Some(self.format.name().to_owned())),
            ("compression", Some(self.compression.name().to_owned())),
            ("page_size", self.page_size.map(|bytes| bytes.to_string())),
            ("max_file_size", self.max_file_size.map(|bytes| bytes.to_string())),
            ("sort_by", list(&self.sort_by)),
            ("on_bad_row", Some(on_bad_row.to_owned())),
            ("input", self.input.clone()),
            ("split_hot_keys", list(&self.split_hot_keys)),
            ("key_types", list(&self.key_types)),
            ("append", self.append.map(|append| append.to_string())),
        ]
    }
}

/// Returns items with commas between them.
pub(crate) fn list_text<T: ToString>(items: &[T]) -> String {
    items.iter().map(T::to_string).collect::<Vec<_>>().join(",")
}

impl JoinSettings {
    fn to_texts(&self) -> Vec<(&'static str, Option<String>)> {
        let on: Vec<String> = self.on.iter().map(|JoinKey { left, right }| format!("{left}={right}")).collect();
        vec![
            ("left", Some(self.left.clone())),
            ("right", Some(self.right.clone())),
            ("on", Some(on.join(","))),
            ("where", self.condition.clone()),
            ("asof", self.asof.clone()),
            ("nearest", self.nearest.clone()),
            ("type", Some(self.join_type.clone())),
            ("select", self.select.clone()),
        ]
    }
}

impl std::fmt::Display for SpreadKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{:016x}:{}", self.partition, self.hash, self.files)
    }
}

impl std::fmt::Display for KeyType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { column, data_type } = self;
        write!(f, "{}={data_type}", quoted_if(column, column.contains(',') || column.starts_with('"')))
    }
}

/// Stores a number in hexadecimal.
mod hexadecimal {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(number: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{number:016x}"))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        let text = String::deserialize(deserializer)?;
        u64::from_str_radix(&text, 16).map_err(|error| D::Error::custom(format!("invalid hash '{text}': {error}")))
    }
}
