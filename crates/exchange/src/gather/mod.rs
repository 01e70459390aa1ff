//! Copies of chosen rows into output batches, typed by column.
