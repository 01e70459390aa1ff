//! A file of the work folder, and the length and checksum of a complete file.

use std::{
    fs::{self, File},
    hash::Hasher,
    io::{self, Write},
    path::{Path, PathBuf},
};

use twox_hash::XxHash64;

use super::{OutputError, own, publish::Folder};

/// A file that is being written. Its bytes are counted and hashed on the way.
pub(crate) struct WorkFile {
    file: File,
    path: PathBuf,
    hasher: XxHash64,
    bytes: u64,
    sync: bool,
}

/// The length and checksum of a complete file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileSeal {
    pub(crate) bytes: u64,
    pub(crate) checksum: String,
}

impl WorkFile {
    /// Creates a file in the work folder, in place of one that has its name.
    pub(crate) fn create(folder: &Folder, name: &str) -> Result<Self, OutputError> {
        let path = folder.work_path(name);
        if let Some(above) = path.parent().filter(|_| name.contains('/')) {
            fs::create_dir_all(above).map_err(OutputError::io("create", above))?;
        }
        let file = own::create_anew(&path).map_err(OutputError::io("create", &path))?;
        Ok(Self { file, path, hasher: XxHash64::with_seed(0), bytes: 0, sync: folder.syncs() })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the number of bytes written.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Ends the file, and syncs it to disk if asked for. Nothing may be written afterwards.
    pub(crate) fn seal(&mut self) -> Result<FileSeal, OutputError> {
        if self.sync {
            self.file.sync_all().map_err(OutputError::io("write", &self.path))?;
        }
        Ok(FileSeal { bytes: self.bytes, checksum: checksum_text(&self.hasher) })
    }
}

impl Write for WorkFile {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let written = self.file.write(buf)?;
        Hasher::write(&mut self.hasher, &buf[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads a file, and returns its length and checksum; `None` if it does not exist. O(bytes).
pub(crate) fn examine(path: &Path) -> Result<Option<FileSeal>, OutputError> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(OutputError::io("open", path)(error)),
    };
    let mut sink = HashWriter(XxHash64::with_seed(0));
    let bytes = io::copy(&mut io::BufReader::with_capacity(1 << 20, file), &mut sink);
    let bytes = bytes.map_err(OutputError::io("read", path))?;
    Ok(Some(FileSeal { bytes, checksum: checksum_text(&sink.0) }))
}

struct HashWriter(XxHash64);

impl Write for HashWriter {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        Hasher::write(&mut self.0, buf);
        Ok(buf.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn checksum_text(hasher: &XxHash64) -> String {
    format!("xxh64:{:016x}", hasher.finish())
}
