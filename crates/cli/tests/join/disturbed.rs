//! A join that is disturbed while it runs, and checks of what it leaves.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use rand::{SeedableRng, rngs::StdRng};
use tempfile::TempDir;

use crate::{
    support::{
        Annulus, Running, names,
        processes::{processes, state},
    },
    tables::{Shape, write_parquet},
};

/// The longest time until a disturbed join has ended, on a busy machine.
pub const LIMIT: Duration = Duration::from_secs(30);

/// Conditions by which the tables of [`Scene::new`] are joined: keys and a filter, the nearest time, the nearest rows,
/// and similar texts.
pub const CONDITIONS: [&[&str]; 4] = [
    &["--on", "k", "--where", "a.x + b.x > 10"],
    &["--on", "k", "--asof", "a.t >= b.t", "--select", "a.k, a.t, b.x"],
    &["--nearest", "20 BY DISTANCE abs(a.t - b.t) + abs(a.x - b.x) % 7", "--select", "a.k, b.x"],
    &["--on", "k", "--where", "levenshtein(a.name, b.name) <= 1"],
];

/// Inputs that take a while to join, and a folder for temporary files that no other process uses.
pub struct Scene {
    folder: TempDir,
    /// The condition of the join, and its columns.
    pub condition: &'static [&'static str],
    /// The folder of the result.
    pub output: PathBuf,
}

impl Scene {
    /// Has the tables a and b, whose join on k takes about a second.
    pub fn new() -> Self {
        let mut rng = StdRng::seed_from_u64(0);
        Self::from_tables(|name| {
            let shape = Shape { rows: 4000, keys: 300, nulls: 0.1, skewed: false };
            shape.table(&mut rng, name == "a")
        })
    }

    /// Has the tables a and b, which have one value of `hot`. They make billions of pairs.
    pub fn endless() -> Self {
        const ROWS: i64 = 60_000;
        Self::from_tables(|_| {
            let column = |value: fn(i64) -> i64| Arc::new((0..ROWS).map(value).collect::<Int64Array>()) as ArrayRef;
            let columns = [("hot", column(|_| 7)), ("n", column(|row| row))];
            RecordBatch::try_from_iter(columns).expect("a table")
        })
    }

    fn from_tables(mut table: impl FnMut(&str) -> RecordBatch) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["a", "b"] {
            let rows = table(name);
            write_parquet(&folder.path().join(name), &rows, 3, rows.num_rows() / 6);
        }
        fs::create_dir(folder.path().join("tmp")).expect("a folder");
        let output = folder.path().join("out");
        Self { folder, condition: CONDITIONS[0], output }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Returns a join of the inputs.
    pub fn join(&self, options: &[&str]) -> Annulus {
        self.join_by(&[self.condition, options].concat())
    }

    /// Returns a join that is described only by its options.
    pub fn join_by(&self, options: &[&str]) -> Annulus {
        let output = self.output.to_str().expect("UTF-8");
        let arguments = ["join", "a", "b", "--output", output];
        Annulus::new(arguments.iter().chain(options)).at(self.path()).temp(&self.path().join("tmp"))
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

    /// Waits until the workers have ended after their command is gone.
    #[track_caller]
    pub fn wait_for_ends(&self) {
        let deadline = Instant::now() + LIMIT;
        while !self.processes().is_empty() {
            assert!(Instant::now() < deadline, "processes are left: {:?}", self.processes());
            thread::yield_now();
        }
    }

    /// Checks that no processes, temporary files or shared memory are left.
    #[track_caller]
    pub fn assert_nothing_runs(&self) {
        assert_eq!(self.processes(), [0; 0], "processes are left");
        assert_eq!(names(&self.path().join("tmp")), [""; 0], "temporary files are left");
        let shared = names(Path::new("/dev/shm"));
        assert!(!shared.iter().any(|name| name.contains("annulus")), "shared memory is left: {shared:?}");
    }

    /// Checks that nothing runs and that nothing of a result is left.
    #[track_caller]
    pub fn assert_nothing_left(&self) {
        self.assert_nothing_runs();
        assert!(!self.output.exists(), "{:?} is left", tree(&self.output));
    }

    /// Checks that the files which readers of the folder would see are complete. There are some only if the
    /// signal came between the first file's name and the manifest.
    #[track_caller]
    pub fn assert_only_whole_files(&self) {
        let is_visible = |file: &String| !file.trim_start_matches(self.path().to_str().expect("UTF-8")).contains("/.");
        for file in tree(&self.output).into_iter().filter(is_visible) {
            let content = fs::read(&file).expect("it is there");
            let end: &[u8] = if file.ends_with(".parquet") { b"PAR1" } else { b"}" };
            assert!(content.trim_ascii_end().ends_with(end), "{file} is not complete");
        }
    }

    /// Joins undisturbed, and returns the rows of the result according to its manifest.
    #[track_caller]
    pub fn rows(&self, options: &[&str]) -> u64 {
        self.join(options).succeeds();
        self.assert_nothing_runs();
        self.rows_told()
    }

    /// Returns the number of rows in the manifest.
    #[track_caller]
    pub fn rows_told(&self) -> u64 {
        let manifest = fs::read(self.output.join(".annulus/manifest")).expect("a manifest");
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
    pub fn wait_for(mut running: Running) -> Self {
        let disturbed = Instant::now();
        while !running.has_ended() {
            assert!(disturbed.elapsed() < LIMIT, "it did not end in time");
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
