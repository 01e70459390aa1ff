//! Tables. On a terminal they are wrapped at its width; otherwise their lines are not wrapped.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

/// Returns a table. Columns are aligned as numbers, except those in `words`.
pub fn table(header: &[&str], words: &[usize], rows: impl Iterator<Item = Vec<String>>) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Dynamic);
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

/// Returns an empty table without lines, for names and their values.
pub fn list() -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    table
}
