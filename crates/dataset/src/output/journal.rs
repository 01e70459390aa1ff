//! The journal of an unfinished dataset. It has a line of JSON for each finished slot, written
//! *before* the slot's files get their final names. So a file under a final name is always known. A
//! run that was killed between the line and the rename can be resumed there.

use std::{
    collections::{BTreeMap, HashSet},
    fs::{self, File},
    io::{self, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::{
    FileEntry, OutputError, Settings, own,
    publish::Folder,
    work_file::{FileSeal, examine},
};
use crate::file_names::{JOURNAL_NAME, checked_names};

/// The version of the journals that this crate writes. Those of version 1 have the settings of
/// manifests of version 1, and are read as well.
const JOURNAL_VERSION: u32 = 2;

/// An open journal, to which lines can be added.
#[derive(Debug)]
pub(crate) struct Journal {
    file: File,
    /// The length of the complete lines, in bytes.
    bytes: u64,
    path: PathBuf,
    sync: bool,
}

/// A finished slot, with its files in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub(crate) slot: usize,
    pub(crate) files: Vec<FileEntry>,
}

/// The content of a journal.
#[derive(Debug)]
pub(crate) struct JournalContent {
    pub(crate) settings: Settings,
    pub(crate) entries: Vec<Entry>,
}

#[derive(Serialize, Deserialize)]
struct Header {
    annulus_journal: u32,
    settings: Settings,
}

impl Journal {
    /// Creates a journal in which `entries` are finished. It replaces an existing journal, as a
    /// whole.
    pub(crate) fn create(folder: &Folder, settings: &Settings, entries: &[Entry]) -> Result<Self, OutputError> {
        let path = folder.journal_path();
        let mut text = Vec::new();
        push_line(&mut text, &Header { annulus_journal: JOURNAL_VERSION, settings: settings.clone() })?;
        for entry in entries {
            push_line(&mut text, entry)?;
        }
        let temporary = path.with_extension("new");
        let write = || -> io::Result<File> {
            let mut file = own::create_anew(&temporary)?;
            file.write_all(&text)?;
            if folder.syncs() {
                file.sync_all()?;
            }
            fs::rename(&temporary, &path)?;
            Ok(file)
        };
        let file = write().map_err(OutputError::io("write", &path))?;
        folder.sync_hidden()?;
        Ok(Self { file, bytes: text.len() as u64, path, sync: folder.syncs() })
    }

    /// Adds finished slots. After an error, none of them is added: the next append overwrites what
    /// was written of them.
    pub(crate) fn append(&mut self, entries: &[Entry]) -> Result<(), OutputError> {
        let mut text = Vec::new();
        for entry in entries {
            push_line(&mut text, entry)?;
        }
        self.write_behind(&text).map_err(OutputError::io("write", &self.path))?;
        self.bytes += text.len() as u64;
        Ok(())
    }

    fn write_behind(&mut self, text: &[u8]) -> io::Result<()> {
        // A failed append, as on a full disk, may have left a part of its lines.
        self.file.set_len(self.bytes)?;
        self.file.seek(SeekFrom::Start(self.bytes))?;
        self.file.write_all(text)?;
        if self.sync { self.file.sync_data() } else { Ok(()) }
    }
}

impl JournalContent {
    /// Returns the journal of a folder, if it has one.
    pub(crate) fn load(folder: &Folder) -> Result<Option<Self>, OutputError> {
        Self::read(&folder.journal_path())
    }

    /// Returns the journal in the file `path`, if it exists.
    pub(super) fn read(path: &Path) -> Result<Option<Self>, OutputError> {
        let Some(bytes) = read(path)? else { return Ok(None) };
        let damaged = |message: String| OutputError::Damaged { path: path.to_owned(), message };
        let mut lines = whole_lines(&bytes);
        let header = lines.next().ok_or_else(|| damaged("it is empty".into()))?;
        let header: Header = serde_json::from_slice(header).map_err(|error| damaged(error.to_string()))?;
        if !(1..=JOURNAL_VERSION).contains(&header.annulus_journal) {
            let version = header.annulus_journal;
            return Err(damaged(format!("its version is {version}, expected 1 to {JOURNAL_VERSION}")));
        }
        let entries: Result<Vec<Entry>, _> = lines.map(serde_json::from_slice).collect();
        let entries = entries.map_err(|error| damaged(error.to_string()))?;
        checked_names(entries.iter().flat_map(|entry| &entry.files).map(|file| file.name.as_str())).map_err(damaged)?;
        Ok(Some(Self { settings: header.settings, entries }))
    }

    /// Returns the names of the files of all entries.
    pub(crate) fn file_names(&self) -> Vec<String> {
        self.entries.iter().flat_map(|entry| &entry.files).map(|file| file.name.clone()).collect()
    }

    /// Returns the entries whose files are all undamaged, one for each slot. Files that were to be
    /// renamed are renamed first. All other recorded files are removed. Reads every file to verify
    /// its checksum.
    pub(crate) fn keep_whole(self, folder: &Folder) -> Result<Vec<Entry>, OutputError> {
        let (recorded, appends) = (self.file_names(), self.settings.append().is_some());
        let mut kept = BTreeMap::new();
        for entry in self.entries {
            let mut whole = true;
            for file in &entry.files {
                whole = whole && settle(folder, file, appends)?;
            }
            if whole {
                kept.insert(entry.slot, entry);
            }
        }
        // A slot that was recorded twice has the same names both times.
        let files = kept.values().flat_map(|entry| &entry.files);
        let whole: HashSet<&str> = files.map(|file| file.name.as_str()).collect();
        let others = recorded.iter().map(String::as_str).filter(|name| !whole.contains(name));
        if appends {
            folder.remove_of_append(others)?
        } else {
            folder.remove(others)?
        }
        Ok(kept.into_values().collect())
    }
}

/// Returns the files that the journal at `path` names, if it exists. If it is damaged, only the
/// readable lines count.
pub(crate) fn known_files(path: &Path) -> Result<Option<Vec<String>>, OutputError> {
    let Some(bytes) = read(path)? else { return Ok(None) };
    let entries = whole_lines(&bytes).filter_map(|line| serde_json::from_slice::<Entry>(line).ok());
    let names = entries.flat_map(|entry| entry.files).map(|file| file.name);
    Ok(Some(names.filter(|name| checked_names([name.as_str()].into_iter()).is_ok()).collect()))
}

fn read(path: &Path) -> Result<Option<Vec<u8>>, OutputError> {
    let mut bytes = Vec::new();
    match own::open(path, File::options().read(true)).and_then(|mut file| file.read_to_end(&mut bytes)) {
        Ok(_) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(own::open_error("read", path, error)),
    }
}

/// Returns the complete lines. A line without its end was being written when the run was killed,
/// and may end within a character. Its slot's files were not renamed yet.
fn whole_lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n"))
}

/// Returns whether a file is undamaged, under its final name or among the files that an append
/// adds. If it is still in the work folder, it is renamed.
fn settle(folder: &Folder, file: &FileEntry, appends: bool) -> Result<bool, OutputError> {
    let is_whole = |found: FileSeal| found.bytes == file.bytes && found.checksum == file.checksum;
    if let Some(found) = examine(&folder.final_path(&file.name))? {
        return Ok(is_whole(found));
    }
    if appends && let Some(found) = examine(&folder.added_path(&file.name))? {
        return Ok(is_whole(found));
    }
    if !examine(&folder.work_path(&file.name))?.is_some_and(is_whole) {
        return Ok(false);
    }
    if appends {
        folder.add([file.name.as_str()])?
    } else {
        folder.publish([file.name.as_str()])?
    }
    Ok(true)
}

fn push_line(text: &mut Vec<u8>, value: &impl Serialize) -> Result<(), OutputError> {
    serde_json::to_writer(&mut *text, value)
        .map_err(|error| OutputError::Damaged { path: JOURNAL_NAME.into(), message: error.to_string() })?;
    text.push(b'\n');
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_an_append_that_was_cut_short_can_be_read() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = Folder::lock(&temporary.path().join("out"), false).unwrap();
        let entry = |slot| Entry { slot, files: Vec::new() };
        let mut journal = Journal::create(&folder, &Settings::default(), &[entry(0)]).unwrap();
        journal.append(&[entry(1)]).unwrap();
        // A full disk leaves this of an append.
        let mut file = File::options().append(true).open(folder.journal_path()).unwrap();
        file.write_all(b"{\"slot\":2,\"files\":[]}\n{\"slot\":3,\"fi").unwrap();
        journal.append(&[entry(4), entry(5)]).unwrap();
        let recorded = JournalContent::load(&folder).unwrap().unwrap();
        assert_eq!(recorded.entries, [0, 1, 4, 5].map(entry));
    }
}
