//! Appending to a dataset: its content afterwards, and after an append has failed.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    sync::Arc,
};

use annulus_dataset::{
    BadRows, ColumnTypes, Dataset, DatasetError, ExistingPolicy, HotFiles, Job, JobSpec, OutputError, OutputFormat,
    OutputOptions, Placement, PlacementChoice, PlacementSpec, Verification, sample_ranges, split,
};
use arrow::{
    array::{ArrayRef, Int64Array, RecordBatch, StringArray, TimestampMillisecondArray, TimestampSecondArray},
    compute::cast,
    datatypes::DataType,
};
use tempfile::{TempDir, tempdir};

use crate::support::*;

const INTO: usize = 5;
/// The rows of each input file. Each run has two files.
const ROWS: usize = 350;

/// Returns a folder for the output, and the inputs of three runs.
fn three_inputs() -> (TempDir, [Vec<String>; 3]) {
    let temporary = tempdir().unwrap();
    let inputs = [1, 2, 3].map(|seed| write_inputs(&temporary.path().join(seed.to_string()), seed, 2, ROWS, 50));
    (temporary, inputs)
}

fn with(mut job: Job, existing: ExistingPolicy) -> Job {
    job.output.existing = existing;
    job
}

/// Returns the content of each visible file.
fn content(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let names = visible(dir).into_iter().chain([".annulus/manifest".to_owned()]);
    names.map(|name| (name.clone(), fs::read(dir.join(name)).unwrap())).collect()
}

/// Returns the rows that the library reads from a folder, sorted.
pub fn rows_read(dir: &Path) -> Vec<String> {
    let dataset = Dataset::open(&[text(dir)], &Default::default()).unwrap();
    let batches = dataset.units.iter().flat_map(|unit| unit.read().unwrap()).map(|decoded| decoded.unwrap().batch);
    sorted(rows_of(&batches.collect::<Vec<_>>()))
}

pub fn check_verified(dir: &Path) {
    assert_eq!(Verification::begin(dir).unwrap().run(|_| {}).unwrap().bad, []);
}

type Placed = fn(Job) -> Job;

fn sorted_by(mut job: Job, column: &str) -> Job {
    job.sort_by = vec![column.parse().unwrap()];
    job
}

fn placed(mut job: Job, spec: &PlacementSpec) -> Job {
    job.placement = Placement::new(spec, &job.dataset.schema, &job.by, INTO).unwrap();
    job
}

#[test]
fn two_appends_give_what_one_run_gives() {
    let placements: [(&str, Placed); 6] = [
        ("hash", |job| job),
        ("values", |job| placed(job, &PlacementSpec::HashOfValues)),
        ("key groups", |job| placed(job, &PlacementSpec::KeyGroups(64))),
        ("ranges", |job| {
            let points = ["100", "200", "300", "400"].map(|point| vec![point.to_owned()]);
            placed(job, &PlacementSpec::Ranges(points.into()))
        }),
        ("sorted", |job| sorted_by(job, "price:desc")),
        ("by value", by_value),
    ];
    for (name, place) in placements {
        // Only names and columns differ between formats.
        let formats = [OutputFormat::Parquet, OutputFormat::Ipc, OutputFormat::Pages];
        for format in formats.into_iter().take(if name == "hash" { 3 } else { 1 }) {
            let (temporary, inputs) = three_inputs();
            let dir = out_dir(&temporary);
            let job_of = |inputs: &[String], existing| with(place(job(inputs, &["id"], INTO, &dir, format)), existing);
            run_silently(&job_of(&inputs[0], ExistingPolicy::Refuse)).unwrap();
            let old = content(&dir);
            for added in &inputs[1..] {
                run_silently(&job_of(added, ExistingPolicy::Append)).unwrap();
            }
            let all = inputs.concat();
            check_complete(&dir, &expected(&job_of(&all, ExistingPolicy::Refuse), &all));
            check_verified(&dir);
            let manifest = manifest(&dir);
            assert_eq!(manifest.rows as usize, 6 * ROWS, "{name}");
            assert!(manifest.appends.iter().all(|append| append.rows as usize == 2 * ROWS), "{name}");
            for (file, bytes) in old.iter().filter(|(file, _)| *file != ".annulus/manifest") {
                assert!(fs::read(dir.join(file)).unwrap() == *bytes, "{name}: '{file}' has changed");
            }
        }
    }
}

#[test]
fn rows_placed_by_turns_and_hot_keys_are_appended() {
    let (temporary, inputs) = three_inputs();
    let dir = out_dir(&temporary);
    let job_of = |inputs: &[String], existing| {
        let mut job = with(job(inputs, &["int"], INTO, &dir, OutputFormat::Parquet), existing);
        let hot = HotFiles::sample(&job.dataset, &PlacementSpec::Hash, &job.by, INTO, 0.5, Some(2));
        job.hot_files = hot.unwrap();
        job
    };
    run_silently(&job_of(&inputs[0], ExistingPolicy::Refuse)).unwrap();
    run_silently(&job_of(&inputs[1], ExistingPolicy::Append)).unwrap();
    let both = [&inputs[0][..], &inputs[1]].concat();
    check_complete(&dir, &expected(&job_of(&both, ExistingPolicy::Refuse), &both));
    assert!(visible(&dir).iter().any(|name| name.contains(".hot-1.append-1.")), "{:?}", visible(&dir));
    assert!(!manifest(&dir).appends[0].hot_keys.is_empty());

    let dir = temporary.path().join("turns");
    let job_of = |inputs: &[String], existing| {
        let mut job = with(job(inputs, &["id"], 3, &dir, OutputFormat::Parquet), existing);
        job.placement = Placement::new(&PlacementSpec::RoundRobin, &job.dataset.schema, &[], 3).unwrap();
        job.by.clear();
        job
    };
    run_silently(&job_of(&inputs[0], ExistingPolicy::Refuse)).unwrap();
    let before = rows_read(&dir);
    run_silently(&job_of(&inputs[1], ExistingPolicy::Append)).unwrap();
    assert_eq!(before.len(), 2 * ROWS);
    let rows: Vec<u64> = manifest(&dir).partitions.iter().map(|partition| partition.rows).collect();
    assert!(rows.iter().max().unwrap() - rows.iter().min().unwrap() <= 2, "{rows:?}");
    assert_eq!(rows_read(&dir).len(), 4 * ROWS);
    check_verified(&dir);
}

#[test]
fn sampled_ranges_are_those_of_the_dataset() {
    let (temporary, inputs) = three_inputs();
    let dir = out_dir(&temporary);
    let spec = |inputs: &[String], existing| {
        let mut output = OutputOptions::new(&dir, OutputFormat::Parquet);
        output.existing = existing;
        let mut spec = JobSpec::new(inputs.to_vec(), output);
        (spec.by, spec.into) = (["short", "id"].map(str::to_owned).into(), Some(INTO));
        spec.placing = PlacementChoice::SampledRanges;
        spec
    };
    run_silently(&spec(&inputs[0], ExistingPolicy::Refuse).plan().unwrap()).unwrap();
    let job = spec(&inputs[1], ExistingPolicy::Append).plan().unwrap();
    // The key has nulls and texts. A sample of these rows would give other split points.
    let sampled = sample_ranges(&job.dataset, &job.by, INTO).unwrap();
    assert_ne!(PlacementSpec::Splits(job.placement.splits().unwrap().to_vec()), sampled);
    run_silently(&job).unwrap();
    check_complete(&dir, &expected(&job, &[&inputs[0][..], &inputs[1]].concat()));
}

#[test]
fn a_run_that_does_not_fit_is_refused_and_changes_nothing() {
    let (temporary, inputs) = three_inputs();
    let dir = out_dir(&temporary);
    let base = || job(&inputs[0], &["id"], INTO, &dir, OutputFormat::Parquet);
    run_silently(&base()).unwrap();
    let before = content(&dir);
    let append = |job: Job| {
        let error = output_error(run_silently(&with(job, ExistingPolicy::Append)));
        assert!(error.is_refusal(), "{error}");
        assert!(content(&dir) == before && has_only_manifest(&dir), "{error}");
        error.to_string()
    };
    let shown = dir.display();
    let with_placement = |spec| placed(base(), &spec);
    let cases = [
        (job(&inputs[1], &["int"], INTO, &dir, OutputFormat::Parquet), "`by` is 'int', but 'id' in the dataset"),
        (job(&inputs[1], &["id"], 4, &dir, OutputFormat::Parquet), "`into` is '4', but '5' in the dataset"),
        (job(&inputs[1], &["id"], INTO, &dir, OutputFormat::Ipc), "`format` is 'arrow', but 'parquet' in the dataset"),
        (with_placement(PlacementSpec::KeyGroups(8)), "`placement` is"),
        (sorted_by(base(), "id"), "`sort_by` is 'id', but not given in the dataset"),
        (by_value(base()), "`placement` is"),
    ];
    for (job, expected) in cases {
        let error = append(job);
        assert!(error.starts_with(&format!("cannot append to '{shown}': {expected}")), "{error}");
    }
    let csv = |name: &str, text: &str| {
        let path = temporary.path().join(name);
        fs::write(&path, text).unwrap();
        self::text(&path)
    };
    let (old, dir) = (csv("old.csv", "id,amount\n1,10\n"), temporary.path().join("csv"));
    run_silently(&job(&[old], &["id"], INTO, &dir, OutputFormat::Parquet)).unwrap();
    let before = content(&dir);
    for (number, (new, expected)) in [
        (
            "id,amount\n1,1.5\n",
            "column 'amount' is Float64, but Int64 in the dataset; give it that type: `types` for CSV",
        ),
        ("amount,id\n1,1\n", "column 1 is 'amount', but 'id' in the dataset"),
        ("id\n1\n", "the inputs have no column 'amount'"),
        ("id,amount,more\n1,1,1\n", "the dataset has no column 'more'"),
    ]
    .into_iter()
    .enumerate()
    {
        let new = csv(&format!("{number}.csv"), new);
        let job = with(job(&[new], &["id"], INTO, &dir, OutputFormat::Parquet), ExistingPolicy::Append);
        let error = output_error(run_silently(&job)).to_string();
        assert!(error.contains(expected), "{error}");
        assert!(content(&dir) == before && has_only_manifest(&dir), "{error}");
    }
}

/// Returns a job by all columns of a batch, written to a Parquet file of this name.
fn job_of_keys(
    temporary: &TempDir,
    name: &str,
    keys: &[(&str, ArrayRef)],
    (format, spec): (OutputFormat, &PlacementSpec),
) -> Job {
    let path = temporary.path().join(name).with_extension("parquet");
    write_parquet(&path, &[RecordBatch::try_from_iter(keys.iter().cloned()).unwrap()], 100);
    let by: Vec<&str> = keys.iter().map(|(name, _)| *name).collect();
    let mut job = job(&[text(&path)], &by, INTO, &out_dir(temporary), format);
    job.placement = Placement::new(spec, &job.dataset.schema, &job.by, INTO).unwrap();
    job
}

#[test]
fn keys_that_hash_differently_are_refused_though_the_files_have_one_type() {
    let seconds: ArrayRef = Arc::new(TimestampSecondArray::from_iter_values(0..50));
    let millis: ArrayRef = Arc::new(TimestampMillisecondArray::from_iter_values((0..50).map(|second| second * 1000)));
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..50));
    let coded_numbers = cast(&numbers, &DataType::Dictionary(DataType::Int32.into(), DataType::Int64.into())).unwrap();
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values((0..50).map(|number: i32| number.to_string())));
    let coded_texts = cast(&texts, &DataType::Dictionary(DataType::Int32.into(), DataType::Utf8.into())).unwrap();
    let (parquet, ipc) = (OutputFormat::Parquet, OutputFormat::Ipc);
    let cases = [
        (parquet, vec![("t", millis)], vec![("t", seconds)], Some("'t=Timestamp(s)'")),
        (
            ipc,
            vec![("a", numbers.clone()), ("b", numbers.clone())],
            vec![("a", coded_numbers.clone()), ("b", coded_numbers.clone())],
            Some("'b=Dictionary(Int32, Int64)'"),
        ),
        (ipc, vec![("a", numbers)], vec![("a", coded_numbers)], None),
        (ipc, vec![("a", texts.clone()), ("b", texts)], vec![("a", coded_texts.clone()), ("b", coded_texts)], None),
    ];
    for (format, first, second, refused) in cases {
        // By the hash of values, none is refused.
        let (types, values) = (PlacementSpec::Hash, PlacementSpec::HashOfValues);
        for (spec, first, second) in [
            (&types, &first, &second),
            (&types, &second, &first),
            (&values, &first, &second),
            (&values, &second, &first),
        ] {
            let (temporary, how) = (tempdir().unwrap(), (format, spec));
            run_silently(&job_of_keys(&temporary, "first", first, how)).unwrap();
            let append = with(job_of_keys(&temporary, "second", second, how), ExistingPolicy::Append);
            match (run_silently(&append), refused.filter(|_| *spec == types)) {
                (Err(DatasetError::Output(error @ OutputError::AppendColumns { .. })), Some(expected)) => {
                    assert!(error.to_string().contains(expected), "{error}");
                }
                (Ok(_), None) => check_keys_lie_together(&out_dir(&temporary)),
                (found, _) => panic!("{found:?}"),
            }
            // The same types are accepted again.
            let again = with(job_of_keys(&temporary, "third", first, how), ExistingPolicy::Append);
            run_silently(&again).unwrap();
            check_keys_lie_together(&out_dir(&temporary));
        }
    }
}

/// Checks that equal rows are in one partition.
fn check_keys_lie_together(dir: &Path) {
    let partitions = rows_by_slot(dir)
        .into_iter()
        .flat_map(|((partition, _), rows)| rows.into_iter().map(move |row| (row, partition)).collect::<BTreeSet<_>>());
    let mut found = BTreeMap::new();
    for (row, partition) in partitions {
        assert_eq!(*found.entry(row.clone()).or_insert(partition), partition, "{row}");
    }
    assert_eq!(found.len(), 50);
}

#[test]
fn a_key_of_another_text_layout_is_appended() {
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values(["a", "b"]));
    let views = cast(&texts, &DataType::Utf8View).unwrap();
    let temporary = tempdir().unwrap();
    let job_of = |name, keys| {
        job_of_keys(&temporary, name, &[("key", keys)], (OutputFormat::Parquet, &PlacementSpec::HashOfValues))
    };
    run_silently(&job_of("texts", texts)).unwrap();
    let done = run_silently(&with(job_of("views", views), ExistingPolicy::Append)).unwrap();
    assert_eq!(done.manifest.partitions.iter().map(|partition| partition.rows).sum::<u64>(), 4);
}

#[test]
fn files_that_are_not_listed_are_found_in_all_folders() {
    let (temporary, inputs) = three_inputs();
    let dir = out_dir(&temporary);
    run_silently(&by_value(job(&inputs[0], &["flag", "int"], 1, &dir, OutputFormat::Ipc))).unwrap();
    check_verified(&dir);
    fs::create_dir(dir.join("other")).unwrap();
    let extra = ["other/extra.arrow", "flag=true/int=1/extra.arrow", "flag=true/extra.arrow", "extra.arrow"];
    extra.iter().for_each(|name| fs::write(dir.join(name), "").unwrap());
    let bad = Verification::begin(&dir).unwrap().run(|_| {}).unwrap().bad;
    let found: Vec<&str> = bad.iter().map(|file| file.name.as_str()).collect();
    assert_eq!(found, ["extra.arrow", "flag=true/extra.arrow", "flag=true/int=1/extra.arrow", "other/extra.arrow"]);
    assert!(bad.iter().all(|file| file.reason == "is not in .annulus/manifest"), "{bad:?}");
}

#[test]
fn there_must_be_a_complete_dataset() {
    let (temporary, inputs) = three_inputs();
    let dir = out_dir(&temporary);
    let append = || with(job(&inputs[1], &["id"], INTO, &dir, OutputFormat::Parquet), ExistingPolicy::Append);
    assert!(matches!(output_error(run_silently(&append())), OutputError::NothingToAppendTo(_)));
    assert!(!dir.exists(), "nothing is left");
    run_silently(&with(append(), ExistingPolicy::Refuse)).unwrap();
    fs::remove_file(dir.join(&manifest(&dir).partitions[0].files[0].name)).unwrap();
    assert!(matches!(output_error(run_silently(&append())), OutputError::Incomplete { .. }));
}

#[test]
fn bad_rows_of_each_run_are_kept() {
    let temporary = tempdir().unwrap();
    let dir = out_dir(&temporary);
    for (number, existing) in
        [ExistingPolicy::Refuse, ExistingPolicy::Append, ExistingPolicy::Append].into_iter().enumerate()
    {
        let path = temporary.path().join(format!("{number}.csv"));
        fs::write(&path, "id,amount\n1,10\n2,twenty\n3,30\n").unwrap();
        let mut output = OutputOptions::new(&dir, OutputFormat::Parquet);
        output.existing = existing;
        let mut spec = JobSpec::new(vec![text(&path)], output);
        (spec.by, spec.into) = (vec!["id".to_owned()], Some(2));
        let types = ColumnTypes::parse("id=int,amount=int", false).unwrap();
        spec.input = spec.input.with_types(types).with_on_bad_row(BadRows::Quarantine);
        run_silently(&spec.plan().unwrap()).unwrap();
    }
    let manifest = manifest(&dir);
    assert_eq!((manifest.rows, manifest.rows_bad), (6, 3));
    let quarantined: Vec<String> = visible(&dir).into_iter().filter(|name| name.starts_with("quarantine")).collect();
    assert_eq!(quarantined, ["quarantine.append-1.jsonl", "quarantine.append-2.jsonl", "quarantine.jsonl"]);
    check_verified(&dir);
    assert_eq!(rows_read(&dir).len(), 6, "bad rows are not part of the dataset");
}

/// The number of all batches of a run, and most of its 90 files.
const MOST_EVENTS: usize = 2 * ROWS / 50 + 85;

/// Returns a job of 90 partitions that writes to `dir`, for each list of inputs.
fn jobs_to(dir: &Path) -> impl Fn(&[String], ExistingPolicy) -> Job {
    |inputs, existing| with(job(inputs, &["id"], 90, dir, OutputFormat::Ipc), existing)
}

/// Stops an append after this number of batches and files. It has one thread, so nothing else
/// happens meanwhile.
fn stop_after(mut job: Job, events: usize) {
    job.threads = 1;
    let stop = CancelAfter::new(events);
    let cancel = stop.cancel.clone();
    split(&job, &stop, &cancel).unwrap_err();
}

#[test]
fn an_append_that_stopped_changes_nothing_and_is_resumed() {
    let (temporary, inputs) = three_inputs();
    let dir = out_dir(&temporary);
    let job_of = jobs_to(&dir);
    let base = job_of(&inputs[0], ExistingPolicy::Refuse);
    run_silently(&base).unwrap();
    let before = content(&dir);
    stop_after(job_of(&inputs[1], ExistingPolicy::Append), MOST_EVENTS);
    assert!(content(&dir) == before);
    let finished = fs::read_dir(dir.join(".annulus/added")).unwrap().count();
    assert!((80..90).contains(&finished), "{finished}");
    assert_eq!(rows_read(&dir).len(), 2 * ROWS);
    check_verified(&dir);

    // Another job cannot resume it.
    let other = output_error(run_silently(&job_of(&inputs[2], ExistingPolicy::ResumeAppend)));
    assert!(matches!(&other, OutputError::ResumeDiffers { setting, .. } if setting == "input"), "{other}");

    // A run that is killed during the renames leaves such a file.
    let added = fs::read_dir(dir.join(".annulus/added")).unwrap().next().unwrap().unwrap();
    fs::rename(added.path(), dir.join(added.file_name())).unwrap();
    assert_eq!(rows_read(&dir).len(), 2 * ROWS);
    check_verified(&dir);

    let summary = run_silently(&job_of(&inputs[1], ExistingPolicy::ResumeAppend)).unwrap();
    // Partitions without rows have no file.
    assert!(summary.slots_kept >= finished);
    let both = [&inputs[0][..], &inputs[1]].concat();
    check_complete(&dir, &expected(&base, &both));
    check_verified(&dir);

    // It is complete, and is not repeated. A new append is added.
    let after = content(&dir);
    assert_eq!(run_silently(&job_of(&inputs[1], ExistingPolicy::ResumeAppend)).unwrap().rows_in as usize, 2 * ROWS);
    assert!(content(&dir) == after && has_only_manifest(&dir));
    run_silently(&job_of(&inputs[2], ExistingPolicy::ResumeAppend)).unwrap();
    check_complete(&dir, &expected(&base, &inputs.concat()));
}

/// Stops an append, and gives some of its files their final names, as a killed run does.
fn kill_while_naming(job: Job, dir: &Path) {
    stop_after(job, MOST_EVENTS);
    for added in fs::read_dir(dir.join(".annulus/added")).unwrap().take(3) {
        let added = added.unwrap();
        fs::rename(added.path(), dir.join(added.file_name())).unwrap();
    }
}

#[test]
fn to_resume_the_first_run_leaves_an_unfinished_append() {
    let (temporary, inputs) = three_inputs();
    let dir = out_dir(&temporary);
    let job_of = jobs_to(&dir);
    let base = job_of(&inputs[0], ExistingPolicy::Refuse);
    run_silently(&base).unwrap();
    kill_while_naming(job_of(&inputs[1], ExistingPolicy::Append), &dir);
    let both = [&inputs[0][..], &inputs[1]].concat();
    for existing in [ExistingPolicy::Resume, ExistingPolicy::ResumeAppend] {
        assert_eq!(run_silently(&job_of(&inputs[0], existing)).unwrap().rows_in as usize, 2 * ROWS);
        assert_eq!(rows_read(&dir).len(), 2 * ROWS);
        check_verified(&dir);
    }
    let summary = run_silently(&job_of(&inputs[1], ExistingPolicy::ResumeAppend)).unwrap();
    assert!(summary.slots_kept > 80, "{}", summary.slots_kept);
    check_complete(&dir, &expected(&base, &both));

    // The files that a damaged journal lists are removed with it.
    for existing in [ExistingPolicy::Resume, ExistingPolicy::ResumeAppend] {
        run_silently(&job_of(&inputs[0], ExistingPolicy::Overwrite)).unwrap();
        let before = content(&dir);
        kill_while_naming(job_of(&inputs[1], ExistingPolicy::Append), &dir);
        let journal = dir.join(".annulus/journal.jsonl");
        let text = fs::read_to_string(&journal).unwrap();
        fs::write(&journal, text.replacen('{', "", 1)).unwrap();
        run_silently(&job_of(&inputs[0], existing)).unwrap();
        assert!(content(&dir) == before && has_only_manifest(&dir));
    }
}

#[test]
fn a_script_of_appends_that_is_repeated_adds_nothing_twice() {
    let (temporary, inputs) = three_inputs();
    let dir = out_dir(&temporary);
    let job_of = jobs_to(&dir);
    let base = job_of(&inputs[0], ExistingPolicy::Refuse);
    run_silently(&base).unwrap();
    run_silently(&job_of(&inputs[1], ExistingPolicy::ResumeAppend)).unwrap();
    kill_while_naming(job_of(&inputs[2], ExistingPolicy::ResumeAppend), &dir);
    for repeated in [&inputs[0], &inputs[1]] {
        assert_eq!(run_silently(&job_of(repeated, ExistingPolicy::ResumeAppend)).unwrap().rows_in as usize, 2 * ROWS);
        assert_eq!(rows_read(&dir).len(), 4 * ROWS);
    }
    assert!(run_silently(&job_of(&inputs[2], ExistingPolicy::ResumeAppend)).unwrap().slots_kept > 80);
    let after = content(&dir);
    for repeated in &inputs {
        run_silently(&job_of(repeated, ExistingPolicy::ResumeAppend)).unwrap();
        assert!(content(&dir) == after && has_only_manifest(&dir));
    }
    check_complete(&dir, &expected(&base, &inputs.concat()));

    // On request, it is added once more. Its unfinished second append is continued.
    kill_while_naming(job_of(&inputs[1], ExistingPolicy::Append), &dir);
    assert!(run_silently(&job_of(&inputs[1], ExistingPolicy::ResumeAppend)).unwrap().slots_kept > 80);
    check_complete(&dir, &expected(&base, &[&inputs.concat()[..], &inputs[1]].concat()));
    assert_eq!(run_silently(&job_of(&inputs[0], ExistingPolicy::Resume)).unwrap().rows_in as usize, 2 * ROWS);
}

#[test]
fn errors_of_appends_do_not_advise_to_overwrite_the_dataset() {
    let (temporary, inputs) = three_inputs();
    let dir = out_dir(&temporary);
    let job_of = jobs_to(&dir);
    run_silently(&job_of(&inputs[0], ExistingPolicy::Refuse)).unwrap();
    stop_after(job_of(&inputs[1], ExistingPolicy::Append), MOST_EVENTS);
    let mut once = job_of(&inputs[1], ExistingPolicy::ResumeAppend);
    once.dataset.fingerprint = None;
    let mut fewer_rows = job_of(&inputs[1], ExistingPolicy::ResumeAppend);
    fewer_rows.dataset.units.pop();
    for (number, job) in [job_of(&inputs[2], ExistingPolicy::ResumeAppend), once, fewer_rows].iter().enumerate() {
        let error = output_error(run_silently(job));
        let is_meant = match &error {
            OutputError::ResumeDiffers { .. } => number == 0,
            OutputError::ResumeOnce { .. } => number == 1,
            OutputError::RowsDiffer { .. } => number == 2,
            _ => false,
        };
        assert!(is_meant, "{error}");
        assert!(error.to_string().ends_with("leave `resume` out to start the append again"), "{error}");
    }
}

#[test]
fn another_append_removes_what_a_stopped_one_left() {
    let (temporary, inputs) = three_inputs();
    let dir = out_dir(&temporary);
    let job_of = jobs_to(&dir);
    let base = job_of(&inputs[0], ExistingPolicy::Refuse);
    run_silently(&base).unwrap();
    kill_while_naming(job_of(&inputs[1], ExistingPolicy::Append), &dir);
    run_silently(&job_of(&inputs[2], ExistingPolicy::Append)).unwrap();
    check_complete(&dir, &expected(&base, &[&inputs[0][..], &inputs[2]].concat()));

    stop_after(job_of(&inputs[1], ExistingPolicy::Append), MOST_EVENTS);
    run_silently(&job_of(&inputs[1], ExistingPolicy::Overwrite)).unwrap();
    check_complete(&dir, &expected(&base, &inputs[1]));
}
