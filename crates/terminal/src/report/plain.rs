//! Tables for the terminal.

use comfy_table::{CellAlignment, Table, presets};

/// Returns a table. Columns are aligned as numbers, except those in `words`.
pub fn table(header: &[&str], words: &[usize], rows: impl Iterator<Item = Vec<String>>) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table.set_header(header);
    rows.for_each(|row| {
        table.add_row(row);
    });
    for (index, column) in table.column_iter_mut().enumerate() {
        if !words.contains(&index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}
