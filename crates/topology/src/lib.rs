#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod cgroup;
mod cpus;
mod describe;
mod error;
mod files;
mod machine;
mod parse;
mod pin;
mod placement;
mod suggest;
mod sysfs;
mod topology;
mod units;

pub use cgroup::{Cpuset, Quota};
pub use cpus::CpuList;
pub use error::TopologyError;
pub use machine::{cpu_name, machine};
pub use pin::{PinGuard, pin_current_thread};
pub use placement::{Placement, Policy, Seat};
pub use suggest::Groups;
pub use sysfs::Cache;
pub use topology::{Core, Domain, Topology};
pub use units::short_bytes;
