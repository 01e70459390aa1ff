//! How the files of inputs are read.

use annulus_dataset::{BadRows, ColumnTypes, CsvOptions, InputOptions};
use anyhow::{Result, bail};

/// How input files are read.
#[derive(clap::Args)]
pub struct ReadingArgs {
    /// Format of the inputs: parquet, csv, json, arrow, avro or pages [default: by the names of the
    /// files]
    #[arg(long, value_name = "FORMAT")]
    pub input_format: Option<String>,
    /// Types of columns of CSV and JSON files and of key=value folders, like
    /// zip=text,price=decimal(10,2): text, int, float, bool, date, timestamp, timestamptz,
    /// decimal, or an Arrow type [default: what fits a sample of all files]
    #[arg(long, value_name = "COLUMN=TYPE,..")]
    pub types: Option<String>,
    /// Read all other columns of CSV and JSON files and of folders as text
    #[arg(long)]
    pub all_text: bool,
    /// Character between the fields of a CSV file [default: a comma, a tab in .tsv, | in .tbl, or
    /// what divides the lines]
    #[arg(long, value_name = "CHAR")]
    pub delimiter: Option<char>,
    /// The first line of a CSV file has values, not names
    #[arg(long)]
    pub no_header: bool,
    /// Text that stands for null in a CSV file
    #[arg(long, value_name = "TEXT")]
    pub null: Option<String>,
    /// What to do with a line that cannot be read as its columns' types: fail, skip, or, in
    /// partition, quarantine (to quarantine.jsonl)
    #[arg(long, value_name = "ACTION", default_value = "fail")]
    pub on_bad_row: String,
}

impl ReadingArgs {
    /// The same as the reader wants it.
    pub fn options(self) -> Result<InputOptions> {
        let delimiter = match self.delimiter {
            Some(c) if !c.is_ascii() => bail!("--delimiter is '{c}'; choose a character of ASCII"),
            delimiter => delimiter.map(|c| c as u8),
        };
        let types = match &self.types {
            Some(text) => ColumnTypes::parse(text, self.all_text)?,
            None => ColumnTypes { all_text: self.all_text, ..ColumnTypes::default() },
        };
        let csv = CsvOptions::default().with_delimiter(delimiter).with_header(!self.no_header).with_null(self.null);
        Ok(InputOptions::default()
            .with_types(types)
            .with_format(self.input_format.map(|name| name.parse()).transpose()?)
            .with_csv(csv)
            .with_on_bad_row(self.on_bad_row.parse::<BadRows>()?))
    }
}
