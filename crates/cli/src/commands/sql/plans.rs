//! Plans that fit a terminal: trees if they are narrow enough, else lines that are wrapped.

use std::sync::Arc;

use anyhow::Result;
use arrow::{
    array::{ArrayRef, AsArray, RecordBatch, StringArray},
    datatypes::DataType,
};
use datafusion::{
    execution::SendableRecordBatchStream, physical_plan::stream::RecordBatchStreamAdapter, prelude::SessionContext,
    sql::parser::Statement,
};
use futures::{TryStreamExt, stream};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::instants::with_instants;

/// The corner of a box of a tree.
const CORNER: char = '┌';
/// The columns by which the rest of a line is indented more than the line.
const HANGING: usize = 4;
/// The least width of a wrapped line.
const MIN_WIDTH: usize = 30;

/// Returns the rows of an `EXPLAIN` for lines of `width` columns. If a tree is wider, the rows are those of
/// `in_lines`, which has the same plan in lines.
pub async fn fitted(
    ctx: &SessionContext,
    rows: SendableRecordBatchStream,
    in_lines: Statement,
    width: usize,
) -> Result<SendableRecordBatchStream> {
    let schema = rows.schema();
    let mut batches: Vec<RecordBatch> = rows.try_collect().await?;
    let is_tree = texts(&batches).any(|text| text.contains(CORNER));
    if is_tree && line_width(&batches) > width {
        let plan = with_instants(&ctx.state()).statement_to_plan(in_lines).await?;
        batches = ctx.execute_logical_plan(plan).await?.collect().await?;
    }
    let wide = line_width(&batches).saturating_sub(width);
    if wide > 0 {
        batches = batches.iter().map(|batch| wrapped(batch, width)).collect::<Result<_>>()?;
    }
    let batches = stream::iter(batches.into_iter().map(Ok));
    Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
}

/// Iterates over the plans, which are in the last column.
fn texts(batches: &[RecordBatch]) -> impl Iterator<Item = &str> {
    let columns = batches.iter().filter_map(|batch| batch.columns().last()?.as_string_opt::<i32>());
    columns.flat_map(|column| column.iter().flatten())
}

/// Returns the columns that a table with these rows takes.
fn line_width(batches: &[RecordBatch]) -> usize {
    frame(batches.first()) + texts(batches).flat_map(str::lines).map(UnicodeWidthStr::width).max().unwrap_or(0)
}

/// Returns the columns beside the plan: the other columns and the borders.
fn frame(batch: Option<&RecordBatch>) -> usize {
    let Some(batch) = batch else { return 0 };
    let others = batch.columns().iter().zip(batch.schema_ref().fields()).rev().skip(1);
    let width = |(column, field): (&ArrayRef, &Arc<arrow::datatypes::Field>)| {
        let cells = column.as_string_opt::<i32>().into_iter().flat_map(|column| column.iter().flatten());
        cells.map(UnicodeWidthStr::width).max().unwrap_or(0).max(field.name().width())
    };
    others.map(width).sum::<usize>() + 3 * batch.num_columns() + 1
}

fn wrapped(batch: &RecordBatch, width: usize) -> Result<RecordBatch> {
    let width = width.saturating_sub(frame(Some(batch))).max(MIN_WIDTH);
    let mut columns = batch.columns().to_vec();
    if let Some(last) = columns.last_mut().filter(|last| *last.data_type() == DataType::Utf8) {
        let texts = last.as_string::<i32>().iter().map(|text| text.map(|text| wrap(text, width)));
        *last = Arc::new(texts.collect::<StringArray>());
    }
    Ok(RecordBatch::try_new(batch.schema(), columns)?)
}

/// Breaks the lines of `text` that are longer than `width`, at a blank if there is one. What follows is
/// indented.
fn wrap(text: &str, width: usize) -> String {
    let mut lines = Vec::new();
    for line in text.lines() {
        let indent: String = line.chars().take_while(|&c| c == ' ' || c == '│').take(width / 2).collect();
        let hanging = format!("{indent}{}", " ".repeat(HANGING));
        let (mut rest, mut prefix) = (line, "");
        while prefix.width() + rest.width() > width {
            let end = break_in(rest, width - prefix.width(), indent.len());
            lines.push(format!("{prefix}{}", rest[..end].trim_end()));
            (rest, prefix) = (rest[end..].trim_start(), &hanging);
        }
        lines.push(format!("{prefix}{rest}"));
    }
    lines.join("\n")
}

/// Returns where to break a line to fit in `width` columns: behind the last blank, but not one in its
/// first `indent` bytes.
fn break_in(line: &str, width: usize, indent: usize) -> usize {
    let mut columns = 0;
    let fits = |&(_, c): &(usize, char)| {
        columns += c.width().unwrap_or(0);
        columns <= width
    };
    let (last, c) = line.char_indices().take_while(fits).last().unwrap_or((0, ' '));
    let end = last + c.len_utf8();
    line[..end].rfind(' ').filter(|&blank| blank > indent).map_or(end, |blank| blank + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_wrapped_at_blanks() {
        let text = "  Scan: file=a.parquet, projection=[one, two, three], fetch=10\n    Short";
        let expected = "  Scan: file=a.parquet,\n      projection=[one, two,\n      three], fetch=10\n    Short";
        assert_eq!(wrap(text, 30), expected);
    }

    #[test]
    fn a_line_without_blanks_is_broken_where_it_must() {
        let text = wrap(&"ä".repeat(100), 30);
        assert!(text.lines().all(|line| line.width() <= 30), "{text}");
        assert_eq!(text.chars().filter(|&c| c == 'ä').count(), 100);
    }
}
