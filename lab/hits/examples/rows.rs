//! Prints a few rows of the generated table, one column a line.

use annulus_hits::Hits;
use arrow::{error::ArrowError, util::display::array_value_to_string};

fn main() -> Result<(), ArrowError> {
    let hits = Hits::new(1_000_000, 42);
    let batch = hits.batch(0..4)?;
    for (field, column) in batch.schema().fields().iter().zip(batch.columns()) {
        let values: Result<Vec<_>, _> = (0..batch.num_rows()).map(|row| array_value_to_string(column, row)).collect();
        println!("{}: {}", field.name(), values?.join(" | "));
    }
    Ok(())
}
