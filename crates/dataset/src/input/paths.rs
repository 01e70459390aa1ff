//! Finds the files that paths, folders and globs name.

use std::{
    collections::{HashMap, HashSet},
    fs::{self, File, Metadata},
    io::{self, Read},
    path::{Component, Path, PathBuf},
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use encoding_rs::Encoding;

use super::{
    Format, InputOptions,
    compression::{Compression, extension},
    encoding::{self, Utf8Reader},
    folders::{FolderValue, folders_below, values_of},
};
use crate::{
    error::{DatasetError, DatasetOption},
    file_names::{OLD_MANIFEST_NAME, is_quarantine},
    folder_types::FolderRecord,
    manifest::Manifest,
    output::{is_unfinished, names_of_append},
};

/// A file of the dataset.
#[derive(Clone, Debug)]
pub(super) struct InputFile {
    /// The name for messages: the path, or the name of what the file is a copy of.
    pub(super) path: String,
    /// The path that is read.
    pub(super) place: String,
    pub(super) format: Format,
    pub(super) bytes: u64,
    pub(super) modified: Option<SystemTime>,
    /// The file's absolute path, size and time of change, on one line.
    pub(super) fingerprint: String,
    /// The file's compression as a whole.
    pub(super) compression: Option<Compression>,
    /// The encoding of a text file, unless it is UTF-8.
    pub(super) encoding: Option<&'static Encoding>,
    /// The columns and values in the names of the folders between the input and the file.
    pub(super) folder_values: Vec<FolderValue>,
    /// The types of these columns, if the dataset that has the file records them.
    pub(super) recorded: Option<Arc<FolderRecord>>,
}

impl InputFile {
    /// Returns the extension that names the format, in lower case.
    pub(super) fn extension(&self) -> String {
        extension(Compression::split(Path::new(&self.place)).0)
    }

    /// Returns whether the file is read front to back, because its text is compressed or not UTF-8.
    pub(super) fn is_stream(&self) -> bool {
        self.compression.is_some() || self.encoding.is_some()
    }

    /// Opens the file to read its text in UTF-8.
    pub(super) fn open_text(&self) -> io::Result<Box<dyn Read + Send>> {
        let reader: Box<dyn Read + Send> = match self.compression {
            Some(compression) => compression.open(&self.place)?,
            None => Box::new(File::open(&self.place)?),
        };
        Ok(match self.encoding {
            Some(encoding) => Box::new(Utf8Reader::new(reader, encoding)),
            None => reader,
        })
    }
}

/// Returns the files that `inputs` name, in the order of the inputs, and of names within a folder
/// or glob; the files of a dataset's folder are in the order of its manifest. Each file appears
/// once, whatever globs and links lead to it. A folder stands for all files below it, except those
/// with a part that begins with `.` or `_` in their path from the folder. A glob's wildcards do not
/// match such parts either.
pub(super) fn files(inputs: &[String], options: &InputOptions) -> Result<InputFiles, DatasetError> {
    let mut search = Search { format: options.format, ..Search::default() };
    let mut manifest = None;
    for input in inputs {
        search.walked.clear();
        search.found = 0;
        let path = Path::new(input);
        search.root = root(input);
        if path.is_dir() {
            manifest = search.walk(path)?.filter(|_| inputs.len() == 1);
        } else if path.exists() || !input.contains(WILDCARDS) {
            search.add(path)?;
        } else {
            search.expand(input)?;
        }
        if search.found == 0 {
            return Err(DatasetError::NoInput {
                input: input.clone(),
                remedy: "no file of a known format is there; check the path, or name the files",
            });
        }
    }
    for file in &mut search.files {
        if let Some(name) = options.copies.iter().find_map(|copy| copy.name_of(&file.place)) {
            file.path = name;
        }
        file.encoding = encoding::find(file, options)?;
    }
    Ok(InputFiles { files: search.files, manifest })
}

/// The files that inputs name.
pub(super) struct InputFiles {
    pub(super) files: Vec<InputFile>,
    /// The manifest of the files, if the only input is the folder of a dataset.
    pub(super) manifest: Option<Manifest>,
}

pub(super) const WILDCARDS: [char; 3] = ['*', '?', '['];
/// The first characters of names that are skipped unless they are asked for.
const HIDING: [char; 2] = ['.', '_'];

/// Returns the path below which an input's folders give columns: the input itself or, for a glob,
/// the part before its first wildcard.
fn root(input: &str) -> PathBuf {
    let path = Path::new(input);
    if path.exists() {
        return path.to_owned();
    }
    path.components().take_while(|part| !part.as_os_str().to_string_lossy().contains(WILDCARDS)).collect()
}

#[derive(Default)]
struct Search {
    format: Option<Format>,
    /// The path below which folders give columns.
    root: PathBuf,
    /// The datasets whose folders are being walked, with the names in their manifests.
    datasets: Vec<(PathBuf, HashSet<String>)>,
    /// The types of folders' columns that folders record, of those that were looked at.
    recorded: HashMap<PathBuf, Option<Arc<FolderRecord>>>,
    /// The names that appends are giving to files, for the datasets that were asked for.
    of_appends: HashMap<PathBuf, HashSet<String>>,
    files: Vec<InputFile>,
    /// Absolute paths without links of `files`, and of the folders that this input has led to.
    known: HashSet<PathBuf>,
    walked: HashSet<PathBuf>,
    /// The number of files that this input has led to, including repeated ones.
    found: usize,
}

impl Search {
    /// Adds the files of a glob. Folders that it names are walked.
    fn expand(&mut self, pattern: &str) -> Result<(), DatasetError> {
        // At the end of a glob, two stars match only folders.
        let whole = if pattern.ends_with("**") { format!("{pattern}/*") } else { pattern.to_owned() };
        let paths = glob::glob(&whole).map_err(|error| DatasetError::Config {
            option: DatasetOption::Inputs,
            value: pattern.to_owned(),
            remedy: format!("this is not a glob: {error}"),
        })?;
        let mut entries = HashSet::new();
        for path in paths {
            let path = path.map_err(|error| {
                let path = error.path().display().to_string();
                DatasetError::io("read", &path)(error.into())
            })?;
            // Two stars follow a link to a folder above it until the system refuses.
            if !entries.insert(entry(&path)) || is_hidden_from(pattern, &path) {
                continue;
            }
            if is_beside_rows(&path) && path.parent().and_then(Manifest::find_in).is_some() {
                continue;
            }
            if path.is_dir() {
                self.walk(&path)?;
            } else {
                self.add(&path)?;
            }
        }
        Ok(())
    }

    /// Adds the files below a folder. Those without a known extension are skipped, since a folder
    /// may also hold notes. Returns the folder's manifest, if it has one.
    fn walk(&mut self, folder: &Path) -> Result<Option<Manifest>, DatasetError> {
        let shown = folder.display().to_string();
        if !self.walked.insert(fs::canonicalize(folder).map_err(DatasetError::io("list", &shown))?) {
            return Ok(None);
        }
        // The manifest is read before the files are listed: an append gives files their names, and
        // then replaces the manifest.
        let manifest = check_whole(folder, &shown)?;
        let entries = fs::read_dir(folder).and_then(|entries| entries.collect::<Result<Vec<_>, _>>());
        let mut paths: Vec<PathBuf> =
            entries.map_err(DatasetError::io("list", &shown))?.into_iter().map(|entry| entry.path()).collect();
        paths.sort();
        let is_dataset = manifest.is_some();
        if let Some(manifest) = &manifest {
            let recorded = FolderRecord::of_manifest(folder, manifest).map(Arc::new);
            self.recorded.insert(folder.to_owned(), recorded);
        }
        let first = self.files.len();
        self.datasets.extend(
            manifest.as_ref().map(|manifest| (folder.to_owned(), manifest.file_names().map(str::to_owned).collect())),
        );
        for path in paths {
            if is_hidden(&path) || is_dataset && is_beside_rows(&path) {
                continue;
            }
            if path.is_dir() {
                self.walk(&path)?;
            } else if self.format.is_some() || Format::of_path(&path).is_some() {
                match self.dataset_without(&path).map(Path::to_owned) {
                    None => self.add(&path)?,
                    Some(dataset) => self.refuse_extra(dataset, &path)?,
                }
            }
        }
        if let Some(manifest) = &manifest {
            self.datasets.pop();
            // The files of an append come after those that it was added to, unlike their names.
            let places: HashMap<&Path, usize> = manifest.file_names().map(Path::new).zip(0..).collect();
            self.files[first..].sort_by_key(|file| {
                let name = Path::new(&file.path).strip_prefix(folder).ok();
                name.and_then(|name| places.get(name)).copied().unwrap_or(usize::MAX)
            });
        }
        Ok(manifest)
    }

    /// Returns the folder of a dataset that holds a file which is not in the dataset's manifest.
    fn dataset_without(&self, path: &Path) -> Option<&Path> {
        let is_extra = |(folder, names): &&(PathBuf, HashSet<String>)| {
            path.strip_prefix(folder).is_ok_and(|name| !names.contains(&*name.to_string_lossy()))
        };
        self.datasets.iter().find(is_extra).map(|(folder, _)| &**folder)
    }

    /// Returns an error unless an append is adding the file, which is not in a dataset's manifest.
    /// Such a file is not read.
    fn refuse_extra(&mut self, dataset: PathBuf, path: &Path) -> Result<(), DatasetError> {
        let name = path.strip_prefix(&dataset).unwrap_or(path).to_string_lossy();
        if self.of_appends.get(&dataset).is_some_and(|names| names.contains(&*name)) {
            return Ok(());
        }
        // An append may have begun since the names were read.
        let names = names_of_append(&dataset);
        if names.contains(&*name) {
            self.of_appends.insert(dataset, names);
            return Ok(());
        }
        let reason = format!(
            "it is not in '{}'; remove the file, or the manifest to read all files as they are",
            Manifest::path_in(&dataset).display()
        );
        Err(DatasetError::corrupt(&path.display().to_string(), reason))
    }

    /// Returns the types of folders' columns for a file: those of the innermost folder that records
    /// some, from the file's own up to the input.
    fn recorded_for(&mut self, path: &Path) -> Option<Arc<FolderRecord>> {
        for folder in path.ancestors().skip(1).take_while(|folder| folder.starts_with(&self.root)) {
            let look = || FolderRecord::find_in(folder).map(Arc::new);
            if let Some(found) = self.recorded.entry(folder.to_owned()).or_insert_with(look) {
                return Some(Arc::clone(found));
            }
        }
        None
    }

    fn add(&mut self, path: &Path) -> Result<(), DatasetError> {
        let (mut file, absolute) = named(path, self.format)?;
        file.folder_values = values_of(folders_below(&self.root, path));
        file.recorded = if file.folder_values.is_empty() { None } else { self.recorded_for(path) };
        self.found += 1;
        if self.known.insert(absolute) {
            self.files.push(file);
        }
        Ok(())
    }
}

/// Returns the manifest of a folder, if it is a dataset. All of the dataset's files must exist.
fn check_whole(folder: &Path, shown: &str) -> Result<Option<Manifest>, DatasetError> {
    if is_unfinished(folder) {
        let reason = format!(
            "the run that writes it has not finished; wait for it, start a split again with {}, or name the files that \
             are there",
            DatasetOption::Resume
        );
        return Err(DatasetError::corrupt(shown, reason));
    }
    let Some(manifest) = Manifest::read_in(folder)? else { return Ok(None) };
    match manifest.missing_in(folder) {
        None => Ok(Some(manifest)),
        Some((path, reason)) => Err(DatasetError::Corrupt { path: path.display().to_string(), reason }),
    }
}

/// Returns the folder entry that a path leads to, which may be a link. The folder is identified by
/// its path without links.
fn entry(path: &Path) -> PathBuf {
    let folder = path.parent().and_then(|folder| fs::canonicalize(folder).ok());
    folder.zip(path.file_name()).map_or_else(|| path.to_owned(), |(folder, name)| folder.join(name))
}

/// Returns whether a file in a dataset's folder was written by a run beside its rows.
fn is_beside_rows(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name == OLD_MANIFEST_NAME || is_quarantine(name)
}

/// Returns whether a part of the path that matches wildcards in `pattern` is hidden. A part does
/// not count if the pattern asks for it.
fn is_hidden_from(pattern: &str, path: &Path) -> bool {
    let pattern = Path::new(pattern);
    let literal = parts(pattern).take_while(|part| !part.contains(WILDCARDS)).count();
    let asked = |name: &str| parts(pattern).skip(literal).any(|part| part.starts_with(&name[..1]));
    parts(path).skip(literal).any(|name| name.starts_with(HIDING) && !asked(name))
}

/// Iterates over the names in a path, without `.`.
fn parts(path: &Path) -> impl Iterator<Item = &str> {
    let names = path.components().filter(|part| *part != Component::CurDir);
    names.map(|part| part.as_os_str().to_str().unwrap_or_default())
}

pub(super) fn is_hidden(path: &Path) -> bool {
    path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(HIDING))
}

/// Returns the file, and its absolute path without links.
fn named(path: &Path, format: Option<Format>) -> Result<(InputFile, PathBuf), DatasetError> {
    let shown = path.display().to_string();
    let metadata = fs::metadata(path).map_err(DatasetError::io("open", &shown))?;
    let unknown = |remedy| DatasetError::UnknownFormat { path: shown.clone(), remedy };
    let format = format.or_else(|| Format::of_path(path)).ok_or_else(|| unknown(known_formats()))?;
    let (_, compression) = Compression::split(path);
    if compression.is_some() && !format.is_text() {
        return Err(unknown("only text files are compressed as a whole; decompress it first".to_owned()));
    }
    let absolute = fs::canonicalize(path).map_err(DatasetError::io("open", &shown))?;
    let fingerprint = format!("{}\t{}\t{}", absolute.display(), metadata.len(), modified_ns(&metadata));
    let (bytes, modified) = (metadata.len(), metadata.modified().ok());
    let (place, encoding, folder_values, recorded) = (shown.clone(), None, vec![], None);
    let path = shown;
    let file =
        InputFile { path, place, format, bytes, modified, fingerprint, compression, encoding, folder_values, recorded };
    Ok((file, absolute))
}

/// Returns the remedy for a file whose format its name does not tell.
fn known_formats() -> String {
    format!(
        "its extension is not one of parquet, csv, tsv, tbl, json, jsonl, ndjson, arrow, arrows, ipc, feather, \
         avro, pages (text formats also with gz, bz2, xz or zst at the end); name the format ({})",
        DatasetOption::InputFormat
    )
}

/// Returns nanoseconds since 1970; 0 if the file system does not record the time.
fn modified_ns(metadata: &Metadata) -> u128 {
    let since = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    since.map_or(0, |time| time.as_nanos())
}
