//! Plans a join, runs it on hosts, and watches them.
//!
//! ```text
//! JoinJob -> Planned -> hosts: processes (launch.rs) or nodes (remote.rs)
//!                    -> step by step, all hosts at once (run.rs)
//!                    -> reports, and the first host that fails (lines.rs, watch.rs, failure.rs)
//! ```

mod decide;
mod estimates;
mod failure;
mod key_filter;
mod launch;
mod lines;
mod memory;
mod planned;
mod remote;
mod run;
mod watch;

pub use key_filter::{KeyFilterDecision, KeyFilterReason};
pub use launch::{HostHandle, HostProcess, Launch, LocalProcesses};
pub use planned::{Planned, plan};
pub(crate) use planned::{check_types, in_small_units, nanoseconds_since_1970, open};
pub use remote::RemoteHosts;
pub use run::{Cancel, Observe, Summary, run};

pub use crate::control::{HostProgress, HostSummary, Neighbours, Phase};
