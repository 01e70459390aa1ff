//! The columns that rows are sorted by.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{
    column_list::{Item, QUOTING, items, quoted_if},
    error::{DatasetError, DatasetOption},
};

/// A column that rows are sorted by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SortColumn {
    /// The column's name.
    pub column: String,
    /// Whether the greatest value comes first. Nulls then come before it; otherwise they come last,
    /// as in SQL.
    pub descending: bool,
}

impl SortColumn {
    /// Returns the columns in a list such as `day,"a,b":desc`, in which commas separate names. See
    /// [`parse_columns`](crate::parse_columns) for names in quotes.
    ///
    /// # Errors
    /// If a quote is not closed, or another text than `:asc` or `:desc` follows a closed one.
    pub fn parse_list(text: &str) -> Result<Vec<Self>, DatasetError> {
        let invalid = || DatasetError::Config {
            option: DatasetOption::SortBy,
            value: format!("'{text}'"),
            remedy: format!("expected names, or names with :asc or :desc, with commas between them; {QUOTING}"),
        };
        let column = |Item { name, is_quoted, end }: Item<'_>| match end {
            "" if !is_quoted => name.parse(),
            "" | ":asc" => Ok(Self { column: name.into_owned(), descending: false }),
            ":desc" => Ok(Self { column: name.into_owned(), descending: true }),
            _ => Err(invalid()),
        };
        items(text).ok_or_else(invalid)?.into_iter().map(column).collect()
    }
}

impl FromStr for SortColumn {
    type Err = DatasetError;

    /// Takes a name, which may be followed by `:asc` or `:desc`.
    fn from_str(text: &str) -> Result<Self, DatasetError> {
        let (column, descending) = match text.rsplit_once(':') {
            Some((column, "asc")) => (column, false),
            Some((column, "desc")) => (column, true),
            _ => (text, false),
        };
        Ok(Self { column: column.to_owned(), descending })
    }
}

impl fmt::Display for SortColumn {
    /// Writes it as an item of a [list](Self::parse_list).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.column;
        let has_end = name.ends_with(":asc") || name.ends_with(":desc");
        f.write_str(&quoted_if(name, has_end || name.contains(',') || name.starts_with('"')))?;
        f.write_str(if self.descending { ":desc" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_as_they_are_written() {
        let list = |text: &str| SortColumn::parse_list(text).unwrap();
        let of = |column: &str, descending| SortColumn { column: column.to_owned(), descending };
        assert_eq!(list("a,b:desc,c:asc"), [of("a", false), of("b", true), of("c", false)]);
        let quoted = r#""a,b":desc,"x:desc","""q""":asc"#;
        let columns = [of("a,b", true), of("x:desc", false), of("\"q\"", false)];
        assert_eq!(list(quoted), columns);
        let shown: Vec<String> = columns.iter().map(SortColumn::to_string).collect();
        assert_eq!(list(&shown.join(",")), columns);
        let error = SortColumn::parse_list("\"a\":down").unwrap_err().to_string();
        assert!(error.contains(":asc or :desc"), "{error}");
    }
}
