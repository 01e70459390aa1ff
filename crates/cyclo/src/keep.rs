//! Fragments that are kept for further revolutions.

use std::{fs::File, io, io::Write, os::unix::fs::FileExt, path::PathBuf};

use crate::CycloError;

/// Where a host keeps its fragments for further revolutions: in memory, and on disk beyond a limit.
///
/// The file on disk has no name, so its space is free as soon as the process ends, whatever ends
/// it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keep {
    memory_bytes: usize,
    dir: PathBuf,
}

impl Keep {
    /// Keeps at most `memory_bytes` bytes in memory, and the others in a file in the folder `dir`.
    pub fn new(memory_bytes: usize, dir: impl Into<PathBuf>) -> Self {
        Self { memory_bytes, dir: dir.into() }
    }

    /// Keeps everything in memory.
    pub fn in_memory() -> Self {
        Self::new(usize::MAX, "")
    }

    fn failed(&self) -> impl FnOnce(io::Error) -> CycloError {
        |source| CycloError::Keep { dir: self.dir.clone(), source }
    }
}

impl Default for Keep {
    fn default() -> Self {
        Self::in_memory()
    }
}

/// The encoded fragments of a host, in the order in which they are sent.
pub(crate) struct Kept<'a> {
    keep: &'a Keep,
    memory: Vec<Box<[u8]>>,
    memory_bytes: usize,
    /// The fragments after those in memory, one after the other.
    file: Option<File>,
    file_sizes: Vec<usize>,
    file_bytes: u64,
}

/// A place among kept fragments.
#[derive(Clone, Copy, Default)]
pub(crate) struct Place {
    number: usize,
    offset: u64,
}

impl<'a> Kept<'a> {
    pub(crate) fn new(keep: &'a Keep) -> Self {
        Self { keep, memory: Vec::new(), memory_bytes: 0, file: None, file_sizes: Vec::new(), file_bytes: 0 }
    }

    /// Adds a fragment.
    ///
    /// # Errors
    /// If it does not fit in memory, and cannot be written to disk.
    pub(crate) fn push(&mut self, fragment: &[u8]) -> Result<(), CycloError> {
        let fits = fragment.len() <= self.keep.memory_bytes - self.memory_bytes;
        // Once one is on disk, all others follow it, so that they are read in order.
        if fits && self.file.is_none() {
            self.memory_bytes += fragment.len();
            self.memory.push(fragment.into());
            return Ok(());
        }
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(tempfile::tempfile_in(&self.keep.dir).map_err(self.keep.failed())?),
        };
        file.write_all(fragment).map_err(self.keep.failed())?;
        self.file_sizes.push(fragment.len());
        self.file_bytes += fragment.len() as u64;
        Ok(())
    }

    /// Copies the fragment at `place` to the beginning of `out`, and moves on to the next one.
    /// Returns its size, or `None` after the last one.
    ///
    /// # Errors
    /// If it cannot be read from disk.
    pub(crate) fn read(&self, place: &mut Place, out: &mut [u8]) -> Result<Option<usize>, CycloError> {
        let Some(size) = self.size(place) else { return Ok(None) };
        let out = &mut out[..size];
        if let Some(fragment) = self.memory.get(place.number) {
            out.copy_from_slice(fragment);
        } else if let Some(file) = &self.file {
            file.read_exact_at(out, place.offset).map_err(self.keep.failed())?;
            place.offset += size as u64;
        }
        place.number += 1;
        Ok(Some(size))
    }

    /// Returns the size of the fragment at `place`, or `None` after the last one.
    pub(crate) fn size(&self, place: &Place) -> Option<usize> {
        match place.number.checked_sub(self.memory.len()) {
            None => Some(self.memory[place.number].len()),
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

    fn read_all(kept: &Kept<'_>) -> Vec<Vec<u8>> {
        let (mut place, mut out) = (Place::default(), [0; 8]);
        let next = || {
            let size = kept.read(&mut place, &mut out).unwrap()?;
            Some(out[..size].to_vec())
        };
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn what_is_kept_is_read_in_order_every_time() {
        let folder = tempfile::tempdir().unwrap();
        let fragments: Vec<Vec<u8>> = (0..20).map(|number| vec![number; usize::from(number) % 7 + 1]).collect();
        let all: usize = fragments.iter().map(Vec::len).sum();
        for memory_bytes in [0, 10, all - 1, all] {
            let keep = Keep::new(memory_bytes, folder.path());
            let mut kept = Kept::new(&keep);
            fragments.iter().for_each(|fragment| kept.push(fragment).unwrap());
            assert!(kept.memory_bytes() <= memory_bytes);
            assert_eq!(kept.memory_bytes() as u64 + kept.file_bytes(), all as u64);
            assert_eq!((read_all(&kept), read_all(&kept)), (fragments.clone(), fragments.clone()));
            // The file has no name.
            assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        }
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_named() {
        let keep = Keep::new(2, "/nowhere");
        let mut kept = Kept::new(&keep);
        kept.push(&[1, 2]).unwrap();
        let error = kept.push(&[3]).unwrap_err().to_string();
        assert!(error.contains("'/nowhere'"), "{error}");
        assert_eq!(read_all(&kept), [[1, 2]]);
    }
}
