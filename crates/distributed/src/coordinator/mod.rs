//! The coordinator of queries: a session whose queries run on workers.
//!
//! ```text
//! session.rs    the one line for a session
//! planner.rs    plans in stages for the workers that live.rs knows, or for this process
//! broadcast.rs  sends small sides of joins to all workers
//! semi_joins.rs drops rows of scans by the keys of joins in other stages
//! lift.rs       lets joins around a ring, resident tables and datasets have several tasks
//! repeat.rs     lets a query start again if a worker is lost, below the operators that write (sinks.rs)
//! restart.rs    starts it again; attempt_rows.rs holds its rows, and analyze.rs shows what it counted
//! skipped.rs    tells at the end which rows workers could not read
//! ```

mod analyze;
mod attempt_rows;
mod broadcast;
mod lift;
mod live;
mod planner;
mod repeat;
mod restart;
mod semi_joins;
mod session;
mod sinks;
mod skipped;

pub use session::SessionStateBuilderExt;
