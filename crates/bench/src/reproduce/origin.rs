//! Where results come from: the machine, the versions and the command.

use std::{env, fs};

use annulus_terminal::machine::{self, Machine};
use serde::Serialize;
use serde_json::{Map, Value, json};

/// The origin of results, as in the files.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Origin {
    /// The processor's name.
    cpu: String,
    /// The number of cores that the process may use.
    cores: usize,
    /// The machine's memory in units of 1024 x 1024 bytes, if the system reports it.
    memory_mb: Option<u64>,
    /// The operating system, with its version if it reports one.
    system: String,
    /// The version of Annulus.
    annulus: &'static str,
    /// The version of the compiler that built it.
    rustc: &'static str,
    /// The command that measured.
    command: String,
    /// The seed of all data.
    seed: u64,
}

impl Origin {
    /// Describes this process.
    pub(super) fn new(seed: u64) -> Self {
        let Machine { cores, cpu, .. } = Machine::new(1);
        let version = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let system = format!("{} {}", env::consts::OS, version.trim());
        Self {
            cpu,
            cores,
            memory_mb: machine::memory_bytes().map(|bytes| bytes >> 20),
            system: system.trim_end().to_owned(),
            annulus: env!("CARGO_PKG_VERSION"),
            rustc: env!("ANNULUS_RUSTC"),
            command: machine::command_line(),
            seed,
        }
    }

    /// Returns what must be the same when a run goes on: all but the command, and `settings`.
    pub(super) fn run(&self, settings: Value) -> Map<String, Value> {
        let Self { cpu, cores, memory_mb, system, annulus, rustc, command: _, seed } = self;
        let origin = json!({
            "cpu": cpu, "cores": cores, "memory_mb": memory_mb, "system": system, "annulus": annulus, "rustc": rustc,
            "seed": seed,
        });
        [origin, settings].into_iter().filter_map(|part| part.as_object().cloned()).flatten().collect()
    }

    /// Returns the processor's name.
    pub(super) fn cpu(&self) -> &str {
        &self.cpu
    }

    /// Returns the rest as one line.
    pub(super) fn line(&self) -> String {
        let Self { annulus, rustc, system, command, seed, .. } = self;
        format!("{system}; annulus {annulus}, {rustc}; seed {seed}; {command}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_its_settings_on_its_machine() {
        let origin = Origin::new(42);
        let run = origin.run(json!({ "rounds": 3 }));
        assert_eq!((run["rounds"].as_u64(), run["seed"].as_u64()), (Some(3), Some(42)));
        assert!(!run.contains_key("command") && run["rustc"].as_str().is_some_and(|text| text.contains("rustc")));
        assert!(origin.line().contains("seed 42"));
    }
}
