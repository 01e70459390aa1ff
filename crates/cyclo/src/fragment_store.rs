//! The store of fragments that are sent again in further revolutions.

use std::{
    fmt,
    fs::File,
    io::{self, Write},
    os::unix::fs::FileExt,
    path::PathBuf,
    sync::Arc,
};

use parking_lot::Mutex;

use crate::CycloError;

/// The memory and the folder in which a host stores its fragments for further revolutions. Fragments
/// beyond the memory limit go to disk.
///
/// The file on disk has no name, so its space is freed when the process ends, however it ends.
#[derive(Clone)]
pub struct StoreConfig {
    memory_bytes: usize,
    dir: PathBuf,
    open: Arc<OpenFile>,
}

type OpenFile = dyn Fn() -> io::Result<StoreFile> + Send + Sync;

/// A file of fragments.
pub struct StoreFile {
    /// What writes them, one after the other. It may refuse those that exceed a limit.
    pub writer: Box<dyn Write + Send>,
    /// What reads them.
    pub reader: File,
}

impl StoreConfig {
    /// Returns a store of at most `memory_bytes` bytes in memory, and a file in the folder `dir` for
    /// the rest.
    pub fn new(memory_bytes: usize, dir: impl Into<PathBuf>) -> Self {
        let dir = dir.into();
        let folder = dir.clone();
        let open = move || {
            let reader = tempfile::tempfile_in(&folder)?;
            Ok(StoreFile { writer: Box::new(reader.try_clone()?), reader })
        };
        Self { memory_bytes, dir, open: Arc::new(open) }
    }

    /// Returns a store with the file that `open` returns, which lies in the folder `dir`. It is opened once, for the
    /// first fragment.
    pub fn in_file(dir: impl Into<PathBuf>, open: impl Fn() -> io::Result<StoreFile> + Send + Sync + 'static) -> Self {
        Self { memory_bytes: 0, dir: dir.into(), open: Arc::new(open) }
    }

    /// Returns a store in memory alone.
    pub fn in_memory() -> Self {
        Self::new(usize::MAX, "")
    }

    fn failed(&self) -> impl FnOnce(io::Error) -> CycloError {
        |source| CycloError::Store { dir: self.dir.clone(), source }
    }
}

impl Default for StoreConfig {
    fn default() -> Self {
        Self::in_memory()
    }
}

impl fmt::Debug for StoreConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreConfig")
            .field("memory_bytes", &self.memory_bytes)
            .field("dir", &self.dir)
            .finish_non_exhaustive()
    }
}

/// The encoded fragments of a host, in the order in which they are sent.
pub(crate) struct FragmentStore<'a> {
    config: &'a StoreConfig,
    memory: Vec<Box<[u8]>>,
    memory_bytes: usize,
    /// The fragments after those in memory, one after the other.
    file: Option<OpenStore>,
    file_sizes: Vec<usize>,
    file_bytes: u64,
}

/// The file, which several threads read, and one writes.
struct OpenStore {
    writer: Mutex<Box<dyn Write + Send>>,
    reader: File,
}

impl OpenStore {
    fn new(file: StoreFile) -> Self {
        Self { writer: Mutex::new(file.writer), reader: file.reader }
    }
}

/// A position among the stored fragments.
#[derive(Clone, Copy, Default)]
pub(crate) struct FragmentCursor {
    number: usize,
    offset: u64,
}

impl<'a> FragmentStore<'a> {
    pub(crate) fn new(config: &'a StoreConfig) -> Self {
        Self { config, memory: Vec::new(), memory_bytes: 0, file: None, file_sizes: Vec::new(), file_bytes: 0 }
    }

    /// Adds a fragment.
    ///
    /// # Errors
    /// If it does not fit in memory, and cannot be written to disk.
    pub(crate) fn push(&mut self, fragment: &[u8]) -> Result<(), CycloError> {
        let fits = fragment.len() <= self.config.memory_bytes - self.memory_bytes;
        // Once one is on disk, all others follow it, so that they are read in order.
        if fits && self.file.is_none() {
            self.memory_bytes += fragment.len();
            self.memory.push(fragment.into());
            return Ok(());
        }
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(OpenStore::new((self.config.open)().map_err(self.config.failed())?)),
        };
        file.writer.get_mut().write_all(fragment).map_err(self.config.failed())?;
        self.file_sizes.push(fragment.len());
        self.file_bytes += fragment.len() as u64;
        Ok(())
    }

    /// Copies the fragment at `cursor` to the beginning of `out`, and moves on to the next one.
    /// Returns its size, or `None` after the last one.
    ///
    /// # Errors
    /// If it cannot be read from disk.
    pub(crate) fn read(&self, cursor: &mut FragmentCursor, out: &mut [u8]) -> Result<Option<usize>, CycloError> {
        let Some(size) = self.size(cursor) else { return Ok(None) };
        let out = &mut out[..size];
        if let Some(fragment) = self.memory.get(cursor.number) {
            out.copy_from_slice(fragment);
        } else if let Some(file) = &self.file {
            file.reader.read_exact_at(out, cursor.offset).map_err(self.config.failed())?;
            cursor.offset += size as u64;
        }
        cursor.number += 1;
        Ok(Some(size))
    }

    /// Returns the size of the fragment at `cursor`, or `None` after the last one.
    pub(crate) fn size(&self, cursor: &FragmentCursor) -> Option<usize> {
        match cursor.number.checked_sub(self.memory.len()) {
            None => Some(self.memory[cursor.number].len()),
            Some(number) => self.file_sizes.get(number).copied(),
        }
    }

    /// Returns the number of bytes in memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.memory_bytes
    }

    /// Returns the number of bytes on disk.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.file_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_all(store: &FragmentStore<'_>) -> Vec<Vec<u8>> {
        let (mut cursor, mut out) = (FragmentCursor::default(), [0; 8]);
        let next = || {
            let size = store.read(&mut cursor, &mut out).unwrap()?;
            Some(out[..size].to_vec())
        };
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn stored_fragments_are_read_in_order_every_time() {
        let folder = tempfile::tempdir().unwrap();
        let fragments: Vec<Vec<u8>> = (0..20).map(|number| vec![number; usize::from(number) % 7 + 1]).collect();
        let all: usize = fragments.iter().map(Vec::len).sum();
        for memory_bytes in [0, 10, all - 1, all] {
            let config = StoreConfig::new(memory_bytes, folder.path());
            let mut store = FragmentStore::new(&config);
            fragments.iter().for_each(|fragment| store.push(fragment).unwrap());
            assert!(store.memory_bytes() <= memory_bytes);
            assert_eq!(store.memory_bytes() as u64 + store.file_bytes(), all as u64);
            assert_eq!((read_all(&store), read_all(&store)), (fragments.clone(), fragments.clone()));
            // The file has no name.
            assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        }
    }

    /// A file, and the number of bytes that it still takes.
    struct SmallFile(File, usize);

    impl Write for SmallFile {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let left = self.1.checked_sub(bytes.len()).ok_or_else(|| io::Error::other("the limit is reached"))?;
            self.1 = left;
            self.0.write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            self.0.flush()
        }
    }

    #[test]
    fn a_file_may_refuse_fragments() {
        let folder = tempfile::tempdir().unwrap();
        let open = || {
            let reader = tempfile::tempfile()?;
            Ok(StoreFile { writer: Box::new(SmallFile(reader.try_clone()?, 5)), reader })
        };
        let config = StoreConfig::in_file(folder.path(), open);
        let mut store = FragmentStore::new(&config);
        store.push(&[1, 2, 3]).unwrap();
        store.push(&[4, 5]).unwrap();
        let error = store.push(&[6]).unwrap_err().to_string();
        assert!(error.contains("the limit is reached") && error.contains("further revolutions"), "{error}");
        assert_eq!(read_all(&store), [vec![1, 2, 3], vec![4, 5]]);
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_named() {
        let config = StoreConfig::new(2, "/nowhere");
        let mut store = FragmentStore::new(&config);
        store.push(&[1, 2]).unwrap();
        let error = store.push(&[3]).unwrap_err().to_string();
        assert!(error.contains("'/nowhere'"), "{error}");
        assert_eq!(read_all(&store), [[1, 2]]);
    }
}
