//! Plans a join, has hosts carry it out, and watches them.
//!
//! ```text
//! JoinJob -> Planned -> a process for each host (launch.rs) -> step by step, all hosts at once (run.rs)
//!                                                           -> the first that fails, and why (failure.rs)
//! ```

mod failure;
mod launch;
mod planned;
mod run;

pub use launch::{HostProcess, Launch, LocalProcesses};
pub use planned::{Planned, plan};
pub use run::{Cancel, Coordinator, Observe, Summary};

pub use crate::control::{HostProgress, HostSummary, Phase};
