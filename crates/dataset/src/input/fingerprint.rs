//! A text of everything that determines the rows and units of a dataset: equal for equal datasets,
//! and the same from one version of this crate to the next.

use std::hash::Hasher;

use serde::Serialize;
use twox_hash::XxHash64;

use super::{BadRows, ColumnType, ColumnTypes, InputOptions, format::default_int96, paths::InputFile};

/// The version of the text, raised when the meaning of a field changes.
const VERSION: u32 = 1;

/// The options. The names are part of the stored text.
#[derive(Serialize)]
struct Reading<'a> {
    version: u32,
    csv: Csv<'a>,
    types: &'a ColumnTypes,
    on_bad_row: &'static str,
    unit_bytes: usize,
    unit_rows: Option<usize>,
    infer_rows: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    int96: Option<&'a ColumnType>,
}

#[derive(Serialize)]
struct Csv<'a> {
    delimiter: Option<char>,
    quote: char,
    header: bool,
    null: Option<&'a str>,
}

/// Returns a line of JSON with the options, followed by a line for each file. Returns also a hash
/// of the same, without anything that differs between machines.
pub(super) fn of(options: &InputOptions, files: &[InputFile]) -> (String, u64) {
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
    } = options;
    let reading = Reading {
        version: VERSION,
        csv: Csv {
            delimiter: csv.delimiter.map(char::from),
            quote: csv.quote.into(),
            header: csv.header,
            null: csv.null.as_deref(),
        },
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::CsvOptions;

    /// A run that an older version began must be recognized, and machines with different versions
    /// must agree.
    #[test]
    fn the_text_of_the_options_does_not_change() {
        let usual = concat!(
            r#"{"version":1,"csv":{"delimiter":null,"quote":"\"","header":true,"null":null},"#,
            r#""types":{"columns":[],"all_text":false},"on_bad_row":"fail","#,
            r#""unit_bytes":4194304,"unit_rows":null,"infer_rows":65536}"#,
        );
        assert_eq!(reading(&InputOptions::default()), usual);
        let options = InputOptions {
            csv: CsvOptions { delimiter: Some(b'|'), quote: b'\'', header: false, null: Some("\\N".to_owned()) },
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
        };
        let other = concat!(
            r#"{"version":1,"csv":{"delimiter":"|","quote":"'","header":false,"null":"\\N"},"#,
            r#""types":{"columns":[["a","Int64"]],"all_text":true},"on_bad_row":"quarantine","#,
            r#""unit_bytes":7,"unit_rows":8,"infer_rows":9,"int96":"Timestamp(ns)"}"#,
        );
        assert_eq!(reading(&options), other);
    }
}
