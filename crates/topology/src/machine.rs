//! The name of the processor.

use std::{env::consts::ARCH, fs};

use crate::Topology;

/// Returns the processor's name and [the topology](Topology::describe), as one line for the results
/// of measurements.
///
/// ```
/// assert!(annulus_topology::machine().starts_with(&annulus_topology::cpu_name()));
/// ```
pub fn machine() -> String {
    format!("{}, {}", cpu_name(), Topology::detect())
}

/// Returns the processor's name if the system has it in a file, as Linux does on x86, or else its
/// architecture.
pub fn cpu_name() -> String {
    cpu_model().unwrap_or_else(|| ARCH.to_owned())
}

fn cpu_model() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}
