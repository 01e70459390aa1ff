//! The options for reading input files.

use annulus_dataset::{BadRows, ColumnType, Dataset, Format, InputOptions, MixedColumn, PartialColumn};
use annulus_terminal::units::counted;
use anyhow::Result;
use clap::ValueEnum;
use indicatif::HumanCount;

use crate::{notes::note, units::Setting};

/// The heading of these options in the help.
const HEADING: &str = "Reading inputs";

/// The options for reading input files.
#[derive(clap::Args)]
pub struct ReadingArgs {
    /// Format of the inputs, if their names do not tell it
    #[arg(long, help_heading = HEADING, value_name = "FORMAT", ignore_case = true)]
    pub input_format: Option<InputFormat>,
    /// Types of columns, such as zip=text,price=decimal(10,2)
    ///
    /// For columns of CSV and JSON files and of key=value folders, where inference is wrong. The
    /// types are text, int, float, bool, date, timestamp, timestamptz, decimal(PRECISION,SCALE), or
    /// the name of an Arrow type. By default a type is inferred from a sample of all files.
    #[arg(long, help_heading = HEADING, value_name = "COLUMN=TYPE,..")]
    pub types: Option<String>,
    /// Field delimiter of CSV files [default: detected]
    ///
    /// A character, or tab, comma, semicolon, pipe, colon or space. By default a tab in .tsv files,
    /// | in .tbl files, and elsewhere the character that divides the lines: a comma, a semicolon, a
    /// tab or |.
    #[arg(long, help_heading = HEADING, value_name = "CHAR")]
    pub delimiter: Option<String>,
    /// Whether the first line of CSV files has names [default: detected]
    ///
    /// With false, the columns are named column_1, column_2 and so on.
    #[arg(
        long,
        help_heading = HEADING,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true"
    )]
    pub header: Option<bool>,
    /// Text that means null in CSV files, such as NA; can be repeated
    #[arg(long, help_heading = HEADING, value_name = "TEXT")]
    pub null: Vec<String>,
    /// Set another option of reading, such as encoding=latin1
    ///
    /// Can be repeated. The options are all_text, quote, escape, comment, skip, names, decimal,
    /// date_format, timestamp_format, encoding, union_by_name and infer_rows: annulus help csv
    /// describes them.
    #[arg(long, help_heading = HEADING, value_name = "KEY=VALUE", value_parser = parse_reading)]
    pub read: Vec<Setting>,
    #[command(flatten)]
    pub by_name: ReadingByName,
    /// What to do with a row that cannot be read
    ///
    /// That is a row with a value that does not have its column's type, or with too few or too many
    /// values.
    #[arg(long, help_heading = HEADING, value_name = "ACTION", default_value = "fail")]
    pub on_bad_row: OnBadRow,
}

/// Options of `--read` by their own names, which the help leaves out: other programs have `--encoding`
/// and the like, so people try them.
#[derive(clap::Args)]
pub struct ReadingByName {
    #[arg(long, hide = true)]
    all_text: bool,
    #[arg(long, hide = true, conflicts_with = "header")]
    no_header: bool,
    #[arg(long, hide = true)]
    quote: Option<String>,
    #[arg(long, hide = true)]
    escape: Option<String>,
    #[arg(long, hide = true)]
    comment: Option<String>,
    #[arg(long, hide = true)]
    skip: Option<String>,
    #[arg(long, hide = true)]
    decimal: Option<String>,
    #[arg(long, hide = true)]
    date_format: Option<String>,
    #[arg(long, hide = true)]
    timestamp_format: Option<String>,
    #[arg(long, hide = true)]
    encoding: Option<String>,
    #[arg(long, hide = true, num_args = 0..=1, default_missing_value = "true")]
    union_by_name: Option<String>,
}

impl ReadingByName {
    fn settings(self) -> impl Iterator<Item = (&'static str, String)> {
        [
            ("all_text", self.all_text.then(|| true.to_string())),
            ("header", self.no_header.then(|| false.to_string())),
            ("quote", self.quote),
            ("escape", self.escape),
            ("comment", self.comment),
            ("skip", self.skip),
            ("decimal", self.decimal),
            ("date_format", self.date_format),
            ("timestamp_format", self.timestamp_format),
            ("encoding", self.encoding),
            ("union_by_name", self.union_by_name),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
    }
}

/// Parses an option of reading and its value; an option without a value is true.
fn parse_reading(text: &str) -> Result<Setting, String> {
    let (name, value) = text.split_once('=').unwrap_or((text, "true"));
    match InputOptions::find_option(name) {
        Some(option) => Ok((option.name().to_owned(), value.to_owned())),
        None => Err(format!("unknown option '{name}': 'annulus help csv' lists the options")),
    }
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
            .with_on_bad_row(self.on_bad_row.into());
        let once = [
            ("types", self.types),
            ("delimiter", self.delimiter),
            ("header", self.header.map(|given| given.to_string())),
        ];
        for (name, value) in once {
            value.map_or(Ok(()), |value| options.set(name, &value))?;
        }
        for text in &self.null {
            options.set("null", text)?;
        }
        for (name, value) in self.by_name.settings() {
            options.set(name, &value)?;
        }
        for (name, value) in &self.read {
            options.set(name, value)?;
        }
        Ok(options)
    }
}

/// Tells people what may surprise the reader of a dataset: which columns are text because
/// of a few values, which may be mistakes, and which files have no header.
pub fn note_surprises(dataset: &Dataset) {
    for MixedColumn { column, others, values, texts, example, .. } in &dataset.mixed {
        let (texts, values) = (HumanCount(*texts), HumanCount(*values));
        let others = ColumnType(others.clone()).word();
        note(format_args!(
            "column '{column}' is text because of {texts} of {values} sampled values, such as '{example}'; \
             --types '{column}={others}' makes their rows bad"
        ));
    }
    if let Some(path) = dataset.without_header.first() {
        let others = match dataset.without_header.len() {
            1 => String::new(),
            files => format!(" and {} other files", HumanCount(files as u64 - 1)),
        };
        note(format_args!(
            "the first line of '{path}'{others} is read as values, since they have the types of the lines below; \
             --header takes it for names, --header=false hides this note"
        ));
    }
}

/// Tells people which columns are null for the rows of files that lack them.
pub fn note_partial(partial: &[PartialColumn]) {
    for PartialColumn { column, files_without, example, .. } in partial {
        let others = match files_without - 1 {
            0 => String::new(),
            others => format!(" and {} more", counted(others as u64, "file")),
        };
        note(format_args!(
            "column '{column}' is null for the rows of '{example}'{others}, which lack it; \
             --read union_by_name=false refuses files that differ"
        ));
    }
}
