#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod access;
mod control;
mod coordinator;
mod error;
mod host;
mod job;
mod node;
mod plan;
mod query;
mod ring_file;

pub use access::Access;
pub use annulus_cyclo::{AlgorithmCost, AlgorithmCosts};
pub use coordinator::{
    Cancel, HostHandle, HostProcess, HostProgress, HostSummary, KeyFilterDecision, KeyFilterReason, Launch,
    LocalProcesses, Neighbours, Observe, Phase, Planned, RemoteHosts, Summary, plan, run,
};
pub use error::ClusterError;
pub use host::{Member, Stop, serve};
pub use job::{
    Algorithm, Input, Inputs, JoinJob, JoinKind, JoinOptions, KeyFilterMode, LEAST_TIMEOUT, Link, Query, Revolutions,
};
pub use node::Node;
pub use plan::{Choice, Reason, Shown};
pub use query::JoinQuery;
pub use ring_file::{RingFile, RingHost};
