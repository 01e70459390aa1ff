//! One comparison for each pair of types, in filters, hash joins, joins by bands and nested loops.

mod orders;
mod pairs;
mod sums;
mod support;
mod zones;
