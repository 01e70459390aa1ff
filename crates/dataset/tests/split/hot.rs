//! Keys with many rows: they are reported, and their rows can be spread over files.

use std::{collections::HashMap, fs, path::Path, sync::Arc};

use annulus_dataset::{
    DEFAULT_HOT_SHARE, Dataset, DatasetError, DatasetOption, ExistingPolicy, HotFiles, InputOptions, Job, OutputError,
    OutputFormat, Placement, PlacementSpec,
};
use arrow::{
    array::{ArrayRef, Int64Array, RecordBatch, StringArray},
    ipc::writer::StreamWriter,
};
use rand::{Rng, SeedableRng, rngs::StdRng};
use tempfile::tempdir;

use crate::support::*;

const ROWS: usize = 60_000;
const UNITS: usize = 12;
const PARTITIONS: usize = 16;

/// Returns rows whose keys follow about Zipf's law: key k has a share of `1 / (k * ln(1000))`.
fn zipf() -> RecordBatch {
    let mut rng = StdRng::seed_from_u64(7);
    let keys = (0..ROWS).map(|_| format!("key-{}", 1000f64.powf(rng.random()) as u32));
    let columns: [(&str, ArrayRef); 2] = [
        ("key", Arc::new(StringArray::from_iter_values(keys))),
        ("number", Arc::new(Int64Array::from_iter_values(0..ROWS as i64))),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

fn rows_by_key() -> HashMap<String, u64> {
    let mut rows = HashMap::new();
    for row in rows_of(&[zipf()]) {
        *rows.entry(key_of(&row).to_owned()).or_default() += 1;
    }
    rows
}

fn key_of(row: &str) -> &str {
    row.split_once('|').unwrap().0
}

fn zipf_input(folder: &Path) -> [String; 1] {
    let path = folder.join("in.parquet");
    write_parquet(&path, &[zipf()], ROWS / UNITS);
    [text(&path)]
}

fn specs() -> [PlacementSpec; 3] {
    let points = (1..PARTITIONS).map(|point| vec![format!("key-{}", 100 + 50 * point)]).collect();
    [PlacementSpec::Hash, PlacementSpec::KeyGroups(128), PlacementSpec::Ranges(points)]
}

/// Returns a job on the Zipf rows, whose hot keys go to `files` extra files.
fn hot_job(inputs: &[String], spec: &PlacementSpec, files: Option<usize>, dir: &Path, format: OutputFormat) -> Job {
    let mut job = job(inputs, &["key"], PARTITIONS, dir, format);
    job.placement = Placement::new(spec, &job.dataset.schema, &job.by, PARTITIONS).unwrap();
    job.hot_files = HotFiles::sample(&job.dataset, spec, &job.by, PARTITIONS, DEFAULT_HOT_SHARE, files).unwrap();
    job
}

#[test]
fn rows_of_hot_keys_are_spread_evenly_over_files_of_their_partition() {
    let temporary = tempdir().unwrap();
    let inputs = zipf_input(temporary.path());
    let truth = rows_by_key();
    for (number, spec) in specs().iter().enumerate() {
        for (files, format, memory) in [
            (Some(1), OutputFormat::Parquet, 256 << 20),
            (Some(3), OutputFormat::Ipc, 256 << 20),
            // This one spills.
            (None, OutputFormat::Parquet, 2 << 20),
        ] {
            let dir = temporary.path().join(format!("{number}-{files:?}"));
            let mut job = hot_job(&inputs, spec, files, &dir, format);
            (job.memory_limit, job.threads) = (memory, 3);
            let summary = run_silently(&job).unwrap();
            assert_eq!(summary.bytes_spilled > 0, memory < 256 << 20);
            check_complete(&dir, &expected(&job, &inputs));

            let split: Vec<_> = summary.manifest.hot_keys.iter().filter(|key| key.files > 0).collect();
            for key in ["key-1", "key-2", "key-3"] {
                assert!(split.iter().any(|split| split.key == key), "{key}: {split:?}");
            }
            for key in &split {
                assert_eq!((key.rows_min, key.rows_max), (truth[&key.key], truth[&key.key]));
                assert!(files.is_none_or(|files| files == key.files));
            }
            let slots = rows_by_slot(&dir);
            for ((_, hot), rows) in &slots {
                let is_split = |row: &String| split.iter().any(|key| key.key == key_of(row));
                assert!(rows.iter().all(|row| is_split(row) == hot.is_some()), "a row of {hot:?} is elsewhere");
            }
            for key in &split {
                let shares = (1..=key.files).map(|hot| slots[&(key.partition, Some(hot))].len());
                let (least, most) = (shares.clone().min().unwrap(), shares.max().unwrap());
                assert!(most - least <= UNITS, "{key:?}: {least} to {most}");
                assert!(files.is_some() || most < ROWS / PARTITIONS * 5 / 4, "{most}");
            }
        }
    }
}

#[test]
fn a_row_goes_to_the_same_file_whatever_the_threads() {
    let temporary = tempdir().unwrap();
    let inputs = zipf_input(temporary.path());
    let slots = |threads| {
        let dir = temporary.path().join(format!("{threads}"));
        let mut job = hot_job(&inputs, &PlacementSpec::Hash, Some(4), &dir, OutputFormat::Ipc);
        job.threads = threads;
        run_silently(&job).unwrap();
        rows_by_slot(&dir)
    };
    let one = slots(1);
    assert!(one.len() > PARTITIONS);
    assert!(one == slots(4));
}

#[test]
fn the_report_holds_against_the_exact_counts() {
    let temporary = tempdir().unwrap();
    let inputs = zipf_input(temporary.path());
    let truth = rows_by_key();
    let least = ROWS as f64 / PARTITIONS as f64 * DEFAULT_HOT_SHARE;
    for (number, spec) in specs().iter().enumerate() {
        let dir = temporary.path().join(format!("{number}"));
        let mut job = job(&inputs, &["key"], PARTITIONS, &dir, OutputFormat::Ipc);
        job.placement = Placement::new(spec, &job.dataset.schema, &job.by, PARTITIONS).unwrap();
        let manifest = run_silently(&job).unwrap().manifest;
        assert!(!manifest.hot_keys.is_empty());
        for key in &manifest.hot_keys {
            let rows = truth[&key.key];
            assert!(key.rows_min <= rows && rows <= key.rows_max, "{key:?}: {rows}");
            assert!(key.rows_min < key.rows_max && key.rows_max < rows * 2, "{key:?}: {rows}");
            assert!(rows as f64 > least * 0.7, "{key:?} is not hot");
            let slots = rows_by_slot(&dir);
            assert!(slots[&(key.partition, None)].iter().any(|row| key_of(row) == key.key));
        }
        for (key, _) in truth.iter().filter(|&(_, &rows)| rows as f64 > least * 1.3) {
            assert!(manifest.hot_keys.iter().any(|hot| hot.key == *key), "{key} is missing");
        }
        let read: annulus_dataset::Manifest =
            serde_json::from_slice(&fs::read(dir.join(".annulus/manifest")).unwrap()).unwrap();
        assert_eq!(read.hot_keys, manifest.hot_keys);
    }
}

#[test]
fn by_turns_no_key_is_hot() {
    let temporary = tempdir().unwrap();
    let inputs = zipf_input(temporary.path());
    let dir = out_dir(&temporary);
    let mut job = job(&inputs, &["key"], PARTITIONS, &dir, OutputFormat::Ipc);
    job.placement = Placement::new(&PlacementSpec::RoundRobin, &job.dataset.schema, &[], PARTITIONS).unwrap();
    assert!(run_silently(&job).unwrap().manifest.hot_keys.is_empty());
    let sampled = HotFiles::sample(&job.dataset, &PlacementSpec::RoundRobin, &job.by, PARTITIONS, 0.5, None);
    assert!(matches!(sampled, Err(DatasetError::Config { option: DatasetOption::SplitHotKeys, .. })), "{sampled:?}");
}

#[test]
fn a_run_is_not_resumed_with_other_hot_files() {
    let temporary = tempdir().unwrap();
    let inputs = zipf_input(temporary.path());
    let dir = out_dir(&temporary);
    let with = |files| hot_job(&inputs, &PlacementSpec::Hash, files, &dir, OutputFormat::Ipc);
    run_silently(&with(Some(2))).unwrap();
    let mut plain = job(&inputs, &["key"], PARTITIONS, &dir, OutputFormat::Ipc);
    plain.output.existing = ExistingPolicy::Resume;
    let mut other = with(Some(3));
    other.output.existing = ExistingPolicy::Resume;
    for job in [plain, other] {
        let error = run_silently(&job).unwrap_err();
        let differs = |setting: &str| setting == "split_hot_keys";
        assert!(
            matches!(&error, DatasetError::Output(OutputError::ResumeDiffers { setting, .. }) if differs(setting)),
            "{error}"
        );
    }
    let mut same = with(Some(2));
    same.output.existing = ExistingPolicy::Resume;
    let hot_slots = rows_by_slot(&dir).keys().filter(|(_, hot)| hot.is_some()).count();
    assert_eq!(run_silently(&same).unwrap().slots_kept, PARTITIONS + hot_slots);
}

#[test]
fn an_input_that_is_read_once_has_no_sample() {
    let mut stream = Vec::new();
    let mut writer = StreamWriter::try_new(&mut stream, &zipf().schema()).unwrap();
    writer.write(&zipf()).unwrap();
    writer.finish().unwrap();
    drop(writer);
    let dataset = Dataset::from_stream("standard input", Box::new(std::io::Cursor::new(stream))).unwrap();
    let error = HotFiles::sample(&dataset, &PlacementSpec::Hash, &["key".to_owned()], 4, 0.5, None).unwrap_err();
    assert!(matches!(error, DatasetError::Config { option: DatasetOption::SplitHotKeys, .. }), "{error}");
    assert!(error.to_string().contains("put the input into a file"), "{error}");
}

#[test]
fn more_files_than_can_be_told_apart_are_refused() {
    let temporary = tempdir().unwrap();
    let inputs = zipf_input(temporary.path());
    let dataset = Dataset::open(&inputs, &InputOptions::default()).unwrap();
    let files = |files| HotFiles::sample(&dataset, &PlacementSpec::Hash, &["key".to_owned()], 16, 0.5, Some(files));
    assert!(files(100).is_ok());
    let error = files(usize::MAX).unwrap_err();
    assert!(matches!(error, DatasetError::Config { option: DatasetOption::SplitHotKeys, .. }), "{error}");
}

#[test]
fn a_null_and_a_long_text_can_be_hot_keys() {
    let temporary = tempdir().unwrap();
    let long = "ü".repeat(10_000);
    let keys = (0..4000).map(|row| (row % 3 > 0).then_some(long.as_str()));
    let columns: [(&str, ArrayRef); 2] =
        [("key", Arc::new(keys.collect::<StringArray>())), ("more", Arc::new(Int64Array::from_value(5, 4000)))];
    let path = temporary.path().join("in.parquet");
    write_parquet(
        &path,
        &[RecordBatch::try_from_iter_with_nullable(columns.map(|(name, c)| (name, c, true))).unwrap()],
        500,
    );
    let inputs = [text(&path)];
    let dir = out_dir(&temporary);
    let mut job = job(&inputs, &["key", "more"], 4, &dir, OutputFormat::Pages);
    job.hot_files = HotFiles::sample(&job.dataset, &PlacementSpec::Hash, &job.by, 4, 0.5, Some(2)).unwrap();
    let manifest = run_silently(&job).unwrap().manifest;
    check_complete(&dir, &expected(&job, &inputs));
    let keys: Vec<_> = manifest.hot_keys.iter().map(|key| (key.key.as_str(), key.rows_min)).collect();
    let cut = format!("{}...", "ü".repeat(200));
    assert_eq!(keys, [(cut.as_str(), 2666), ("null, 5", 1334)]);
}
