//! Runs that are killed, fill the disk, or meet damaged input. Visible files are complete at every
//! moment, and a resumed run gives the same result as an undisturbed one.
//!
//! `ANNULUS_FAULT_SEEDS` sets the number of seeds (20).

use std::{
    env, fs,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use annulus_dataset::{CancelToken, ExistingPolicy, HotFiles, OutputFormat, PlacementSpec, Progress, split};
use rand::{Rng, SeedableRng, rngs::StdRng};
use tempfile::tempdir;

use crate::{
    append::{check_verified, rows_read},
    support::*,
};

fn seeds() -> std::ops::Range<u64> {
    0..env::var("ANNULUS_FAULT_SEEDS").map_or(20, |seeds| seeds.parse().expect("a number of seeds"))
}

const FORMATS: [OutputFormat; 3] = [OutputFormat::Parquet, OutputFormat::Ipc, OutputFormat::Pages];

/// The run that a seed describes.
#[derive(Clone, Debug)]
struct Plan {
    inputs: Vec<String>,
    dir: PathBuf,
    into: usize,
    format: OutputFormat,
    memory: usize,
    max_file: Option<u64>,
    /// There are few keys, and the most frequent are spread over extra files.
    hot: bool,
    sync: bool,
    /// A folder for each value.
    by_value: bool,
    sorted: bool,
}

impl Plan {
    fn new(seed: u64, temporary: &Path) -> (Self, StdRng) {
        let mut rng = StdRng::seed_from_u64(seed);
        let (files, rows) = (rng.random_range(1..4), rng.random_range(200..1500));
        let plan = Self {
            inputs: write_inputs(&temporary.join("in"), seed, files, rows, 100),
            dir: temporary.join("disk").join("out"),
            into: [1, 3, 40, 200][rng.random_range(0..4)],
            format: FORMATS[rng.random_range(0..3)],
            // The smaller limit makes the run spill.
            memory: [2 << 20, 256 << 20][rng.random_range(0..2)],
            max_file: [None, Some(5_000)][rng.random_range(0..2)],
            hot: rng.random_bool(0.4),
            sync: rng.random_bool(0.3),
            by_value: rng.random_bool(0.3),
            sorted: rng.random_bool(0.3),
        };
        let hot = plan.hot && !plan.by_value;
        (Self { hot, ..plan }, rng)
    }

    fn job(&self, existing: ExistingPolicy) -> annulus_dataset::Job {
        let by = if self.hot { "int" } else { "id" };
        let mut job = job(&self.inputs, &[by], self.into, &self.dir, self.format);
        if self.hot {
            let hot = HotFiles::sample(&job.dataset, &PlacementSpec::Hash, &job.by, self.into, 0.5, Some(3));
            job.hot_files = hot.unwrap();
        }
        (job.output.existing, job.output.max_file_bytes, job.memory_limit) = (existing, self.max_file, self.memory);
        // A file has several pages of this size, and few of them fill a small disk.
        job.output.page_bytes = 4096;
        job.output.sync = self.sync;
        if self.sorted {
            job.sort_by = ["word", "price:desc"].map(|column| column.parse().unwrap()).into();
        }
        if self.by_value { by_value(job) } else { job }
    }

    /// Resumes the run, or starts again if it had not begun, and checks everything.
    fn resume_and_check(&self) {
        check_unfinished(&self.dir);
        let job = self.job(ExistingPolicy::Resume);
        run_silently(&job).unwrap();
        check_complete(&self.dir, &expected(&job, &self.inputs));
        if !self.hot {
            return;
        }
        let undisturbed = Self { dir: self.dir.with_extension("undisturbed"), ..self.clone() };
        run_silently(&undisturbed.job(ExistingPolicy::Refuse)).unwrap();
        assert!(rows_by_slot(&self.dir) == rows_by_slot(&undisturbed.dir), "rows are in other files");
    }

    fn spawn(&self, existing: ExistingPolicy) -> Child {
        let job = [
            self.inputs.join("\n"),
            text(&self.dir),
            self.into.to_string(),
            self.format.name().to_owned(),
            self.memory.to_string(),
            self.max_file.map_or(String::new(), |bytes| bytes.to_string()),
            self.hot.to_string(),
            self.sync.to_string(),
            self.by_value.to_string(),
            self.sorted.to_string(),
            existing.appends().to_string(),
        ];
        Command::new(env::current_exe().unwrap())
            .args(["kills::child_of_a_kill", "--exact", "--ignored", "--nocapture", "--test-threads=1"])
            .env("ANNULUS_FAULT_JOB", job.join("\u{1}"))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    }
}

impl Plan {
    /// Kills a run at a random moment, and returns whether it was alive until then.
    fn kill(&self, existing: ExistingPolicy, rng: &mut StdRng) -> bool {
        let mut child = self.spawn(existing);
        let groups: usize = self.inputs.len() * 15;
        let steps = rng.random_range(0..groups + self.into + 3);
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let seen = lines.by_ref().filter(|line| line.ends_with("@step")).take(steps).count();
        // Waits a little longer than a step, so that the kill may fall between two.
        (0..rng.random_range(0..200_000u32)).for_each(|i| {
            std::hint::black_box(i);
        });
        child.kill().unwrap();
        child.wait().unwrap();
        seen == steps
    }
}

/// Reports each step to the parent process.
struct Told;

impl Progress for Told {
    fn read(&self, _: u64, _: u64) {
        println!("@step");
    }

    fn finishing(&self, _: usize) {
        println!("@step");
    }

    fn finished(&self) {
        println!("@step");
    }
}

/// The process that the test below starts and kills; not a test of its own.
#[test]
#[ignore = "only run by a_killed_run_is_resumed"]
fn child_of_a_kill() {
    let Ok(job) = env::var("ANNULUS_FAULT_JOB") else { return };
    let parts: Vec<&str> = job.split('\u{1}').collect();
    let [inputs, dir, into, format, memory, max_file, hot, sync, by_value, sorted, appends] = *parts else {
        panic!("{job}")
    };
    let plan = Plan {
        inputs: inputs.split('\n').map(str::to_owned).collect(),
        dir: dir.into(),
        into: into.parse().unwrap(),
        format: FORMATS.into_iter().find(|known| known.name() == format).unwrap(),
        memory: memory.parse().unwrap(),
        max_file: max_file.parse().ok(),
        hot: hot.parse().unwrap(),
        sync: sync.parse().unwrap(),
        by_value: by_value.parse().unwrap(),
        sorted: sorted.parse().unwrap(),
    };
    let existing = if appends == "true" { ExistingPolicy::ResumeAppend } else { ExistingPolicy::Resume };
    split(&plan.job(existing), &Told, &CancelToken::new()).unwrap();
    println!("@step");
    std::io::stdout().flush().unwrap();
}

#[test]
fn a_killed_run_is_resumed() {
    let mut killed_midway = 0;
    for seed in seeds() {
        let temporary = tempdir().unwrap();
        let (plan, mut rng) = Plan::new(seed, temporary.path());
        // Sometimes the resumed run is killed as well.
        for _ in 0..rng.random_range(1..4) {
            killed_midway += usize::from(plan.kill(ExistingPolicy::Resume, &mut rng));
            check_unfinished(&plan.dir);
        }
        plan.resume_and_check();
    }
    assert!(killed_midway > 0, "no run was alive when it was to be killed");
}

#[test]
fn a_killed_append_leaves_the_dataset_and_is_resumed() {
    let mut killed_midway = 0;
    for seed in seeds() {
        let temporary = tempdir().unwrap();
        let (plan, mut rng) = Plan::new(seed, temporary.path());
        let base = Plan { inputs: write_inputs(&temporary.path().join("base"), !seed, 1, 300, 100), ..plan.clone() };
        run_silently(&base.job(ExistingPolicy::Refuse)).unwrap();
        let before = rows_read(&plan.dir);
        for _ in 0..rng.random_range(1..4) {
            killed_midway += usize::from(plan.kill(ExistingPolicy::ResumeAppend, &mut rng));
            if manifest(&plan.dir).appends.is_empty() {
                assert!(rows_read(&plan.dir) == before, "seed {seed}");
            }
            check_verified(&plan.dir);
        }
        let job = plan.job(ExistingPolicy::ResumeAppend);
        run_silently(&job).unwrap();
        check_complete(&plan.dir, &expected(&job, &[&base.inputs[..], &plan.inputs].concat()));
        assert_eq!(manifest(&plan.dir).appends.len(), 1, "seed {seed}");
    }
    assert!(killed_midway > 0, "no run was alive when it was to be killed");
}

#[test]
fn a_damaged_input_leaves_whole_files_and_is_resumed_once_mended() {
    let mut failed = 0;
    for seed in seeds() {
        let temporary = tempdir().unwrap();
        let (plan, mut rng) = Plan::new(seed, temporary.path());
        let path = &plan.inputs[rng.random_range(0..plan.inputs.len())];
        let (content, modified) = (fs::read(path).unwrap(), fs::metadata(path).unwrap().modified().unwrap());
        let rewrite = |content: &[u8]| {
            fs::write(path, content).unwrap();
            fs::File::options().write(true).open(path).unwrap().set_modified(modified).unwrap();
        };
        // The footer is not damaged, so that the file can be opened.
        let job = plan.job(ExistingPolicy::Resume);
        let mut damaged = content.clone();
        let start = rng.random_range(4..content.len() / 2);
        damaged[start..start + 200].fill_with(|| rng.random());
        rewrite(&damaged);
        let result = run_silently(&job);
        match result {
            // The damage did not matter, or gave other valid data: Parquet has no checksums by
            // default.
            Ok(_) => continue,
            Err(error) => assert!(error.to_string().contains(path.as_str()), "{error}"),
        }
        failed += 1;
        check_unfinished(&plan.dir);
        rewrite(&content);
        plan.resume_and_check();
    }
    assert!(failed > 0);
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_leaves_whole_files_and_is_resumed_once_there_is_room() {
    let mut failed = 0;
    for seed in seeds() {
        let temporary = tempdir().unwrap();
        let (plan, mut rng) = Plan::new(seed, temporary.path());
        let disk = temporary.path().join("disk");
        fs::create_dir(&disk).unwrap();
        let pages = rng.random_range(8..400);
        let Some(_mounted) = Mounted::new(&disk, pages * 4096) else {
            println!("skipped: a file system in memory can only be mounted by root");
            return;
        };
        if let Err(error) = run_silently(&plan.job(ExistingPolicy::Refuse)) {
            let error = error.to_string();
            assert!(error.contains("/disk/out") && error.contains("free some space"), "{error}");
            failed += 1;
        }
        check_unfinished(&plan.dir);
        mount(&["-o", "remount,size=64M", disk.to_str().unwrap()]);
        plan.resume_and_check();
    }
    assert!(failed > 0);
}

/// A small file system in memory, which is unmounted on drop.
struct Mounted(PathBuf);

impl Mounted {
    fn new(dir: &Path, bytes: usize) -> Option<Self> {
        let size = format!("size={bytes}");
        mount(&["-t", "tmpfs", "-o", &size, "tmpfs", dir.to_str()?]).then(|| Self(dir.to_owned()))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        Command::new("umount").arg(&self.0).status().ok();
    }
}

fn mount(arguments: &[&str]) -> bool {
    Command::new("mount").args(arguments).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}
