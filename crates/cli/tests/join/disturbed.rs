//! A join that is disturbed while it runs, and checks of what it leaves.

use std::{
    fs,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use rand::{SeedableRng, rngs::StdRng};
use tempfile::TempDir;

use crate::{
    support::{
        Annulus, Running, names,
        processes::{children, processes, state},
    },
    tables::{Shape, write_parquet},
};

/// The join's own `--timeout`.
pub const TIMEOUT: Duration = Duration::from_secs(2);
/// The additional time that it may need on a busy machine.
const SLACK: Duration = Duration::from_secs(20);

/// Inputs that take a while to join, and a folder for temporary files that no other process uses.
pub struct Scene {
    folder: TempDir,
    /// The folder of the result.
    pub output: PathBuf,
}

impl Scene {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut rng = StdRng::seed_from_u64(0);
        for name in ["a", "b"] {
            let shape = Shape { rows: 4000, keys: 300, nulls: 0.1, skewed: false };
            write_parquet(&folder.path().join(name), &shape.table(&mut rng, name == "a"), 3, 500);
        }
        fs::create_dir(folder.path().join("tmp")).expect("a folder");
        let output = folder.path().join("out");
        Self { folder, output }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Returns a join of the inputs on `hosts` hosts.
    pub fn join(&self, hosts: usize, options: &[&str]) -> Annulus {
        let timeout = TIMEOUT.as_secs().to_string();
        let rows = ["--on", "k", "--where", "a.x + b.x > 10", "--json", "--fragment-size", "8K"];
        self.join_by(hosts, &[&rows[..], &["--timeout", &timeout], options].concat())
    }

    /// Returns a join that is described only by its options.
    pub fn join_by(&self, hosts: usize, options: &[&str]) -> Annulus {
        let (hosts, output) = (hosts.to_string(), self.output.to_str().expect("UTF-8"));
        let arguments = ["join", "a", "b", "--output", output, "--local", &hosts, "--threads", "1"];
        Annulus::new(arguments.iter().chain(options)).at(self.path()).temp(&self.path().join("tmp"))
    }

    /// Returns the processes of the hosts that have started, in the order of the hosts.
    pub fn hosts(&self, coordinator: u32) -> Vec<u32> {
        children(coordinator)
    }

    /// Returns the processes of this scene's joins, found by their environment.
    fn processes(&self) -> Vec<u32> {
        let variable = format!("TMPDIR={}", self.path().join("tmp").display());
        let is_ours = |pid: &u32| {
            let variables = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            variables.split(|byte| *byte == 0).any(|found| found == variable.as_bytes()) && state(*pid) != Some('Z')
        };
        processes().filter(is_ours).collect()
    }

    /// Waits until the hosts have ended after their coordinator is gone.
    #[track_caller]
    pub fn wait_for_ends(&self) {
        let deadline = Instant::now() + TIMEOUT + SLACK;
        while !self.processes().is_empty() {
            assert!(Instant::now() < deadline, "processes are left: {:?}", self.processes());
            thread::yield_now();
        }
    }

    /// Checks that no processes, sockets or shared memory are left.
    #[track_caller]
    pub fn assert_nothing_runs(&self) {
        assert_eq!(self.processes(), [0; 0], "processes are left");
        let temporary = names(&self.path().join("tmp"));
        assert!(!temporary.iter().any(|name| name.starts_with("annulus-ring")), "sockets are left: {temporary:?}");
        let shared = names(Path::new("/dev/shm"));
        assert!(!shared.iter().any(|name| name.contains("annulus")), "shared memory is left: {shared:?}");
    }

    /// Checks that nothing runs and that nothing of a result is left.
    #[track_caller]
    pub fn assert_nothing_left(&self) {
        self.assert_nothing_runs();
        assert!(!self.output.exists(), "{:?} is left", tree(&self.output));
    }

    /// Checks that no file is left that readers of the folder would see.
    #[track_caller]
    pub fn assert_nothing_visible(&self) {
        assert_eq!(visible(&self.output), [""; 0], "files are left");
    }

    /// Returns the rows of an undisturbed join according to its manifest.
    #[track_caller]
    pub fn rows(&self, hosts: usize) -> u64 {
        self.join(hosts, &[]).succeeds();
        self.assert_nothing_runs();
        self.rows_told()
    }

    /// Returns the number of rows in the manifest.
    #[track_caller]
    pub fn rows_told(&self) -> u64 {
        let manifest = fs::read(self.output.join("manifest.json")).expect("a manifest");
        let manifest: serde_json::Value = serde_json::from_slice(&manifest).expect("JSON");
        manifest["rows"].as_u64().expect("a number")
    }
}

/// The end of a disturbed join.
pub struct Ended {
    pub code: Option<i32>,
    pub stderr: String,
    /// The time from the disturbance to the end.
    pub after: Duration,
}

impl Ended {
    /// Waits for the end, and fails if it takes too long.
    #[track_caller]
    pub fn of(mut running: Running) -> Self {
        let disturbed = Instant::now();
        while !running.has_ended() {
            assert!(disturbed.elapsed() < 3 * TIMEOUT + SLACK, "it did not end in time");
            // A real delay: another process ends without a signal to this one.
            thread::sleep(Duration::from_millis(5));
        }
        Self { after: disturbed.elapsed(), code: running.exit_code(), stderr: running.stderr() }
    }
}

/// Returns the files below a folder, including hidden ones.
pub fn tree(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let paths = entries.flatten().map(|entry| entry.path());
    let mut files: Vec<_> = paths
        .flat_map(|path| if path.is_dir() { tree(&path) } else { vec![path.to_string_lossy().into_owned()] })
        .collect();
    files.sort();
    files
}

/// Returns the files below a folder that its readers see.
pub fn visible(folder: &Path) -> Vec<String> {
    let is_visible = |file: &String| !file.trim_start_matches(folder.to_str().expect("UTF-8")).contains("/.");
    tree(folder).into_iter().filter(is_visible).collect()
}
