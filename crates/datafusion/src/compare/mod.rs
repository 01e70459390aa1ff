//! One comparison for each pair of types.
//!
//! ```text
//! plan  -> rule.rs: each expression, the keys of joins, the columns of UNION
//! expr  -> rewrite.rs: operands that are compared, or that become one column
//!       -> exact.rs: sums of integers that are compared are whole numbers, without wrapping
//!       -> operands.rs: their zones, their kinds, the type that they are cast to (spans.rs: of intervals)
//!       -> types.rs: the type in which values of two types are compared
//! ```
//! DataFusion then finds equal types, and casts nothing. `docs/sql.md` has the table.

mod constant;
mod error;
pub(crate) mod exact;
mod operands;
mod rewrite;
mod rule;
mod spans;
mod types;

pub use error::Incomparable;
pub use rewrite::compare;
pub use rule::Comparisons;
