//! The errors of this crate.

use std::io;

use crate::CpuList;

/// The reason why a CPU list is invalid, or why a thread could not be pinned.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TopologyError {
    /// The text is not a CPU list.
    #[error("invalid CPU list '{text}': expected numbers below 65536 and ranges, such as 0-3,8")]
    CpuList {
        /// The text, cut after 60 characters.
        text: String,
    },
    /// The list of CPUs to pin a thread to is empty.
    #[error("cannot pin a thread to an empty list of CPUs: name at least one")]
    NoCpus,
    /// The system refuses some of the CPUs: they are offline, outside this process's cpuset, or do
    /// not exist. The thread's CPUs are unchanged.
    #[error("cannot pin a thread to CPUs '{cpus}': the system refuses {refused}; choose among the usable CPUs")]
    NotAllowed {
        /// The CPUs that were asked for.
        cpus: CpuList,
        /// The CPUs that the system refuses.
        refused: CpuList,
    },
    /// The system could not read or set the thread's CPUs, for another reason.
    #[error("cannot pin a thread to CPUs '{cpus}': {source}; run without pinning")]
    System {
        /// The CPUs that were asked for.
        cpus: CpuList,
        /// The system's reason.
        source: io::Error,
    },
    /// Threads can be pinned on Linux alone.
    #[error("cannot pin threads: not supported on this operating system; run without pinning")]
    NotSupported,
}
