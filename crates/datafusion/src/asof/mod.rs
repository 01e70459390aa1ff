//! The logical node of `ASOF JOIN`, with the syntax and the meaning of DataFusion 56. [`sql`](crate::sql)
//! plans it.

mod node;

pub use node::AsOfJoin;
pub(crate) use node::Condition;
