//! The logical node of `ASOF JOIN`, with the syntax and the meaning of DataFusion 56. [`sql`](crate::sql)
//! plans it, and [`AsOfForms`] finds it in queries that ask for the same rows in other words.

mod forms;
mod node;
mod pairs;

pub(crate) use forms::AsOfForms;
pub use node::AsOfJoin;
pub(crate) use node::Condition;
