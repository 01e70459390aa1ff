//! Prints the rows of statements on standard output.

use std::{
    io::{BufWriter, stdout},
    time::Instant,
};

use annulus_terminal::units::counted;
use anyhow::Result;
use arrow::util::display::FormatOptions;
use datafusion::{execution::SendableRecordBatchStream, prelude::SessionContext};
use futures::TryStreamExt;
use indicatif::HumanCount;

use super::{
    args::Format,
    grid::{GridLimits, GridRows, GridWriter},
    pipe::PipeSink,
    writer::{RowFormat, RowWriter},
};

/// The way in which rows are printed.
#[derive(Clone, Copy, Debug)]
pub struct View {
    pub format: Format,
    /// The largest number of rows of a table to print.
    pub max_rows: usize,
    /// Whether standard output is a terminal. Then tables fit its width, and the number of rows is
    /// reported.
    pub terminal: bool,
    /// Whether the time of a statement is reported.
    pub timing: bool,
    /// The option or command that prints all rows.
    pub how_to_see_all: &'static str,
}

impl View {
    /// Prints `rows`, batch by batch. Only the rows of a `query` may be cut, not those that
    /// describe the session. The statement began at `start`.
    pub async fn show(
        &self,
        ctx: &SessionContext,
        rows: SendableRecordBatchStream,
        query: bool,
        start: Instant,
    ) -> Result<()> {
        let sink = PipeSink::new(BufWriter::new(stdout()));
        let closed = sink.closed();
        let shown = self.print(ctx, rows, sink, query).await.map_err(|error| closed.instead_of(error))?;
        let time = if self.timing { format!(" ({:.3} s)", start.elapsed().as_secs_f64()) } else { String::new() };
        match shown {
            Some(rows) if rows.printed < rows.total => {
                let (printed, total) = (HumanCount(rows.printed as u64), row_count(rows.total));
                eprintln!("first {printed} of {total}{time}; {} prints all", self.how_to_see_all);
            }
            Some(rows) if self.terminal => eprintln!("{}{time}", row_count(rows.total)),
            None if self.terminal => eprintln!("done{time}"),
            _ => {}
        }
        if shown.is_some_and(|rows| rows.cut) {
            eprintln!("cut cells end in …; format csv prints them whole");
        }
        Ok(())
    }

    /// Returns the width of a line of the terminal, if there is one.
    pub fn line_width(&self) -> Option<usize> {
        if self.terminal { comfy_table::Table::new().width().map(usize::from) } else { None }
    }

    /// Returns the number of rows, or `None` for a statement without a result.
    async fn print(
        &self,
        ctx: &SessionContext,
        mut rows: SendableRecordBatchStream,
        sink: PipeSink<BufWriter<std::io::Stdout>>,
        query: bool,
    ) -> Result<Option<GridRows>> {
        let schema = rows.schema();
        if schema.fields().is_empty() {
            while rows.try_next().await?.is_some() {}
            return Ok(None);
        }
        if let Some(format) = self.row_format() {
            let total = RowWriter::new(format, sink, &schema)?.write_all(rows).await?;
            return Ok(Some(GridRows { total, printed: total, cut: false }));
        }
        let config = ctx.copied_config();
        let options = FormatOptions::try_from(&config.options().format)?;
        let limits = GridLimits {
            max_rows: if query { self.max_rows } else { usize::MAX },
            line_width: if query { self.line_width() } else { None },
        };
        let mut grid = GridWriter::new(sink, schema, options, limits);
        while let Some(batch) = rows.try_next().await? {
            grid.write(&batch)?;
        }
        grid.finish().map(Some)
    }

    /// Returns the format of the rows, unless they are printed as a table.
    fn row_format(&self) -> Option<RowFormat> {
        match self.format {
            Format::Table => None,
            Format::Csv => Some(RowFormat::Separated(b',')),
            Format::Tsv => Some(RowFormat::Separated(b'\t')),
            Format::Json => Some(RowFormat::JsonArray),
            Format::Ndjson => Some(RowFormat::JsonLines),
        }
    }
}

/// Formats a number of rows: "1 row" or "2,000 rows".
pub fn row_count(rows: usize) -> String {
    counted(rows as u64, "row")
}
