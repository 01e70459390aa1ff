//! A text of everything that determines the rows and units of a dataset: equal for equal datasets,
//! and the same from one version of this crate to the next.

use std::hash::Hasher;

use serde::Serialize;
use twox_hash::XxHash64;

use super::{
    BadRows, ColumnType, ColumnTypes, CsvOptions, InputOptions, Quote, options::default_int96, paths::InputFile,
};

/// The version of the text, raised when the meaning of a field changes.
const VERSION: u32 = 2;

/// The options. The names are part of the stored text.
#[derive(Serialize)]
struct OptionsRecord<'a> {
    version: u32,
    csv: Csv<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    encoding: Option<&'a str>,
    types: &'a ColumnTypes,
    on_bad_row: &'static str,
    unit_bytes: usize,
    unit_rows: Option<usize>,
    infer_rows: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    int96: Option<&'a ColumnType>,
}

/// Only options that are set are part of the text.
#[derive(Serialize)]
struct Csv<'a> {
    delimiter: Option<char>,
    quote: Option<char>,
    header: Option<bool>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    names: &'a [String],
    nulls: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    escape: Option<char>,
    #[serde(skip_serializing_if = "Option::is_none")]
    comment: Option<char>,
    #[serde(skip_serializing_if = "is_default")]
    skip_lines: usize,
    #[serde(skip_serializing_if = "is_default")]
    decimal_comma: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    date_format: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timestamp_format: Option<&'a str>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Returns a line of JSON with the options, followed by a line for each file. Returns also a hash
/// of the same, without anything that differs between machines.
pub(super) fn compute(options: &InputOptions, files: &[InputFile]) -> (String, u64) {
    let mut fingerprint = reading(options) + "\n";
    let mut outline = XxHash64::with_seed(0);
    outline.write(fingerprint.as_bytes());
    for file in files {
        outline.write(format!("{}\t{}\t{}\n", file.format, file.path, file.bytes).as_bytes());
        fingerprint.push_str(&format!("{}\t{}\n", file.format, file.fingerprint));
    }
    (fingerprint, outline.finish())
}

fn reading(options: &InputOptions) -> String {
    let InputOptions {
        csv,
        encoding,
        types,
        on_bad_row,
        unit_bytes,
        unit_rows,
        infer_rows,
        format: _,
        batch_rows: _,
        page_index: _,
        union_by_name: _,
        int96,
        hashed_keys: _,
        copies: _,
    } = options;
    let reading = OptionsRecord {
        version: VERSION,
        csv: csv_text(csv),
        encoding: encoding.as_deref(),
        types,
        on_bad_row: match on_bad_row {
            BadRows::Fail => "fail",
            BadRows::Skip => "skip",
            BadRows::Quarantine => "quarantine",
        },
        unit_bytes: *unit_bytes,
        unit_rows: *unit_rows,
        infer_rows: *infer_rows,
        int96: Some(int96).filter(|int96| **int96 != default_int96()),
    };
    serde_json::to_string(&reading).expect("texts and numbers have a JSON form")
}

fn csv_text(options: &CsvOptions) -> Csv<'_> {
    let CsvOptions {
        delimiter,
        quote,
        escape,
        comment,
        skip_lines,
        header,
        names,
        nulls,
        decimal_comma,
        date_format,
        timestamp_format,
    } = options;
    let quote = match quote {
        Quote::Char(byte) => Some(*byte),
        Quote::Off => None,
    };
    Csv {
        delimiter: delimiter.map(char::from),
        quote: quote.map(char::from),
        header: *header,
        names,
        nulls,
        escape: escape.map(char::from),
        comment: comment.map(char::from),
        skip_lines: *skip_lines,
        decimal_comma: *decimal_comma,
        date_format: date_format.as_deref(),
        timestamp_format: timestamp_format.as_deref(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::CsvOptions;

    /// A run that an older version began must be recognized, and machines with different versions
    /// must agree.
    #[test]
    fn the_text_of_the_options_does_not_change() {
        let usual = concat!(
            r#"{"version":2,"csv":{"delimiter":null,"quote":"\"","header":null,"nulls":[]},"#,
            r#""types":{"columns":[],"all_text":false},"on_bad_row":"fail","#,
            r#""unit_bytes":4194304,"unit_rows":null,"infer_rows":65536}"#,
        );
        assert_eq!(reading(&InputOptions::default()), usual);
        let csv = CsvOptions {
            delimiter: Some(b'|'),
            quote: Quote::Char(b'\''),
            escape: Some(b'\\'),
            comment: Some(b'#'),
            skip_lines: 2,
            header: Some(false),
            names: vec!["a".to_owned()],
            nulls: vec!["\\N".to_owned()],
            decimal_comma: true,
            date_format: Some("%d.%m.%Y".to_owned()),
            timestamp_format: None,
        };
        let options = InputOptions {
            csv,
            encoding: Some("UTF-16LE".to_owned()),
            types: ColumnTypes { columns: vec![("a".to_owned(), "int".parse().unwrap())], all_text: true },
            on_bad_row: BadRows::Quarantine,
            unit_bytes: 7,
            unit_rows: Some(8),
            infer_rows: 9,
            batch_rows: 10,
            format: None,
            page_index: true,
            union_by_name: false,
            int96: "Timestamp(ns)".parse().unwrap(),
            hashed_keys: true,
            copies: vec![],
        };
        let other = concat!(
            r#"{"version":2,"csv":{"delimiter":"|","quote":"'","header":false,"names":["a"],"#,
            r##""nulls":["\\N"],"escape":"\\","comment":"#","skip_lines":2,"decimal_comma":true,"##,
            r#""date_format":"%d.%m.%Y"},"#,
            r#""encoding":"UTF-16LE","types":{"columns":[["a","Int64"]],"all_text":true},"on_bad_row":"quarantine","#,
            r#""unit_bytes":7,"unit_rows":8,"infer_rows":9,"int96":"Timestamp(ns)"}"#,
        );
        assert_eq!(reading(&options), other);
    }
}
