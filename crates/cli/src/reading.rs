//! The options for reading input files.

use annulus_dataset::{BadRows, ColumnTypes, CsvOptions, Format, InputOptions, MixedColumn, PartialColumn};
use annulus_terminal::units::counted;
use anyhow::{Result, bail};
use clap::{ArgAction, ValueEnum};
use indicatif::HumanCount;

/// The heading of these options in the help.
const HEADING: &str = "Reading inputs";

/// The options for reading input files.
#[derive(clap::Args)]
pub struct ReadingArgs {
    /// Format of the inputs [default: from the file names]
    #[arg(long, help_heading = HEADING, value_name = "FORMAT", ignore_case = true)]
    pub input_format: Option<InputFormat>,
    /// Types of columns, such as zip=text,price=decimal(10,2)
    ///
    /// For columns of CSV and JSON files and of key=value folders. The types are text, int, float,
    /// bool, date, timestamp, timestamptz, decimal(PRECISION,SCALE), or the name of an Arrow type.
    /// By default a type is inferred from a sample of all files.
    #[arg(long, help_heading = HEADING, value_name = "COLUMN=TYPE,..")]
    pub types: Option<String>,
    /// Read all other columns of text files and folders as text
    #[arg(long, help_heading = HEADING)]
    pub all_text: bool,
    /// Field delimiter of CSV files [default: detected]
    ///
    /// By default a tab in .tsv files, | in .tbl files, and elsewhere the character that divides
    /// the lines: a comma, a semicolon, a tab or |.
    #[arg(long, help_heading = HEADING, value_name = "CHAR")]
    pub delimiter: Option<char>,
    /// Treat the first line of CSV files as values, not names
    #[arg(long, help_heading = HEADING)]
    pub no_header: bool,
    /// Text that means null in CSV files
    #[arg(long, help_heading = HEADING, value_name = "TEXT")]
    pub null: Option<String>,
    /// Unite the columns of files by name [default: true]
    ///
    /// A column that a file lacks is null for its rows, and types are widened without loss. With
    /// false, all files of an input must have the same columns and types.
    #[arg(
        long,
        help_heading = HEADING,
        value_name = "BOOL",
        action = ArgAction::Set,
        num_args = 0..=1,
        require_equals = true,
        default_value_t = true,
        default_missing_value = "true",
        hide_default_value = true
    )]
    pub union_by_name: bool,
    /// What to do with a row that cannot be read
    ///
    /// That is a row with a value that does not have its column's type, or with too few or too many
    /// values.
    #[arg(long, help_heading = HEADING, value_name = "ACTION", default_value = "fail")]
    pub on_bad_row: OnBadRow,
}

/// The format of input files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum InputFormat {
    #[value(alias = "pq")]
    Parquet,
    #[value(alias = "tsv", alias = "tbl")]
    Csv,
    #[value(alias = "jsonl", alias = "ndjson")]
    Json,
    /// Arrow IPC, as a file or a stream
    #[value(alias = "arrows", alias = "ipc", alias = "feather")]
    Arrow,
    Avro,
    /// Annulus page files
    Pages,
}

/// What to do with a row that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OnBadRow {
    /// Stop with an error that names the file, the line and the column
    Fail,
    /// Leave the row out, and report the count
    Skip,
    /// As skip, and write the row to quarantine.jsonl (partition only)
    Quarantine,
}

impl From<InputFormat> for Format {
    fn from(format: InputFormat) -> Self {
        match format {
            InputFormat::Parquet => Self::Parquet,
            InputFormat::Csv => Self::Csv,
            InputFormat::Json => Self::Json,
            InputFormat::Arrow => Self::Ipc,
            InputFormat::Avro => Self::Avro,
            InputFormat::Pages => Self::Pages,
        }
    }
}

impl From<OnBadRow> for BadRows {
    fn from(action: OnBadRow) -> Self {
        match action {
            OnBadRow::Fail => Self::Fail,
            OnBadRow::Skip => Self::Skip,
            OnBadRow::Quarantine => Self::Quarantine,
        }
    }
}

impl ReadingArgs {
    /// Returns these options for the reader of datasets.
    ///
    /// # Errors
    /// If a type is unknown, or the delimiter is not ASCII.
    pub fn options(self) -> Result<InputOptions> {
        let delimiter = match self.delimiter {
            Some(c) if !c.is_ascii() => bail!("invalid --delimiter '{c}': expected an ASCII character"),
            delimiter => delimiter.map(|c| c as u8),
        };
        let types = match &self.types {
            Some(text) => ColumnTypes::parse(text, self.all_text)?,
            None => ColumnTypes { all_text: self.all_text, ..ColumnTypes::default() },
        };
        let csv = CsvOptions::default().with_delimiter(delimiter).with_header(!self.no_header).with_null(self.null);
        Ok(InputOptions::default()
            .with_types(types)
            .with_format(self.input_format.map(Format::from))
            .with_csv(csv)
            .with_on_bad_row(self.on_bad_row.into())
            .with_union_by_name(self.union_by_name))
    }
}

/// Says on standard error which columns are text because of a few values, which may be mistakes.
pub fn note_mixed(mixed: &[MixedColumn]) {
    for MixedColumn { column, others, values, texts, example, .. } in mixed {
        let (texts, values) = (HumanCount(*texts), HumanCount(*values));
        eprintln!(
            "note: column '{column}' is text because of {texts} of {values} sampled values, such as '{example}'; \
             --types '{column}={others}' makes their rows bad"
        );
    }
}

/// Says on standard error which columns are null for the rows of files that lack them.
pub fn note_partial(partial: &[PartialColumn]) {
    for PartialColumn { column, files_without, example, .. } in partial {
        let others = match files_without - 1 {
            0 => String::new(),
            others => format!(" and {} more", counted(others as u64, "file")),
        };
        eprintln!(
            "note: column '{column}' is null for the rows of '{example}'{others}, which lack it; \
             --union-by-name=false refuses files that differ"
        );
    }
}
