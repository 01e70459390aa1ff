//! The logical node of `JOIN ... NEAREST`, with the syntax and the meaning of Spark and DuckDB. [`sql`](crate::sql)
//! plans it.

mod node;

pub use node::{NearestJoin, NearestOrder};
