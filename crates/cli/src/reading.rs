//! The options for reading input files.

use annulus_dataset::{BadRows, ColumnType, Dataset, Format, InputOptions, MixedColumn, PartialColumn};
use annulus_terminal::units::counted;
use anyhow::Result;
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
    /// A character, or tab, comma, semicolon, pipe, colon or space. By default a tab in .tsv files,
    /// | in .tbl files, and elsewhere the character that divides the lines: a comma, a semicolon, a
    /// tab or |.
    #[arg(long, help_heading = HEADING, value_name = "CHAR")]
    pub delimiter: Option<String>,
    /// Quote character of CSV files, or none [default: "]
    #[arg(long, help_heading = HEADING, value_name = "CHAR")]
    pub quote: Option<String>,
    /// Character before a quote within quotes, such as \
    #[arg(long, help_heading = HEADING, value_name = "CHAR")]
    pub escape: Option<String>,
    /// First character of lines of CSV files to ignore, such as #
    #[arg(long, help_heading = HEADING, value_name = "CHAR")]
    pub comment: Option<String>,
    /// Number of lines to ignore at the beginning of CSV files
    #[arg(long, help_heading = HEADING, value_name = "N")]
    pub skip: Option<String>,
    /// Treat the first line of CSV files as names [default: detected]
    #[arg(long, help_heading = HEADING)]
    pub header: bool,
    /// Treat the first line of CSV files as values, not names
    #[arg(long, help_heading = HEADING, conflicts_with = "header")]
    pub no_header: bool,
    /// Text that means null in CSV files; can be repeated
    #[arg(long, help_heading = HEADING, value_name = "TEXT")]
    pub null: Vec<String>,
    /// Mark before the fraction of numbers in CSV files: . or ,
    #[arg(long, help_heading = HEADING, value_name = "CHAR")]
    pub decimal: Option<String>,
    /// Form of dates in CSV files, such as %d.%m.%Y
    #[arg(long, help_heading = HEADING, value_name = "FORMAT")]
    pub date_format: Option<String>,
    /// Form of timestamps in CSV files, such as '%d.%m.%Y %H:%M:%S'
    #[arg(long, help_heading = HEADING, value_name = "FORMAT")]
    pub timestamp_format: Option<String>,
    /// Encoding of CSV and JSON files, such as latin1 or utf-16le
    #[arg(long, help_heading = HEADING, value_name = "NAME")]
    pub encoding: Option<String>,
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
    /// If a value is wrong.
    pub fn options(self) -> Result<InputOptions> {
        let mut options = InputOptions::default()
            .with_format(self.input_format.map(Format::from))
            .with_on_bad_row(self.on_bad_row.into())
            .with_union_by_name(self.union_by_name);
        let flag = |given: bool, value: &str| given.then(|| value.to_owned());
        let once = [
            ("all_text", flag(self.all_text, "true")),
            ("types", self.types),
            ("delimiter", self.delimiter),
            ("quote", self.quote),
            ("escape", self.escape),
            ("comment", self.comment),
            ("skip", self.skip),
            ("header", flag(self.header, "true").or_else(|| flag(self.no_header, "false"))),
            ("decimal", self.decimal),
            ("date_format", self.date_format),
            ("timestamp_format", self.timestamp_format),
            ("encoding", self.encoding),
        ];
        let given = once.into_iter().filter_map(|(name, value)| Some((name, value?)));
        for (name, value) in given.chain(self.null.into_iter().map(|text| ("null", text))) {
            options.set(name, &value)?;
        }
        Ok(options)
    }
}

/// Says on standard error what may surprise the reader of a dataset: which columns are text because
/// of a few values, which may be mistakes, and which files have no header.
pub fn note(dataset: &Dataset) {
    for MixedColumn { column, others, values, texts, example, .. } in &dataset.mixed {
        let (texts, values) = (HumanCount(*texts), HumanCount(*values));
        let others = ColumnType(others.clone()).word();
        eprintln!(
            "note: column '{column}' is text because of {texts} of {values} sampled values, such as '{example}'; \
             --types '{column}={others}' makes their rows bad"
        );
    }
    if let Some(path) = dataset.without_header.first() {
        let others = match dataset.without_header.len() {
            1 => String::new(),
            files => format!(" and {} other files", HumanCount(files as u64 - 1)),
        };
        eprintln!(
            "note: the first line of '{path}'{others} is read as values, since they have the types of the lines below; \
             --header takes it for names, --no-header hides this note"
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
