//! Reading and writing the files of certificates and keys.

use std::{
    fs,
    io::{self, Read, Write},
    os::unix::fs::PermissionsExt,
    path::Path,
};

use super::error::FileError;

/// The permissions of a certificate, which everyone may read.
pub(super) const PUBLIC: u32 = 0o644;
/// The permissions of a key.
pub(super) const PRIVATE: u32 = 0o600;

/// Writes a whole new file, or none. Never replaces a file.
pub(super) fn write_new(path: &Path, content: &str, mode: u32) -> Result<(), FileError> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let write = || {
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.as_file().set_permissions(fs::Permissions::from_mode(mode))?;
        file.write_all(content.as_bytes())?;
        file.as_file().sync_all()?;
        file.persist_noclobber(path)?;
        fs::File::open(folder)?.sync_all()
    };
    write().map_err(|source: io::Error| match source.kind() {
        io::ErrorKind::AlreadyExists => FileError::Exists { path: path.to_owned() },
        _ => io_error(path, source),
    })
}

/// Reads a file.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, FileError> {
    fs::read(path).map_err(|source| io_error(path, source))
}

/// Reads a file that only its owner may read. Refuses a file with wider permissions.
pub(super) fn read_private(path: &Path) -> Result<Vec<u8>, FileError> {
    let read = || {
        let mut file = fs::File::open(path)?;
        let mode = file.metadata()?.permissions().mode() & 0o7777;
        let mut content = Vec::new();
        file.read_to_end(&mut content)?;
        Ok((mode, content))
    };
    let (mode, content) = read().map_err(|source| io_error(path, source))?;
    if mode & 0o077 != 0 { Err(FileError::OpenEndpoint { path: path.to_owned(), mode }) } else { Ok(content) }
}

pub(super) fn io_error(path: &Path, source: io::Error) -> FileError {
    FileError::Io { path: path.to_owned(), source }
}
