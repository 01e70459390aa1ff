//! Files of all kinds of columns, read here and by the `parquet` crate.

mod codes;
mod damage;
mod empty;
mod matrix;
mod memory;
mod support;
mod values;
