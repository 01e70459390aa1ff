#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod cgroup;
mod cpus;
mod describe;
mod error;
mod files;
mod machine;
mod pin;
mod placement;
mod suggest;
mod sysfs;
mod topology;

pub use cgroup::{Cpuset, Quota};
pub use cpus::CpuList;
pub use describe::short_bytes;
pub use error::TopologyError;
pub use machine::{cpu_name, machine};
pub use pin::{Pinned, pin_current_thread};
pub use placement::{Placement, Policy, Seat};
pub use suggest::Groups;
pub use sysfs::Cache;
pub use topology::{Core, Domain, Topology};
