//! The coordinator of queries: a session whose queries run on workers.
//!
//! ```text
//! session.rs    the one line for a session
//! planner.rs    plans in stages, or for this process
//! broadcast.rs  sends small sides of joins to all workers
//! lift.rs       lets joins around a ring, resident tables and datasets have several tasks
//! ```

mod broadcast;
mod lift;
mod planner;
mod session;

pub use session::SessionStateBuilderExt;
