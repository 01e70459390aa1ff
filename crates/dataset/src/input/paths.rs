//! Paths, folders and globs to files.

use std::{
    fs::{self, Metadata},
    path::{Path, PathBuf},
    time::UNIX_EPOCH,
};

use super::Format;
use crate::{
    error::DatasetError,
    output::{MANIFEST_NAME, Manifest, QUARANTINE_NAME},
};

/// A file of the dataset.
#[derive(Clone, Debug)]
pub(super) struct InputFile {
    pub(super) path: String,
    pub(super) format: Format,
    pub(super) bytes: u64,
    /// Its absolute path, size and time of change, on one line.
    pub(super) fingerprint: String,
}

/// The files that `inputs` name, in the order of the inputs, and of names within a folder or glob. A folder stands for all
/// files below it but for those whose path from there has a part that begins with `.` or `_`.
pub(super) fn files(inputs: &[String], format: Option<Format>) -> Result<Vec<InputFile>, DatasetError> {
    let mut files = vec![];
    for input in inputs {
        let before = files.len();
        let path = Path::new(input);
        if path.is_dir() {
            walk(path, format, &mut files)?;
        } else if path.exists() || !input.contains(['*', '?', '[']) {
            files.push(named(path, format)?);
        } else {
            expand(input, format, &mut files)?;
        }
        if files.len() == before {
            return Err(DatasetError::NoInput {
                input: input.clone(),
                remedy: "no file of a known format is there; check the path, or name the files",
            });
        }
    }
    Ok(files)
}

/// The files of a glob. Folders that it names are walked.
fn expand(pattern: &str, format: Option<Format>, files: &mut Vec<InputFile>) -> Result<(), DatasetError> {
    let paths = glob::glob(pattern).map_err(|error| DatasetError::Config {
        option: "INPUT",
        value: pattern.to_owned(),
        remedy: format!("this is not a glob: {error}"),
    })?;
    for path in paths {
        let path = path.map_err(|error| {
            let path = error.path().display().to_string();
            DatasetError::io("read", &path)(error.into())
        })?;
        if is_hidden(&path) {
            continue;
        }
        if path.is_dir() {
            walk(&path, format, files)?;
        } else {
            files.push(named(&path, format)?);
        }
    }
    Ok(())
}

/// The files below a folder. Those without a known extension are passed over: a folder may hold notes, too. So is what a run of
/// ours wrote beside its rows.
fn walk(folder: &Path, format: Option<Format>, files: &mut Vec<InputFile>) -> Result<(), DatasetError> {
    let shown = folder.display().to_string();
    let entries = fs::read_dir(folder).and_then(|entries| entries.collect::<Result<Vec<_>, _>>());
    let mut paths: Vec<PathBuf> =
        entries.map_err(DatasetError::io("list", &shown))?.into_iter().map(|entry| entry.path()).collect();
    paths.sort();
    let manifest = Manifest::find_in(folder);
    if let Some((path, reason)) = manifest.as_ref().and_then(|manifest| manifest.missing_in(folder)) {
        return Err(DatasetError::Corrupt { path: path.display().to_string(), reason });
    }
    for path in paths {
        let is_beside = manifest.is_some() && (path.ends_with(MANIFEST_NAME) || path.ends_with(QUARANTINE_NAME));
        if is_hidden(&path) || is_beside {
            continue;
        }
        if path.is_dir() {
            walk(&path, format, files)?;
        } else if format.is_some() || Format::of_path(&path).is_some() {
            files.push(named(&path, format)?);
        }
    }
    Ok(())
}

fn is_hidden(path: &Path) -> bool {
    path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(['.', '_']))
}

fn named(path: &Path, format: Option<Format>) -> Result<InputFile, DatasetError> {
    let shown = path.display().to_string();
    let metadata = fs::metadata(path).map_err(DatasetError::io("open", &shown))?;
    let format = format.or_else(|| Format::of_path(path)).ok_or_else(|| DatasetError::UnknownFormat {
        path: shown.clone(),
        remedy: "its extension is none of parquet, csv, tsv, tbl, json, jsonl, ndjson, arrow, arrows, ipc, feather, pages; \
                 name the format (--input-format), and decompress files that are compressed as a whole",
    })?;
    let absolute = fs::canonicalize(path).map_err(DatasetError::io("open", &shown))?;
    let fingerprint = format!("{}\t{}\t{}", absolute.display(), metadata.len(), modified_ns(&metadata));
    Ok(InputFile { path: shown, format, bytes: metadata.len(), fingerprint })
}

/// Nanoseconds since 1970; 0 where the file system does not keep the time.
fn modified_ns(metadata: &Metadata) -> u128 {
    let since = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    since.map_or(0, |time| time.as_nanos())
}
