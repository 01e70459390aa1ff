//! Folders that are named by the values of their rows, as Hive names them: `year=2013/month=1`. The
//! files have the other columns.

use std::{fmt::Write, ops::Range, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, RecordBatch},
    compute::partition,
    datatypes::{Schema, SchemaRef},
    error::ArrowError,
    util::display::{ArrayFormatter, FormatOptions},
};

use super::{keys::value_text, slot::Slot};

/// The folder name for null.
const NULL: &str = "__HIVE_DEFAULT_PARTITION__";
/// The folder name for a text that equals [`NULL`]; it must differ from that of null.
const NULL_AS_TEXT: &str = "%5F_HIVE_DEFAULT_PARTITION__";

/// Determines the folder of a row.
#[derive(Debug)]
pub(crate) struct ValueFolders {
    /// The names of the key columns, escaped for folder names, and their positions.
    keys: Vec<(String, usize)>,
    /// The positions of the other columns.
    others: Vec<usize>,
    schema: SchemaRef,
}

impl ValueFolders {
    /// Returns the folders by `keys`: the names and positions of key columns of `schema`.
    pub(crate) fn new(schema: &SchemaRef, keys: &[(String, usize)]) -> Self {
        let is_key = |column: &usize| keys.iter().any(|(_, key)| key == column);
        let others: Vec<usize> = (0..schema.fields().len()).filter(|column| !is_key(column)).collect();
        let fields: Vec<_> = others.iter().map(|&column| schema.fields()[column].clone()).collect();
        let schema = Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()));
        Self { keys: keys.iter().map(|(name, column)| (escaped(name), *column)).collect(), others, schema }
    }

    /// Returns the columns of the files.
    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Returns the position of a file's column among all columns.
    pub(crate) fn column(&self, of_file: usize) -> usize {
        self.others[of_file]
    }

    /// Returns the runs of rows with equal values.
    pub(crate) fn runs(&self, batch: &RecordBatch) -> Result<Vec<Range<usize>>, ArrowError> {
        let keys: Vec<ArrayRef> = self.keys.iter().map(|&(_, column)| batch.column(column).clone()).collect();
        Ok(partition(&keys)?.ranges())
    }

    /// Returns the folder of a row.
    pub(crate) fn folder(&self, batch: &RecordBatch, row: usize) -> String {
        let part = |(name, column): &(String, usize)| format!("{name}={}", value(&batch.column(*column).slice(row, 1)));
        self.keys.iter().map(part).collect::<Vec<_>>().join("/")
    }

    /// Returns the columns of a batch that are in the files.
    pub(crate) fn others(&self, batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
        batch.project(&self.others)
    }
}

/// Returns whether a part of a path is the name of such a folder.
pub(crate) fn is_value_folder(part: &str) -> bool {
    let is_plain = |c: char| !c.is_control() && (c == '=' || c == '%' || !ESCAPED.contains(c));
    part.matches('=').count() == 1 && !part.starts_with(['.', '_', '=']) && part.chars().all(is_plain)
}

/// The characters that Hive escapes, besides control characters.
const ESCAPED: &str = "\"#%'*/:=?\\{[]^";

/// Returns a text escaped as by `FileUtils.escapePathName` of Hive.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_ascii_control() || ESCAPED.contains(c) {
            write!(escaped, "%{:02X}", c as u32).ok();
        } else {
            escaped.push(c);
        }
    }
    escaped
}

/// Returns the only value of `one`, as it is written in a folder's name.
fn value(one: &ArrayRef) -> String {
    if one.logical_null_count() > 0 {
        return NULL.to_owned();
    }
    let options = FormatOptions::default()
        .with_timestamp_format(Some("%Y-%m-%d %H:%M:%S%.f"))
        .with_timestamp_tz_format(Some("%Y-%m-%d %H:%M:%S%.f%:z"));
    let shown = ArrayFormatter::try_new(one, &options).and_then(|shown| shown.value(0).try_to_string());
    // A date or time outside the calendar's range is written as a number.
    let text = shown.ok().or_else(|| value_text(one)).unwrap_or_default();
    if text == NULL { NULL_AS_TEXT.to_owned() } else { escaped(&text) }
}

/// Names the files of a slot, in one folder after the other.
#[derive(Debug, Default)]
pub(super) struct FolderFiles {
    folder: String,
    files: usize,
}

impl FolderFiles {
    /// Switches to a folder, and returns whether it differs from the last one or has no file yet.
    pub(super) fn enter(&mut self, folder: String) -> bool {
        let is_other = self.files == 0 || self.folder != folder;
        if is_other {
            *self = Self { folder, files: 0 };
        }
        is_other
    }

    /// Returns the name of the folder's next file, which ends with `end`.
    pub(super) fn next_name(&mut self, end: &str) -> String {
        let stem = Slot { partition: self.files, hot: None }.stem();
        self.files += 1;
        format!("{}/{stem}{end}", self.folder)
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{
        BooleanArray, Date32Array, Decimal128Array, DictionaryArray, Int32Array, StringArray, TimestampMicrosecondArray,
    };
    use arrow::datatypes::Int32Type;

    use super::*;

    #[test]
    fn values_are_named_as_hive_names_them() {
        let text = |text: &str| -> ArrayRef { Arc::new(StringArray::from(vec![text])) };
        let day = 86_400_000_000;
        let cases: [(ArrayRef, &str); 14] = [
            (text("plain text"), "plain text"),
            (text("a/b=c:d%e'\"\\"), "a%2Fb%3Dc%3Ad%25e%27%22%5C"),
            (text("\u{1}\n\u{7f}"), "%01%0A%7F"),
            (text("Grüße"), "Grüße"),
            (text(""), ""),
            (text(".."), ".."),
            (text(NULL), NULL_AS_TEXT),
            (Arc::new(Int32Array::from(vec![None])), NULL),
            (Arc::new(Int32Array::from(vec![-7])), "-7"),
            (Arc::new(BooleanArray::from(vec![true])), "true"),
            (Arc::new(Date32Array::from(vec![365])), "1971-01-01"),
            (Arc::new(Decimal128Array::from(vec![1050]).with_precision_and_scale(9, 2).unwrap()), "10.50"),
            (Arc::new(TimestampMicrosecondArray::from(vec![day + 1_500_000])), "1970-01-02 00%3A00%3A01.500"),
            (Arc::new(["x"].into_iter().collect::<DictionaryArray<Int32Type>>()), "x"),
        ];
        for (one, expected) in cases {
            let name = value(&one);
            assert_eq!(name, expected);
            assert!(is_value_folder(&format!("k={name}")), "{name}");
        }
        for part in ["k", "=1", ".k=1", "k=1=2", "k=a:b", "k=\n", "k=a/b"] {
            assert!(!is_value_folder(part), "{part}");
        }
    }
}
