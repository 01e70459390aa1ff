//! Prints rows as a text table while they arrive. The first rows determine the column widths.

use std::io::Write;

use anyhow::Result;
use arrow::{
    array::RecordBatch,
    datatypes::SchemaRef,
    util::display::{ArrayFormatter, FormatOptions},
};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// The number of rows that determine the column widths.
const SAMPLE_ROWS: usize = 1000;
/// The smallest width to which a column is shrunk to fit a terminal.
const MIN_WIDTH: usize = 8;

/// The limits of a printed table.
#[derive(Clone, Copy, Debug)]
pub struct GridLimits {
    pub max_rows: usize,
    /// The width of a line. Longer cells are cut; `None` prints them whole.
    pub line_width: Option<usize>,
}

/// The rows of a table that was printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GridRows {
    /// The number of all rows, including those that were not printed.
    pub total: usize,
    pub printed: usize,
    /// Whether a cell was cut.
    pub cut: bool,
}

/// Prints batches of one schema. Only the first rows are kept in memory.
pub struct GridWriter<'a, W> {
    sink: W,
    schema: SchemaRef,
    options: FormatOptions<'a>,
    limits: GridLimits,
    /// The cells of the rows that arrived before the widths were known.
    waiting: Vec<Vec<String>>,
    widths: Option<Vec<usize>>,
    rows: GridRows,
}

impl<'a, W: Write> GridWriter<'a, W> {
    pub fn new(sink: W, schema: SchemaRef, options: FormatOptions<'a>, limits: GridLimits) -> Self {
        Self { sink, schema, options, limits, waiting: Vec::new(), widths: None, rows: GridRows::default() }
    }

    /// Prints the rows of `batch`, up to the limit, or keeps them until enough rows determine the
    /// widths.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        self.rows.total += batch.num_rows();
        let left = self.limits.max_rows.saturating_sub(self.rows.printed + self.waiting.len());
        let formatters = batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &self.options));
        let formatters = formatters.collect::<Result<Vec<_>, _>>()?;
        for row in 0..batch.num_rows().min(left) {
            let cells = formatters.iter().map(|column| column.value(row).try_to_string().map(printable));
            let cells = cells.collect::<Result<Vec<_>, _>>()?;
            if self.widths.is_none() {
                self.waiting.push(cells);
                if self.waiting.len() == SAMPLE_ROWS {
                    self.begin()?;
                }
            } else {
                self.print(&cells)?;
            }
        }
        Ok(())
    }

    /// Prints the rows that were kept and the end of the table.
    pub fn finish(mut self) -> Result<GridRows> {
        if self.widths.is_none() {
            self.begin()?;
        }
        self.rule()?;
        self.sink.flush()?;
        Ok(self.rows)
    }

    /// Determines the widths, and prints the header and the rows that were kept.
    fn begin(&mut self) -> Result<()> {
        let names: Vec<_> = self.schema.fields().iter().map(|field| printable(field.name().clone())).collect();
        let waiting = std::mem::take(&mut self.waiting);
        let mut widths = vec![1; names.len()];
        for cells in waiting.iter().chain([&names]) {
            for (width, cell) in widths.iter_mut().zip(cells) {
                *width = cell.lines().map(UnicodeWidthStr::width).max().unwrap_or(0).max(*width);
            }
        }
        if let Some(line) = self.limits.line_width {
            shrink(&mut widths, line.saturating_sub(3 * names.len() + 1));
        }
        self.widths = Some(widths);
        self.rule()?;
        self.row(&names, false)?;
        self.rule()?;
        waiting.iter().try_for_each(|cells| self.print(cells))
    }

    fn print(&mut self, cells: &[String]) -> Result<()> {
        self.rows.printed += 1;
        self.row(cells, true)
    }

    fn rule(&mut self) -> Result<()> {
        for width in self.widths.iter().flatten() {
            write!(self.sink, "+{:-<1$}", "", width + 2)?;
        }
        Ok(self.sink.write_all(b"+\n")?)
    }

    /// Prints one row, which has as many lines as its tallest cell. Numbers are aligned to the
    /// right, other values to the left.
    fn row(&mut self, cells: &[String], values: bool) -> Result<()> {
        let widths = self.widths.as_deref().unwrap_or_default();
        let height = cells.iter().map(|cell| cell.lines().count()).max().unwrap_or(0).max(1);
        for line in 0..height {
            for ((cell, width), field) in cells.iter().zip(widths).zip(self.schema.fields()) {
                let mut text = cell.lines().nth(line).unwrap_or("");
                let mut mark = "";
                if self.limits.line_width.is_some() && text.width() > *width {
                    text = fitting(text, width - 1);
                    mark = "…";
                    self.rows.cut = true;
                }
                let pad = width.saturating_sub(text.width() + mark.width());
                let (left, right) = if values && field.data_type().is_numeric() { (pad, 0) } else { (0, pad) };
                write!(self.sink, "| {:left$}{text}{mark}{:right$} ", "", "")?;
            }
            self.sink.write_all(b"|\n")?;
        }
        Ok(())
    }
}

/// Escapes control characters, except line ends.
fn printable(text: String) -> String {
    if text.chars().all(|c| c == '\n' || !c.is_control()) {
        return text;
    }
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => shown.push('\n'),
            '\t' => shown.push_str("    "),
            c if c.is_control() => shown.extend(c.escape_default()),
            c => shown.push(c),
        }
    }
    shown
}

/// Shrinks the widest columns until all columns fit in `room`, if possible.
fn shrink(widths: &mut [usize], room: usize) {
    let total = |cap: usize| widths.iter().map(|width| *width.min(&cap)).sum::<usize>();
    let cap = (MIN_WIDTH..=room.max(MIN_WIDTH)).rev().find(|cap| total(*cap) <= room).unwrap_or(MIN_WIDTH);
    widths.iter_mut().for_each(|width| *width = (*width).min(cap));
}

/// Returns the longest prefix of `text` that fits in `width`.
fn fitting(text: &str, width: usize) -> &str {
    let mut used = 0;
    let end = text.char_indices().find(|(_, c)| {
        used += c.width().unwrap_or(0);
        used > width
    });
    end.map_or(text, |(end, _)| &text[..end])
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array, StringArray};

    use super::*;

    const WHOLE: GridLimits = GridLimits { max_rows: usize::MAX, line_width: None };

    fn batch(numbers: Vec<i64>, texts: Vec<&str>) -> RecordBatch {
        let columns: [(&str, ArrayRef); 2] =
            [("n", Arc::new(Int64Array::from(numbers))), ("text", Arc::new(StringArray::from(texts)))];
        RecordBatch::try_from_iter(columns).expect("a batch")
    }

    fn print(batches: &[RecordBatch], limits: GridLimits) -> (String, GridRows) {
        let mut bytes = Vec::new();
        let mut grid = GridWriter::new(&mut bytes, batches[0].schema(), FormatOptions::default(), limits);
        batches.iter().for_each(|batch| grid.write(batch).expect("printed"));
        let rows = grid.finish().expect("printed");
        (String::from_utf8(bytes).expect("text"), rows)
    }

    #[test]
    fn numbers_end_and_texts_begin_in_one_column() {
        let (text, rows) = print(&[batch(vec![1, 100], vec!["a", "b\nc"])], WHOLE);
        let expected = "+-----+------+\n| n   | text |\n+-----+------+\n|   1 | a    |\n| 100 | b    |\n\
                        |     | c    |\n+-----+------+\n";
        assert_eq!(text, expected);
        assert_eq!(rows, GridRows { total: 2, printed: 2, cut: false });
    }

    #[test]
    fn no_rows_have_a_head() {
        let (text, _) = print(&[batch(vec![], vec![])], WHOLE);
        assert_eq!(text, "+---+------+\n| n | text |\n+---+------+\n+---+------+\n");
    }

    #[test]
    fn rows_beyond_the_limit_are_counted() {
        let batches = [batch(vec![1, 2], vec!["a", "b"]), batch(vec![3], vec!["c"])];
        let (text, rows) = print(&batches, GridLimits { max_rows: 1, ..WHOLE });
        assert_eq!(rows, GridRows { total: 3, printed: 1, cut: false });
        assert!(text.contains("| 1 | a    |") && !text.contains('b'), "{text}");
    }

    #[test]
    fn cells_are_cut_only_where_lines_must_end() {
        let wide = [batch(vec![1], vec!["0123456789abcdef"])];
        let (text, rows) = print(&wide, GridLimits { line_width: Some(20), ..WHOLE });
        assert!(rows.cut && text.lines().all(|line| line.width() <= 20) && text.contains("| 01234567"), "{text}");
        let (text, rows) = print(&wide, WHOLE);
        assert!(!rows.cut && text.contains("0123456789abcdef"), "{text}");
    }

    #[test]
    fn rows_after_the_first_are_printed_whole_and_not_kept() {
        let first = batch((0..SAMPLE_ROWS as i64).collect(), vec!["a"; SAMPLE_ROWS]);
        let mut grid = GridWriter::new(Vec::new(), first.schema(), FormatOptions::default(), WHOLE);
        grid.write(&first).expect("printed");
        grid.write(&batch(vec![7], vec!["longer than its column"])).expect("printed");
        assert!(grid.waiting.is_empty());
        assert!(grid.sink.ends_with(b"|   7 | longer than its column |\n"));
    }

    #[test]
    fn control_characters_are_shown_and_not_sent() {
        let (text, _) = print(&[batch(vec![1], vec!["\u{1b}[31mred\ta"])], WHOLE);
        assert!(text.contains("\\u{1b}[31mred    a"), "{text}");
    }
}
