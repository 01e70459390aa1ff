//! Where results come from: the machine, the build, the versions and the command.

use std::{
    env,
    fs::{self, File},
    io::{self, Read},
};

use annulus_terminal::machine::{self, Machine};
use annulus_topology::Topology;
use aws_lc_rs::digest::{Context, SHA256};
use serde::Serialize;
use serde_json::{Map, Value, json};

/// The bytes of a hash that tell builds apart.
const BUILD_BYTES: usize = 8;

/// The origin of results, as in the files.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Origin {
    /// The processor's name.
    cpu: String,
    /// The number of cores that the process may use.
    cores: usize,
    /// The processors that it may use, their last-level caches, NUMA nodes and quota.
    topology: String,
    /// The machine's memory in units of 1024 x 1024 bytes, if the system reports it.
    memory_mb: Option<u64>,
    /// The operating system, with its version if it reports one.
    system: String,
    /// The version of Annulus.
    annulus: &'static str,
    /// The first 16 digits of the SHA-256 of the program. `None` if its file cannot be read.
    build: Option<String>,
    /// The version of the compiler that built it.
    rustc: &'static str,
    /// The version of DataFusion. `None` unless it ran queries.
    #[serde(skip_serializing_if = "Option::is_none")]
    datafusion: Option<String>,
    /// The version of Flink. `None` unless it ran and reported it.
    #[serde(skip_serializing_if = "Option::is_none")]
    flink: Option<String>,
    /// The version of Java that ran Flink.
    #[serde(skip_serializing_if = "Option::is_none")]
    java: Option<String>,
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
            topology: Topology::detect().describe(),
            memory_mb: machine::memory_bytes().map(|bytes| bytes >> 20),
            system: system.trim_end().to_owned(),
            annulus: env!("CARGO_PKG_VERSION"),
            build: build(),
            rustc: env!("ANNULUS_RUSTC"),
            datafusion: None,
            flink: None,
            java: None,
            command: machine::command_line(),
            seed,
        }
    }

    /// Adds the version of DataFusion, which runs queries.
    pub(super) fn with_datafusion(self, version: String) -> Self {
        Self { datafusion: Some(version), ..self }
    }

    /// Adds the versions of Flink, and of the Java that ran it.
    pub(super) fn set_flink(&mut self, flink: Option<String>, java: Option<String>) {
        (self.flink, self.java) = (flink, java);
    }

    /// Returns what must be the same when a run goes on: the machine, the build, the versions, the
    /// seed, and `settings`. Flink reports its versions with each result.
    pub(super) fn run(&self, settings: Value) -> Map<String, Value> {
        let Self { cpu, cores, topology, memory_mb, system, annulus, build, rustc, datafusion, seed, .. } = self;
        let origin = json!({
            "cpu": cpu, "cores": cores, "topology": topology, "memory_mb": memory_mb, "system": system,
            "annulus": annulus, "build": build, "rustc": rustc, "datafusion": datafusion, "seed": seed,
        });
        [origin, settings].into_iter().filter_map(|part| part.as_object().cloned()).flatten().collect()
    }

    /// Returns the processor's name.
    pub(super) fn cpu(&self) -> &str {
        &self.cpu
    }

    /// Returns the rest as one line.
    pub(super) fn line(&self) -> String {
        let Self { topology, annulus, build, rustc, datafusion, flink, java, system, command, seed, .. } = self;
        let build = build.as_ref().map_or(String::new(), |build| format!(" (build {build})"));
        let others: String = [("DataFusion", datafusion), ("Flink", flink), ("Java", java)]
            .into_iter()
            .filter_map(|(name, version)| Some(format!("{name} {}, ", version.as_ref()?)))
            .collect();
        format!("{topology}, {system}; annulus {annulus}{build}, {others}{rustc}; seed {seed}; {command}")
    }
}

/// Returns the first digits of the SHA-256 of the program's file, which differ from build to build.
/// `None` if the file cannot be read.
fn build() -> Option<String> {
    // On Linux, this is the program that runs, even if another one has taken its place on disk.
    let file = File::open("/proc/self/exe").or_else(|_| File::open(env::current_exe()?));
    first_digits(file.ok()?).ok()
}

fn first_digits(mut file: impl Read) -> io::Result<String> {
    let mut hash = Context::new(&SHA256);
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            bytes => hash.update(&buffer[..bytes]),
        }
    }
    let hash = hash.finish();
    Ok(hash.as_ref()[..BUILD_BYTES].iter().map(|byte| format!("{byte:02x}")).collect())
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

    #[test]
    fn another_build_and_another_engine_are_another_run() {
        // The published hash of 'abc'.
        assert_eq!(first_digits(&b"abc"[..]).unwrap(), "ba7816bf8f01cfea");
        let origin = Origin::new(1);
        let build = origin.build.clone().unwrap();
        assert_eq!((build.len(), Origin::new(1).build), (2 * BUILD_BYTES, Some(build.clone())));
        assert!(origin.line().contains(&format!(" (build {build}), rustc")), "{}", origin.line());
        let run = |origin: &Origin| origin.run(json!({}));
        let other = Origin { build: Some("0123456789abcdef".to_owned()), ..origin.clone() };
        assert_ne!(run(&other), run(&origin));
        let queries = origin.clone().with_datafusion("55.0.0".to_owned());
        assert_ne!(run(&queries), run(&origin));
        assert!(queries.line().contains(", DataFusion 55.0.0, rustc"), "{}", queries.line());
    }

    #[test]
    fn versions_of_what_did_not_run_are_missing() {
        let mut origin = Origin::new(1);
        let json = |origin: &Origin| serde_json::to_value(origin).unwrap();
        assert!(["datafusion", "flink", "java"].iter().all(|name| json(&origin).get(name).is_none()));
        origin.set_flink(Some("1.20.5".to_owned()), Some("21.0.1".to_owned()));
        assert_eq!((&json(&origin)["flink"], &json(&origin)["java"]), (&"1.20.5".into(), &"21.0.1".into()));
        assert!(origin.line().contains(", Flink 1.20.5, Java 21.0.1, rustc"), "{}", origin.line());
    }
}
