//! What is finished of a dataset that is not: a line of JSON for each finished slot, written *before* the slot's files
//! get their final names. A file under a final name is therefore always known, and a run that was killed between the line
//! and the rename can be taken up there.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
};

use serde::{Deserialize, Serialize};

use super::{
    OutputError,
    manifest::{FileEntry, Settings},
    publish::{Folder, Sealed, checked_names, examine},
};

const JOURNAL_VERSION: u32 = 1;

/// An open journal, which takes further lines.
#[derive(Debug)]
pub(crate) struct Journal {
    file: File,
    path: std::path::PathBuf,
    sync: bool,
}

/// A finished slot: its files in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub(crate) slot: usize,
    pub(crate) files: Vec<FileEntry>,
}

/// What a journal says.
#[derive(Debug)]
pub(crate) struct Recorded {
    pub(crate) settings: Settings,
    pub(crate) entries: Vec<Entry>,
}

#[derive(Serialize, Deserialize)]
struct Header {
    annulus_journal: u32,
    settings: Settings,
}

impl Journal {
    /// Begins a journal that says that `entries` are finished; one that was there is replaced, as a whole.
    pub(crate) fn create(folder: &Folder, settings: &Settings, entries: &[Entry]) -> Result<Self, OutputError> {
        let path = folder.journal_path();
        let mut text = Vec::new();
        push_line(&mut text, &Header { annulus_journal: JOURNAL_VERSION, settings: settings.clone() })?;
        for entry in entries {
            push_line(&mut text, entry)?;
        }
        let temporary = path.with_extension("new");
        let write = || -> io::Result<File> {
            let mut file = File::create(&temporary)?;
            file.write_all(&text)?;
            if folder.syncs() {
                file.sync_all()?;
            }
            fs::rename(&temporary, &path)?;
            OpenOptions::new().append(true).open(&path)
        };
        let file = write().map_err(OutputError::io("write", &path))?;
        folder.sync_hidden()?;
        Ok(Self { file, path, sync: folder.syncs() })
    }

    /// Adds finished slots.
    pub(crate) fn append(&mut self, entries: &[Entry]) -> Result<(), OutputError> {
        let mut text = Vec::new();
        for entry in entries {
            push_line(&mut text, entry)?;
        }
        let refused = OutputError::io("write", &self.path);
        let written = self.file.write_all(&text);
        written.and_then(|()| if self.sync { self.file.sync_data() } else { Ok(()) }).map_err(refused)
    }
}

impl Recorded {
    /// The journal of a folder, if it has one.
    pub(crate) fn load(folder: &Folder) -> Result<Option<Self>, OutputError> {
        let path = folder.journal_path();
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(OutputError::io("read", path)(error)),
        };
        let damaged = |message: String| OutputError::Damaged { path: path.clone(), message };
        // A line without its end was being written when the run was killed: its slot was not renamed yet.
        let mut lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        let header = lines.next().ok_or_else(|| damaged("it is empty".into()))?;
        let header: Header = serde_json::from_str(header).map_err(|error| damaged(error.to_string()))?;
        if header.annulus_journal != JOURNAL_VERSION {
            let version = header.annulus_journal;
            return Err(damaged(format!("its version is {version}, not {JOURNAL_VERSION}")));
        }
        let entries: Result<Vec<Entry>, _> = lines.map(serde_json::from_str).collect();
        let entries = entries.map_err(|error| damaged(error.to_string()))?;
        checked_names(entries.iter().flat_map(|entry| &entry.files).map(|file| file.name.as_str())).map_err(damaged)?;
        Ok(Some(Self { settings: header.settings, entries }))
    }

    /// The files of all entries.
    pub(crate) fn file_names(&self) -> Vec<String> {
        self.entries.iter().flat_map(|entry| &entry.files).map(|file| file.name.clone()).collect()
    }

    /// The entries whose files are all whole, after renaming those that were on their way; the files of other entries are
    /// removed. Reads every file to verify its checksum.
    pub(crate) fn keep_whole(self, folder: &Folder) -> Result<Vec<Entry>, OutputError> {
        let mut kept = Vec::new();
        for entry in self.entries {
            let mut whole = true;
            for file in &entry.files {
                whole = whole && settle(folder, file)?;
            }
            if whole {
                kept.push(entry);
            } else {
                folder.remove(entry.files.iter().map(|file| file.name.as_str()))?;
            }
        }
        Ok(kept)
    }
}

/// Whether the file is whole under its final name, after a rename if it was not there yet.
fn settle(folder: &Folder, file: &FileEntry) -> Result<bool, OutputError> {
    let is_whole = |found: Sealed| found.bytes == file.bytes && found.checksum == file.checksum;
    if let Some(found) = examine(&folder.final_path(&file.name))? {
        return Ok(is_whole(found));
    }
    if !examine(&folder.work_path(&file.name))?.is_some_and(is_whole) {
        return Ok(false);
    }
    folder.publish([file.name.as_str()])?;
    Ok(true)
}

fn push_line(text: &mut Vec<u8>, value: &impl Serialize) -> Result<(), OutputError> {
    serde_json::to_writer(&mut *text, value)
        .map_err(|error| OutputError::Damaged { path: "journal.jsonl".into(), message: error.to_string() })?;
    text.push(b'\n');
    Ok(())
}
