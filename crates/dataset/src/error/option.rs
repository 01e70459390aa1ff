//! The options that errors name.

use std::{fmt, sync::OnceLock};

/// An option of reading, splitting or writing a dataset, as errors name it: `` `memory_limit` ``. A
/// program whose users give options by other names [says so](Self::spell_as).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[expect(missing_docs, reason = "each is the option of its name")]
pub enum DatasetOption {
    AllText,
    Append,
    By,
    ByValue,
    Comment,
    Compression,
    DateFormat,
    Decimal,
    Delimiter,
    Encoding,
    Escape,
    Format,
    Header,
    InferRows,
    Inputs,
    InputFormat,
    Into,
    KeyGroups,
    MemoryLimit,
    Names,
    Null,
    OnBadRow,
    Output,
    Overwrite,
    PageSize,
    Quote,
    Ranges,
    Resume,
    RoundRobin,
    Skip,
    SortBy,
    SplitHotKeys,
    Threads,
    TimestampFormat,
    Types,
    UnionByName,
}

/// How this program spells options.
static SPELLING: OnceLock<fn(DatasetOption) -> String> = OnceLock::new();

impl DatasetOption {
    /// All options.
    pub const ALL: [Self; 36] = [
        Self::AllText,
        Self::Append,
        Self::By,
        Self::ByValue,
        Self::Comment,
        Self::Compression,
        Self::DateFormat,
        Self::Decimal,
        Self::Delimiter,
        Self::Encoding,
        Self::Escape,
        Self::Format,
        Self::Header,
        Self::InferRows,
        Self::Inputs,
        Self::InputFormat,
        Self::Into,
        Self::KeyGroups,
        Self::MemoryLimit,
        Self::Names,
        Self::Null,
        Self::OnBadRow,
        Self::Output,
        Self::Overwrite,
        Self::PageSize,
        Self::Quote,
        Self::Ranges,
        Self::Resume,
        Self::RoundRobin,
        Self::Skip,
        Self::SortBy,
        Self::SplitHotKeys,
        Self::Threads,
        Self::TimestampFormat,
        Self::Types,
        Self::UnionByName,
    ];

    /// Returns the name, as fields and [`InputOptions::set`](crate::InputOptions::set) have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::AllText => "all_text",
            Self::Append => "append",
            Self::By => "by",
            Self::ByValue => "by_value",
            Self::Comment => "comment",
            Self::Compression => "compression",
            Self::DateFormat => "date_format",
            Self::Decimal => "decimal",
            Self::Delimiter => "delimiter",
            Self::Encoding => "encoding",
            Self::Escape => "escape",
            Self::Format => "format",
            Self::Header => "header",
            Self::InferRows => "infer_rows",
            Self::Inputs => "inputs",
            Self::InputFormat => "input_format",
            Self::Into => "into",
            Self::KeyGroups => "key_groups",
            Self::MemoryLimit => "memory_limit",
            Self::Names => "names",
            Self::Null => "null",
            Self::OnBadRow => "on_bad_row",
            Self::Output => "output",
            Self::Overwrite => "overwrite",
            Self::PageSize => "page_size",
            Self::Quote => "quote",
            Self::Ranges => "ranges",
            Self::Resume => "resume",
            Self::RoundRobin => "round_robin",
            Self::Skip => "skip",
            Self::SortBy => "sort_by",
            Self::SplitHotKeys => "split_hot_keys",
            Self::Threads => "threads",
            Self::TimestampFormat => "timestamp_format",
            Self::Types => "types",
            Self::UnionByName => "union_by_name",
        }
    }

    /// Makes errors of this process spell options as `spelling` does, such as `--memory-limit`. Only the
    /// first call counts, which a program makes when it starts.
    pub fn spell_as(spelling: fn(Self) -> String) {
        SPELLING.set(spelling).ok();
    }
}

impl fmt::Display for DatasetOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match SPELLING.get() {
            Some(spelling) => f.write_str(&spelling(*self)),
            None => write!(f, "`{}`", self.name()),
        }
    }
}

/// Returns a setting that a manifest records, as the option of that name if there is one.
pub(crate) fn spelled(setting: &str) -> String {
    match DatasetOption::ALL.into_iter().find(|option| option.name() == setting) {
        Some(option) => option.to_string(),
        None => format!("`{setting}`"),
    }
}
