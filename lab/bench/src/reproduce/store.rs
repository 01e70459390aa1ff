//! Results of finished cells, which are kept in the folder of `--out` as they come. A run that was
//! stopped or killed goes on where it was.
//!
//! The file has one JSON object a line: first what the run is, then each result with its key. It
//! goes away when the files of results are complete.

use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions, TryLockError},
    io::{Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use annulus_terminal::units::counted;
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use crate::Stop;

/// The results of an unfinished run.
#[derive(Debug)]
pub(super) struct Store {
    path: PathBuf,
    file: File,
    results: BTreeMap<String, Value>,
}

#[derive(Serialize, Deserialize)]
struct Entry {
    key: String,
    result: Value,
}

/// Whether results of an earlier run are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    /// Go on with those of the same run.
    Resume,
    /// Measure anew.
    Anew,
}

impl Store {
    /// Opens the file `name` in the folder `out`, and creates both if necessary. `run` describes
    /// the run: its fields are compared with those of the run that wrote the file.
    ///
    /// # Errors
    /// If the file cannot be written, another process has it open, or it is of another run.
    pub(super) fn open(out: &Path, name: &str, run: &Map<String, Value>, start: Start) -> Result<Self> {
        fs::create_dir_all(out).with_context(|| format!("cannot create the folder of --out, '{}'", out.display()))?;
        let path = out.join(name);
        let shown = path.display();
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).open(&path);
        let file = file.with_context(|| format!("cannot write '{shown}'"))?;
        match file.try_lock() {
            Ok(()) => (),
            Err(TryLockError::WouldBlock) => {
                bail!("another run is writing to '{}': name another folder with --out", out.display())
            }
            Err(TryLockError::Error(error)) => return Err(error).with_context(|| format!("cannot lock '{shown}'")),
        }
        let mut store = Self { path, file, results: BTreeMap::new() };
        let mut text = Vec::new();
        if start == Start::Resume {
            store.file.read_to_end(&mut text).with_context(|| format!("cannot read '{}'", store.path.display()))?;
        }
        let whole = store.read(&text, run)?;
        store.cut(whole)?;
        if whole == 0 {
            store.append(&Value::Object(run.clone()))?;
        }
        Ok(store)
    }

    /// Says on standard error that results of an earlier run are used, if there are any.
    pub(super) fn say_resumed(&self) {
        if self.len() > 0 {
            eprintln!("going on with the {} results in '{}'", self.len(), self.path.display());
        }
    }

    /// Says on standard error how a run that was interrupted goes on.
    pub(super) fn say_stopped(&self, stop: &Stop) {
        if let Some(text) = self.stopped(stop) {
            eprintln!("{text}");
        }
    }

    fn stopped(&self, stop: &Stop) -> Option<String> {
        let results = counted(self.len() as u64, "result");
        let text = format!("interrupted: the same command goes on with the {results} in '{}'", self.path.display());
        (stop.is_cancelled() && self.len() > 0).then_some(text)
    }

    /// Returns the number of results in the file.
    fn len(&self) -> usize {
        self.results.len()
    }

    /// Returns the result of this key, if an earlier run has it.
    ///
    /// # Errors
    /// If it is of another version.
    pub(super) fn get<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>> {
        let Some(result) = self.results.get(key) else { return Ok(None) };
        let shown = self.path.display();
        serde_json::from_value(result.clone()).map(Some).with_context(|| {
            format!("the result '{key}' in '{shown}' is of another version: measure anew with --restart")
        })
    }

    /// Returns the result of this key, if an earlier run has it. Otherwise calls `measure` and
    /// keeps its result.
    ///
    /// # Errors
    /// Those of `measure`, or if the result cannot be written.
    pub(super) fn get_or<T: Serialize + DeserializeOwned>(
        &mut self,
        key: &str,
        measure: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        if let Some(result) = self.get(key)? {
            return Ok(result);
        }
        let result = measure()?;
        let entry = Entry { key: key.to_owned(), result: serde_json::to_value(&result)? };
        self.append(&entry)?;
        self.results.insert(entry.key, entry.result);
        Ok(result)
    }

    /// Removes the file, after all results have been written elsewhere.
    ///
    /// # Errors
    /// If the system refuses.
    pub(super) fn finish(self) -> Result<()> {
        fs::remove_file(&self.path).with_context(|| format!("cannot remove '{}'", self.path.display()))
    }

    /// Reads the results in `text`. Returns the bytes of its whole lines: a killed run may have
    /// left the beginning of a line.
    fn read(&mut self, text: &[u8], run: &Map<String, Value>) -> Result<usize> {
        let mut whole = 0;
        for line in text.split_inclusive(|&byte| byte == b'\n').filter(|line| line.ends_with(b"\n")) {
            let shown = self.path.display();
            let foreign = || format!("'{shown}' is not a file of results: remove it, or name another --out");
            if whole == 0 {
                let before: Map<String, Value> = serde_json::from_slice(line).with_context(foreign)?;
                if let Some(difference) = difference(&before, run) {
                    bail!(
                        "'{shown}' has the results of another unfinished run ({difference}): name another --out, or \
                         measure anew with --restart"
                    );
                }
            } else {
                let Entry { key, result } = serde_json::from_slice(line).with_context(foreign)?;
                self.results.insert(key, result);
            }
            whole += line.len();
        }
        Ok(whole)
    }

    fn cut(&mut self, bytes: usize) -> Result<()> {
        let cut = self.file.set_len(bytes as u64).and_then(|()| self.file.seek(SeekFrom::End(0)));
        cut.with_context(|| format!("cannot write '{}'", self.path.display())).map(drop)
    }

    /// Adds a line, and puts it on disk.
    fn append(&mut self, value: &impl Serialize) -> Result<()> {
        let line = format!("{}\n", serde_json::to_string(value)?);
        let written = self.file.write_all(line.as_bytes()).and_then(|()| self.file.sync_data());
        written.with_context(|| format!("cannot write '{}'", self.path.display()))
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        // Closing the file would not do: a process that is being started has it as well, until it
        // runs its own program.
        let _ = self.file.unlock();
    }
}

/// Names a field in which two runs differ, with both values: `rounds: 2 instead of 3`.
fn difference(before: &Map<String, Value>, now: &Map<String, Value>) -> Option<String> {
    let name = before.keys().chain(now.keys()).find(|name| before.get(*name) != now.get(*name))?;
    let value = |run: &Map<String, Value>| run.get(name).map_or("none".to_owned(), Value::to_string);
    Some(format!("{name}: {} instead of {}", value(before), value(now)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NAME: &str = "x.partial.jsonl";

    fn run(rounds: u32) -> Map<String, Value> {
        json!({ "rounds": rounds, "machine": "m" }).as_object().cloned().unwrap()
    }

    fn open(folder: &Path, start: Start) -> Store {
        Store::open(folder, NAME, &run(3), start).unwrap()
    }

    fn never() -> Result<u32> {
        panic!("it was measured")
    }

    #[test]
    fn results_are_measured_once_and_found_again() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("deep/out");
        let mut store = open(&out, Start::Resume);
        assert_eq!(store.get_or("a", || Ok(7_u32)).unwrap(), 7);
        assert!(store.get_or::<u32>("b", || bail!("interrupted")).is_err());
        let stop = Stop::default();
        assert_eq!(store.stopped(&stop), None);
        stop.cancel();
        let text = store.stopped(&stop).unwrap();
        assert!(text.contains("the same command goes on with the 1 result in '"), "{text}");
        drop(store);
        let mut store = open(&out, Start::Resume);
        assert_eq!((store.len(), store.get_or("a", never).unwrap()), (1, 7));
        assert_eq!(store.get_or("b", || Ok(8_u32)).unwrap(), 8);
        drop(store);
        assert_eq!(open(&out, Start::Resume).len(), 2);
        assert_eq!(open(&out, Start::Anew).len(), 0);
        let store = open(&out, Start::Resume);
        assert_eq!(store.len(), 0, "the old results are gone");
        store.finish().unwrap();
        assert!(!out.join(NAME).exists());
    }

    #[test]
    fn a_line_that_was_cut_off_is_measured_again() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = open(folder.path(), Start::Resume);
        store.get_or("a", || Ok(7_u32)).unwrap();
        store.get_or("b", || Ok(8_u32)).unwrap();
        drop(store);
        let path = folder.path().join(NAME);
        let text = fs::read(&path).unwrap();
        let lines: Vec<usize> = (0..text.len()).filter(|&at| text[at] == b'\n').map(|at| at + 1).collect();
        for length in (0..text.len()).rev() {
            fs::write(&path, &text[..length]).unwrap();
            let whole = lines.iter().filter(|&&end| end <= length).count();
            let mut store = open(folder.path(), Start::Resume);
            assert_eq!(store.len(), whole.saturating_sub(1), "of {length} bytes");
            store.get_or("c", || Ok(9_u32)).unwrap();
            drop(store);
            assert_eq!(open(folder.path(), Start::Resume).len(), whole.saturating_sub(1) + 1);
        }
    }

    #[test]
    fn other_settings_and_other_files_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        drop(open(folder.path(), Start::Resume));
        let refused = |rounds, start| Store::open(folder.path(), NAME, &run(rounds), start).map(drop);
        let error = format!("{:#}", refused(5, Start::Resume).unwrap_err());
        assert!(
            error.contains("another unfinished run (rounds: 3 instead of 5)") && error.contains("--restart"),
            "{error}"
        );
        refused(5, Start::Anew).unwrap();
        fs::write(folder.path().join(NAME), "a,b\n1,2\n").unwrap();
        let error = format!("{:#}", refused(5, Start::Resume).unwrap_err());
        assert!(error.contains("is not a file of results"), "{error}");
    }

    #[test]
    fn a_process_that_is_being_started_does_not_keep_the_lock() {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path(), Start::Resume);
        let inherited = store.file.try_clone().unwrap();
        drop(store);
        drop(open(folder.path(), Start::Resume));
        drop(inherited);
    }

    #[test]
    fn two_runs_do_not_share_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        let _first = open(folder.path(), Start::Resume);
        let error = Store::open(folder.path(), NAME, &run(3), Start::Anew).unwrap_err().to_string();
        assert!(error.contains("another run is writing to"), "{error}");
    }
}
