//! What a folder may hold before a run, and what it holds afterwards.

use std::fs;

use annulus_dataset::{
    Compression, Dataset, DatasetError, ExistingPolicy, InputOptions, OutputError, OutputFormat, split,
};

use crate::support::*;

#[test]
fn a_finished_dataset_is_refused_kept_or_replaced() {
    let (temporary, inputs) = setup();
    let dir = out_dir(&temporary);
    let mut job = job(&inputs, &["id"], 4, &dir, OutputFormat::Parquet);
    run_silently(&job).unwrap();
    assert!(matches!(output_error(run_silently(&job)), OutputError::Taken { .. }));
    check_complete(&dir, &expected(&job, &inputs));

    job.output.existing = ExistingPolicy::Resume;
    assert_eq!(run_silently(&job).unwrap().slots_kept, 4);
    check_complete(&dir, &expected(&job, &inputs));

    (job.output.format, job.output.compression) = (OutputFormat::Ipc, Compression::None);
    let error = output_error(run_silently(&job));
    assert!(matches!(error, OutputError::ResumeDiffers { setting, .. } if setting == "compression"));
    job.output.existing = ExistingPolicy::Overwrite;
    run_silently(&job).unwrap();
    check_complete(&dir, &expected(&job, &inputs));
}

#[test]
fn files_of_others_are_neither_mixed_in_nor_removed() {
    let (temporary, inputs) = setup();
    let dir = out_dir(&temporary);
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join("part-00000.parquet"), "mine").unwrap();
    let mut job = job(&inputs, &["id"], 2, &dir, OutputFormat::Parquet);
    for existing in [ExistingPolicy::Refuse, ExistingPolicy::Overwrite, ExistingPolicy::Resume] {
        job.output.existing = existing;
        assert!(matches!(output_error(run_silently(&job)), OutputError::Foreign { .. }));
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);
        assert_eq!(fs::read(dir.join("part-00000.parquet")).unwrap(), b"mine");
    }
}

#[test]
fn a_dataset_stays_if_files_of_others_are_beside_it() {
    let (temporary, inputs) = setup();
    let dir = out_dir(&temporary);
    let mut job = job(&inputs, &["id"], 2, &dir, OutputFormat::Parquet);
    run_silently(&job).unwrap();
    fs::write(dir.join("notes.txt"), "mine").unwrap();
    job.output.existing = ExistingPolicy::Overwrite;
    assert!(matches!(output_error(run_silently(&job)), OutputError::Foreign { .. }));
    fs::remove_file(dir.join("notes.txt")).unwrap();
    check_complete(&dir, &expected(&job, &inputs));
}

#[test]
fn a_manifest_does_not_lead_out_of_its_folder() {
    let (temporary, inputs) = setup();
    let dir = out_dir(&temporary);
    let mut job = job(&inputs, &["id"], 2, &dir, OutputFormat::Parquet);
    run_silently(&job).unwrap();
    let manifest = fs::read_to_string(dir.join(".annulus/manifest")).unwrap();
    fs::write(dir.join(".annulus/manifest"), manifest.replace("\"part-00000.parquet\"", "\"../in/in-0.parquet\""))
        .unwrap();
    job.output.existing = ExistingPolicy::Overwrite;
    assert!(matches!(output_error(run_silently(&job)), OutputError::Damaged { .. }));
    assert!(fs::exists(&inputs[0]).unwrap());
}

#[test]
fn a_run_that_is_cancelled_anywhere_can_be_resumed() {
    let (temporary, inputs) = setup();
    let dir = out_dir(&temporary);
    let mut job = job(&inputs, &["id"], 150, &dir, OutputFormat::Parquet);
    let expected = expected(&job, &inputs);
    let mut kept = 0;
    for events in [1, 5, 19, 21, 60, 100, 150, 160] {
        job.output.existing = ExistingPolicy::Overwrite;
        let progress = CancelAfter::new(events);
        let result = split(&job, &progress, &progress.cancel);
        assert!(matches!(result, Err(DatasetError::Cancelled)), "{events}: {result:?}");
        assert!(!dir.join(".annulus/work").exists());
        check_unfinished(&dir);
        // Nothing may be finished; the folder stays if this run did not make it.
        if fs::read_dir(&dir).is_ok_and(|mut files| files.next().is_some()) {
            job.output.existing = ExistingPolicy::Refuse;
            assert!(matches!(output_error(run_silently(&job)), OutputError::Taken { .. }));
        }
        job.output.existing = ExistingPolicy::Resume;
        kept += run_silently(&job).unwrap().slots_kept;
        check_complete(&dir, &expected);
    }
    assert!(kept > 150, "{kept}");
}

#[test]
fn what_a_run_has_left_unfinished_is_no_input() {
    let (temporary, inputs) = setup();
    let dir = out_dir(&temporary);
    run_silently(&job(&inputs, &["id"], 4, &dir, OutputFormat::Parquet)).unwrap();
    let open = |path: &std::path::Path| Dataset::open(&[path.display().to_string()], &InputOptions::default());
    assert!(open(&dir).is_ok());
    // A killed run leaves it like this.
    fs::remove_file(dir.join(".annulus/manifest")).unwrap();
    fs::write(dir.join(".annulus/journal.jsonl"), "").unwrap();
    for path in [&*dir, temporary.path()] {
        let error = open(path).unwrap_err().to_string();
        assert!(error.contains(&dir.display().to_string()) && error.contains("`resume`"), "{error}");
    }
    assert!(open(&dir.join("*.parquet")).is_ok(), "files that are named");
}

#[test]
fn a_damaged_partition_is_written_again() {
    let (temporary, inputs) = setup();
    let dir = out_dir(&temporary);
    let mut job = job(&inputs, &["id"], 150, &dir, OutputFormat::Parquet);
    let progress = CancelAfter::new(160);
    split(&job, &progress, &progress.cancel).expect_err("it is cancelled");
    let names = visible(&dir);
    fs::write(dir.join(&names[0]), "shorter").unwrap();
    fs::remove_file(dir.join(&names[1])).unwrap();
    job.output.existing = ExistingPolicy::Resume;
    let expected_kept = names.len() - 2;
    let slots_kept = run_silently(&job).unwrap().slots_kept;
    // Partitions without rows are kept too, and have no file.
    assert!((expected_kept..expected_kept + 10).contains(&slots_kept), "{slots_kept} of {}", names.len());
    check_complete(&dir, &expected(&job, &inputs));
}

#[test]
fn other_options_or_inputs_cannot_be_resumed() {
    let (temporary, inputs) = setup();
    let dir = out_dir(&temporary);
    let progress = CancelAfter::new(110);
    split(&job(&inputs, &["id"], 100, &dir, OutputFormat::Parquet), &progress, &progress.cancel)
        .expect_err("cancelled");
    let resume = |inputs: &[String], by: &str, into, threads| {
        let mut job = job(inputs, &[by], into, &dir, OutputFormat::Parquet);
        job.output.existing = ExistingPolicy::Resume;
        job.threads = threads;
        run_silently(&job)
    };
    for (inputs, by, into, named) in
        [(&inputs[..], "int", 100, "by"), (&inputs[..], "id", 101, "into"), (&inputs[..1], "id", 100, "input")]
    {
        let error = output_error(resume(inputs, by, into, 2));
        assert!(matches!(&error, OutputError::ResumeDiffers { setting, .. } if setting == named), "{error}");
    }
    // Options that do not affect the files may differ.
    resume(&inputs, "id", 100, 1).unwrap();
}

#[test]
fn two_runs_do_not_share_a_folder() {
    let (temporary, inputs) = setup();
    let dir = out_dir(&temporary);
    fs::create_dir_all(dir.join(".annulus")).unwrap();
    let lock = fs::File::create(dir.join(".annulus/lock")).unwrap();
    lock.lock().unwrap();
    let job = job(&inputs, &["id"], 2, &dir, OutputFormat::Parquet);
    assert!(matches!(output_error(run_silently(&job)), OutputError::InUse(_)));
    drop(lock);
    run_silently(&job).unwrap();
}
