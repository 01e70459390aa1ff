//! The nearest-rows join: each row of the left side with the rows of the right side that are nearest.
//!
//! ```text
//! right side, all partitions -> reservation -> blocks in memory, or on disk, each prepared by a method
//! left side, each partition  -> chunks -> lists of the nearest rows so far, which all blocks are offered to
//!                            -> rows of the right side gathered from the blocks -> output, in the left side's order
//! ```
//! A chunk of the left side is one batch if the right side is in memory. Else it is as large as memory
//! allows, as each chunk reads the right side twice: to find rows, and to gather them.

mod arriving;
mod blocks;
mod build;
mod chunks;
mod condition;
mod exec;
mod forms;
mod method;
mod output;
mod places;
mod scores;
mod stream;

pub use condition::NearestCondition;
pub use exec::NearestJoinExec;
