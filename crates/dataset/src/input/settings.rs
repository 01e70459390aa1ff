//! Options by their names, as texts state them.

use super::{BadRows, ColumnTypes, InputOptions, options::Quote};
use crate::error::{DatasetError, DatasetOption};

impl InputOptions {
    /// Returns the option that `name` means, in any case; `None` if there is none. Names that other
    /// readers of CSV files use count as well.
    pub fn find_option(name: &str) -> Option<DatasetOption> {
        Some(match name.to_ascii_lowercase().replace('-', "_").as_str() {
            "format" | "input_format" => DatasetOption::InputFormat,
            "types" | "dtypes" => DatasetOption::Types,
            "all_text" | "all_varchar" => DatasetOption::AllText,
            "delimiter" | "delim" | "sep" | "separator" => DatasetOption::Delimiter,
            "quote" | "quote_char" => DatasetOption::Quote,
            "escape" => DatasetOption::Escape,
            "comment" => DatasetOption::Comment,
            "skip" | "skip_lines" | "skip_rows" => DatasetOption::Skip,
            "header" | "has_header" => DatasetOption::Header,
            "names" | "column_names" => DatasetOption::Names,
            "null" | "nulls" | "nullstr" | "null_value" => DatasetOption::Null,
            "decimal" | "decimal_separator" => DatasetOption::Decimal,
            "date_format" | "dateformat" => DatasetOption::DateFormat,
            "timestamp_format" | "timestampformat" | "datetime_format" => DatasetOption::TimestampFormat,
            "encoding" => DatasetOption::Encoding,
            "on_bad_row" => DatasetOption::OnBadRow,
            "union_by_name" => DatasetOption::UnionByName,
            "infer_rows" | "sample_size" => DatasetOption::InferRows,
            _ => return None,
        })
    }

    /// Sets an option by its [name](Self::find_option). `null` and `types` add to what is set.
    ///
    /// # Errors
    /// If there is no such option, or it has no such value.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), DatasetError> {
        let option = Self::find_option(name).ok_or_else(|| DatasetError::UnknownOption(name.to_owned()))?;
        let setting = Setting { option, value };
        match option {
            DatasetOption::InputFormat => self.format = Some(value.parse()?),
            DatasetOption::Types => {
                let more = ColumnTypes::parse(value, self.types.all_text)?;
                self.types.columns.retain(|(column, _)| more.columns.iter().all(|(other, _)| other != column));
                self.types.columns.extend(more.columns);
            }
            DatasetOption::AllText => self.types.all_text = setting.boolean()?,
            DatasetOption::Delimiter => self.csv.delimiter = Some(setting.character()?),
            DatasetOption::Quote if matches!(value, "" | "none") => self.csv.quote = Quote::Off,
            DatasetOption::Quote => self.csv.quote = Quote::Char(setting.character()?),
            DatasetOption::Escape => self.csv.escape = setting.character_or_none()?,
            DatasetOption::Comment => self.csv.comment = setting.character_or_none()?,
            DatasetOption::Skip => self.csv.skip_lines = setting.number()?,
            DatasetOption::Header if value.eq_ignore_ascii_case("auto") => self.csv.header = None,
            DatasetOption::Header => self.csv.header = Some(setting.boolean()?),
            DatasetOption::Names => self.csv.names = value.split(',').map(|name| name.trim().to_owned()).collect(),
            DatasetOption::Null => self.csv.nulls.push(value.to_owned()),
            DatasetOption::Decimal => self.csv.decimal_comma = setting.decimal()?,
            DatasetOption::DateFormat => self.csv.date_format = Some(setting.time_format()?),
            DatasetOption::TimestampFormat => self.csv.timestamp_format = Some(setting.time_format()?),
            DatasetOption::Encoding => self.encoding = Some(setting.encoding()?),
            DatasetOption::OnBadRow => self.on_bad_row = setting.bad_rows()?,
            DatasetOption::UnionByName => self.union_by_name = setting.boolean()?,
            DatasetOption::InferRows => self.infer_rows = setting.number()?,
            _ => return Err(DatasetError::UnknownOption(name.to_owned())),
        }
        Ok(())
    }
}

/// An option and its value.
struct Setting<'a> {
    option: DatasetOption,
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
