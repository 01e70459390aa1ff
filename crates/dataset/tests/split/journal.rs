//! What is known of the files of an unfinished run: no file is lost, and none exists twice.

use std::{
    fs,
    path::{Path, PathBuf},
};

use annulus_dataset::{CancelToken, ExistingPolicy, Job, OutputError, OutputFormat, Progress, split};

use crate::support::*;

/// Puts a folder where a file's name is to be, once all rows are read.
struct InTheWay(PathBuf);

impl Progress for InTheWay {
    fn finishing(&self, _: usize) {
        fs::create_dir(&self.0).unwrap();
    }
}

#[test]
fn files_are_known_when_one_among_them_cannot_get_its_name() {
    // One of the first 64 files, which get their names together, and one of the next.
    for (blocked, existing) in
        [(40, ExistingPolicy::Resume), (40, ExistingPolicy::Overwrite), (100, ExistingPolicy::Resume)]
    {
        let (temporary, inputs) = setup();
        let dir = out_dir(&temporary);
        let mut job = job(&inputs, &["id"], 150, &dir, OutputFormat::Parquet);
        job.threads = 1;
        let in_the_way = InTheWay(dir.join(format!("part-{blocked:05}.parquet")));
        let error = output_error(split(&job, &in_the_way, &CancelToken::new()));
        assert!(error.to_string().contains("rename"), "{error}");
        fs::remove_dir(&in_the_way.0).unwrap();
        assert!(visible(&dir).len() > blocked / 2);
        check_unfinished(&dir);
        job.output.existing = existing;
        let slots_kept = run_silently(&job).unwrap().slots_kept;
        assert!(existing == ExistingPolicy::Overwrite || slots_kept >= blocked, "{slots_kept}");
        check_complete(&dir, &expected(&job, &inputs));
    }
}

/// Returns a job that can resume an unfinished run: some files are finished, but not all.
fn unfinished(dir: &Path, inputs: &[String]) -> Job {
    let mut job = job(inputs, &["id"], 150, dir, OutputFormat::Parquet);
    let progress = CancelAfter::new(160);
    split(&job, &progress, &progress.cancel).expect_err("it is cancelled");
    assert!(visible(dir).len() > 50);
    job.output.existing = ExistingPolicy::Resume;
    job
}

fn journal_path(dir: &Path) -> PathBuf {
    dir.join(".annulus/journal.jsonl")
}

/// Returns the journal's first line, and the other lines.
fn journal_lines(dir: &Path) -> (String, Vec<String>) {
    let text = fs::read_to_string(journal_path(dir)).unwrap();
    let mut lines = text.split_inclusive('\n').map(str::to_owned);
    (lines.next().unwrap(), lines.collect())
}

#[test]
fn a_slot_that_is_recorded_twice_counts_once() {
    let (temporary, inputs) = setup();
    let dir = out_dir(&temporary);
    let job = unfinished(&dir, &inputs);
    let names = visible(&dir);
    let (header, entries) = journal_lines(&dir);
    // A damaged entry does not invalidate an undamaged one.
    let twice = entries.iter().flat_map(|entry| {
        let other = entry.replace("xxh64:", "xxh64:0");
        [other.clone(), entry.clone(), entry.clone(), other]
    });
    fs::write(journal_path(&dir), header + &twice.collect::<String>()).unwrap();
    assert!(run_silently(&job).unwrap().slots_kept >= names.len());
    check_complete(&dir, &expected(&job, &inputs));
}

#[test]
fn a_journal_that_ends_within_a_character_is_resumed() {
    let (temporary, inputs) = setup();
    let dir = out_dir(&temporary);
    let job = unfinished(&dir, &inputs);
    let mut bytes = fs::read(journal_path(&dir)).unwrap();
    let cut = "{\"slot\":149,\"files\":[{\"name\":\"part-00149.parquet\",\"keys\":[{\"column\":\"\u{e9}".as_bytes();
    bytes.extend_from_slice(&cut[..cut.len() - 1]);
    fs::write(journal_path(&dir), bytes).unwrap();
    assert!(run_silently(&job).unwrap().slots_kept > 50);
    check_complete(&dir, &expected(&job, &inputs));
}

#[test]
fn a_damaged_journal_can_be_overwritten() {
    type Damage = fn(&(String, Vec<String>)) -> String;
    let damages: [Damage; 4] = [
        |(_, entries)| format!("no header\n{}", entries.concat()),
        |(header, entries)| {
            format!("{}{}", header.replace("\"annulus_journal\":2", "\"annulus_journal\":3"), entries.concat())
        },
        |(header, entries)| format!("{header}{{\"slot\":149,\n{}", entries.concat()),
        |(header, entries)| format!("{header}{}{}", entries.concat(), entries.concat().replace("part-", "../in/part-")),
    ];
    for damage in damages {
        let (temporary, inputs) = setup();
        let dir = out_dir(&temporary);
        let mut job = unfinished(&dir, &inputs);
        fs::write(journal_path(&dir), damage(&journal_lines(&dir))).unwrap();
        let names = visible(&dir);
        let error = output_error(run_silently(&job));
        assert!(matches!(error, OutputError::Damaged { .. }) && error.to_string().contains("`overwrite`"), "{error}");
        job.output.existing = ExistingPolicy::Overwrite;
        fs::write(dir.join("notes.txt"), "mine").unwrap();
        let error = output_error(run_silently(&job));
        assert!(matches!(&error, OutputError::Foreign { file, .. } if file == "notes.txt"), "{error}");
        fs::remove_file(dir.join("notes.txt")).unwrap();
        assert_eq!(visible(&dir), names);
        run_silently(&job).unwrap();
        check_complete(&dir, &expected(&job, &inputs));
    }
}

#[test]
fn an_empty_journal_knows_no_file_and_can_be_overwritten() {
    let (temporary, inputs) = setup();
    let dir = out_dir(&temporary);
    let mut job = unfinished(&dir, &inputs);
    fs::write(journal_path(&dir), "").unwrap();
    assert!(matches!(output_error(run_silently(&job)), OutputError::Damaged { .. }));
    job.output.existing = ExistingPolicy::Overwrite;
    let names = visible(&dir);
    assert!(matches!(output_error(run_silently(&job)), OutputError::Foreign { .. }));
    assert_eq!(visible(&dir), names);
    names.iter().for_each(|name| fs::remove_file(dir.join(name)).unwrap());
    run_silently(&job).unwrap();
    check_complete(&dir, &expected(&job, &inputs));
}

#[test]
fn what_helps_with_a_damaged_manifest_is_said() {
    let (temporary, inputs) = setup();
    let dir = out_dir(&temporary);
    let mut job = job(&inputs, &["id"], 2, &dir, OutputFormat::Parquet);
    run_silently(&job).unwrap();
    fs::write(dir.join(".annulus/manifest"), "{\"version\":").unwrap();
    for existing in [ExistingPolicy::Refuse, ExistingPolicy::Overwrite, ExistingPolicy::Resume] {
        job.output.existing = existing;
        let error = output_error(run_silently(&job));
        assert!(matches!(error, OutputError::Damaged { .. }), "{error}");
        // Without the manifest, the dataset's files are not known.
        let told = error.to_string();
        assert!(told.contains("remove the folder") && !told.contains("`overwrite`"), "{told}");
        assert_eq!(visible(&dir).len(), 2);
    }
    fs::remove_dir_all(&dir).unwrap();
    run_silently(&job).unwrap();
    check_complete(&dir, &expected(&job, &inputs));
}
