//! Links in an output folder that lead to files of somebody else.

use std::{fs, os::unix::fs::symlink, path::Path};

use annulus_dataset::{ExistingPolicy, OutputError, OutputFormat};

use crate::support::*;

/// Returns the names and the content of the files below a folder.
fn content(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let mut all = vec![];
    for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
        let path = entry.path();
        match path.is_dir() {
            true => all.extend(content(&path)),
            false => all.push((text(&path), fs::read(&path).unwrap())),
        }
    }
    all.sort();
    all
}

#[test]
fn a_hidden_folder_that_is_a_link_is_refused_and_not_followed() {
    let (temporary, inputs) = setup();
    let (dir, precious) = (out_dir(&temporary), temporary.path().join("precious"));
    fs::create_dir_all(precious.join("work")).unwrap();
    for name in ["lock", "journal.jsonl", "work/notes.txt"] {
        fs::write(precious.join(name), "mine").unwrap();
    }
    let before = content(&precious);
    fs::create_dir(&dir).unwrap();
    symlink(&precious, dir.join(".annulus")).unwrap();
    let mut job = job(&inputs, &["id"], 2, &dir, OutputFormat::Parquet);
    for existing in [ExistingPolicy::Refuse, ExistingPolicy::Resume, ExistingPolicy::Overwrite] {
        job.output.existing = existing;
        let error = output_error(run_silently(&job));
        assert!(matches!(error, OutputError::NotOwn { .. }) && error.is_refusal(), "{error}");
        assert!(error.to_string().contains(".annulus") && error.to_string().contains("remove it"), "{error}");
        assert!(content(&precious) == before, "what the link leads to has changed");
    }
    fs::remove_file(dir.join(".annulus")).unwrap();
    run_silently(&job).unwrap();
    check_complete(&dir, &expected(&job, &inputs));
}

#[test]
fn links_in_the_hidden_folder_are_not_followed() {
    for name in ["lock", "journal.jsonl", "journal.new", "work"] {
        let (temporary, inputs) = setup();
        let (dir, precious) = (out_dir(&temporary), temporary.path().join("precious"));
        fs::create_dir_all(dir.join(".annulus")).unwrap();
        if name == "work" {
            fs::create_dir(&precious).unwrap();
            fs::write(precious.join("notes.txt"), "mine").unwrap();
        } else {
            fs::write(&precious, "mine").unwrap();
        }
        symlink(&precious, dir.join(".annulus").join(name)).unwrap();
        let mut job = job(&inputs, &["id"], 2, &dir, OutputFormat::Parquet);
        job.output.existing = ExistingPolicy::Overwrite;
        let result = run_silently(&job);
        let kept = if name == "work" { precious.join("notes.txt") } else { precious };
        assert_eq!(fs::read(&kept).unwrap(), b"mine", "{name}");
        // A link is removed if its name is needed.
        match name {
            "lock" | "journal.jsonl" => {
                let error = output_error(result);
                assert!(matches!(error, OutputError::NotOwn { .. }), "{name}: {error}");
            }
            _ => assert!(result.is_ok(), "{name}: {result:?}"),
        }
    }
}

/// Only root can create a hidden folder of another user.
#[test]
fn a_hidden_folder_of_another_user_is_refused() {
    let (temporary, inputs) = setup();
    let dir = out_dir(&temporary);
    fs::create_dir_all(dir.join(".annulus")).unwrap();
    if std::os::unix::fs::chown(dir.join(".annulus"), Some(12345), None).is_err() {
        println!("skipped: only root can give a folder away");
        return;
    }
    let job = job(&inputs, &["id"], 2, &dir, OutputFormat::Parquet);
    let error = output_error(run_silently(&job));
    assert!(matches!(error, OutputError::NotOwn { .. }) && error.to_string().contains("another user"), "{error}");
}
