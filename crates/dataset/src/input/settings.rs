//! Options by their names, as texts state them.

use super::{BadRows, ColumnTypes, InputOptions, options::Quote};
use crate::error::DatasetError;

/// The names that [`InputOptions::set`] takes, for messages.
const NAMES: &str = "format, types, all_text, delimiter, quote, escape, comment, skip, header, names, null, decimal, \
    date_format, timestamp_format, encoding, on_bad_row, union_by_name or infer_rows";

impl InputOptions {
    /// Returns the name of the option that `name` means, in any case; `None` if there is none. Names
    /// that other readers of CSV files use count as well.
    pub fn option_name(name: &str) -> Option<&'static str> {
        Some(match name.to_ascii_lowercase().replace('-', "_").as_str() {
            "format" | "input_format" => "format",
            "types" | "dtypes" => "types",
            "all_text" | "all_varchar" => "all_text",
            "delimiter" | "delim" | "sep" | "separator" => "delimiter",
            "quote" | "quote_char" => "quote",
            "escape" => "escape",
            "comment" => "comment",
            "skip" | "skip_lines" | "skip_rows" => "skip",
            "header" | "has_header" => "header",
            "names" | "column_names" => "names",
            "null" | "nulls" | "nullstr" | "null_value" => "null",
            "decimal" | "decimal_separator" => "decimal",
            "date_format" | "dateformat" => "date_format",
            "timestamp_format" | "timestampformat" | "datetime_format" => "timestamp_format",
            "encoding" => "encoding",
            "on_bad_row" => "on_bad_row",
            "union_by_name" => "union_by_name",
            "infer_rows" | "sample_size" => "infer_rows",
            _ => return None,
        })
    }

    /// Sets an option by its [name](Self::option_name). `null` and `types` add to what is set.
    ///
    /// # Errors
    /// If there is no such option, or it has no such value.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), DatasetError> {
        let Some(option) = Self::option_name(name) else {
            return Err(DatasetError::Config {
                option: "options",
                value: format!("'{name}'"),
                remedy: format!("unknown option; choose {NAMES}"),
            });
        };
        let setting = Setting { option, value };
        match option {
            "format" => self.format = Some(value.parse()?),
            "types" => {
                let more = ColumnTypes::parse(value, self.types.all_text)?;
                self.types.columns.retain(|(column, _)| more.columns.iter().all(|(other, _)| other != column));
                self.types.columns.extend(more.columns);
            }
            "all_text" => self.types.all_text = setting.boolean()?,
            "delimiter" => self.csv.delimiter = Some(setting.character()?),
            "quote" if matches!(value, "" | "none") => self.csv.quote = Quote::Off,
            "quote" => self.csv.quote = Quote::Char(setting.character()?),
            "escape" => self.csv.escape = setting.character_or_none()?,
            "comment" => self.csv.comment = setting.character_or_none()?,
            "skip" => self.csv.skip_lines = setting.number()?,
            "header" if value.eq_ignore_ascii_case("auto") => self.csv.header = None,
            "header" => self.csv.header = Some(setting.boolean()?),
            "names" => self.csv.names = value.split(',').map(|name| name.trim().to_owned()).collect(),
            "null" => self.csv.nulls.push(value.to_owned()),
            "decimal" => self.csv.decimal_comma = setting.decimal()?,
            "date_format" => self.csv.date_format = Some(setting.time_format()?),
            "timestamp_format" => self.csv.timestamp_format = Some(setting.time_format()?),
            "encoding" => self.encoding = Some(setting.encoding()?),
            "on_bad_row" => self.on_bad_row = setting.bad_rows()?,
            "union_by_name" => self.union_by_name = setting.boolean()?,
            _ => self.infer_rows = setting.number()?,
        }
        Ok(())
    }
}

/// An option and its value.
struct Setting<'a> {
    option: &'static str,
    value: &'a str,
}

impl Setting<'_> {
    fn invalid(&self, remedy: &str) -> DatasetError {
        let value = format!("'{}'", self.value.escape_debug());
        DatasetError::Config { option: self.option, value, remedy: remedy.to_owned() }
    }

    fn boolean(&self) -> Result<bool, DatasetError> {
        match self.value.to_ascii_lowercase().as_str() {
            "true" | "1" | "yes" | "on" => Ok(true),
            "false" | "0" | "no" | "off" => Ok(false),
            _ => Err(self.invalid("choose true or false")),
        }
    }

    fn number(&self) -> Result<usize, DatasetError> {
        self.value.parse().map_err(|_| self.invalid("give a number"))
    }

    fn character(&self) -> Result<u8, DatasetError> {
        match self.value {
            "tab" | "\\t" => Ok(b'\t'),
            "comma" => Ok(b','),
            "semicolon" => Ok(b';'),
            "pipe" => Ok(b'|'),
            "space" => Ok(b' '),
            "colon" => Ok(b':'),
            text if text.len() == 1 && !matches!(text, "\n" | "\r") && text.is_ascii() => Ok(text.as_bytes()[0]),
            _ => Err(self.invalid("give one ASCII character, or tab, comma, semicolon, pipe, colon or space")),
        }
    }

    fn character_or_none(&self) -> Result<Option<u8>, DatasetError> {
        if matches!(self.value, "" | "none") { Ok(None) } else { self.character().map(Some) }
    }

    fn decimal(&self) -> Result<bool, DatasetError> {
        match self.value {
            "," | "comma" => Ok(true),
            "." | "point" => Ok(false),
            _ => Err(self.invalid("choose ',' or '.'")),
        }
    }

    fn time_format(&self) -> Result<String, DatasetError> {
        use chrono::format::{Item, StrftimeItems};
        let is_wrong = self.value.is_empty() || StrftimeItems::new(self.value).any(|item| item == Item::Error);
        if is_wrong {
            Err(self.invalid("write it as in strftime, like %d.%m.%Y %H:%M:%S"))
        } else {
            Ok(self.value.into())
        }
    }

    fn encoding(&self) -> Result<String, DatasetError> {
        match encoding_rs::Encoding::for_label(self.value.as_bytes()) {
            Some(encoding) => Ok(encoding.name().to_owned()),
            None => Err(self.invalid("give a name such as utf-8, latin1, windows-1252, utf-16le or shift_jis")),
        }
    }

    fn bad_rows(&self) -> Result<BadRows, DatasetError> {
        match self.value {
            "fail" => Ok(BadRows::Fail),
            "skip" => Ok(BadRows::Skip),
            "quarantine" => Ok(BadRows::Quarantine),
            _ => Err(self.invalid("choose fail, skip or quarantine")),
        }
    }
}
