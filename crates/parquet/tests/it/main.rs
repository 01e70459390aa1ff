//! Files of all kinds of columns, read here and by the `parquet` crate.

mod damage;
mod matrix;
mod support;
