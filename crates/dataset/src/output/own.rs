//! Hidden folders and files that belong to the run's own user, and are not opened through a link.
//! Otherwise, a user who may write to an output folder could make a run delete or overwrite files
//! elsewhere.

use std::{
    fs::{self, File, OpenOptions},
    io,
    path::Path,
};

use super::OutputError;

/// Creates the folder `path` and its parents, if they do not exist.
///
/// # Errors
/// [`OutputError::NotOwn`] if something else has the name, or another user's folder; or if the file
/// system refuses.
pub(super) fn create_folder(path: &Path) -> Result<(), OutputError> {
    if let Some(above) = path.parent() {
        fs::create_dir_all(above).map_err(OutputError::io("create", path))?;
    }
    match fs::create_dir(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(OutputError::io("create", path)(error));
        }
        _ => {}
    }
    match fs::symlink_metadata(path) {
        Ok(found) if !found.is_dir() => Err(not_own(path, "is not a folder itself")),
        Ok(found) if !is_own(&found) => Err(not_own(path, "belongs to another user")),
        // Another run has just ended and removed it: the caller tries again.
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(OutputError::io("open", path)(error)),
        _ => Ok(()),
    }
}

/// Opens a file, unless a link is in its place.
pub(super) fn open(path: &Path, options: &OpenOptions) -> io::Result<File> {
    options.clone().through_no_link().open(path)
}

/// Returns the error of [`open`], which says so if a link is in the file's place.
pub(super) fn open_error(action: &'static str, path: &Path, error: io::Error) -> OutputError {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_symlink() => not_own(path, "is a link"),
        _ => OutputError::io(action, path)(error),
    }
}

/// Creates a file, in place of the one that has its name, if there is one. A link is removed, but
/// not its target.
pub(super) fn create_anew(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    File::create_new(path)
}

fn not_own(path: &Path, found: &'static str) -> OutputError {
    OutputError::NotOwn { path: path.to_owned(), found }
}

trait ThroughNoLink {
    fn through_no_link(&mut self) -> &mut Self;
}

#[cfg(unix)]
impl ThroughNoLink for OpenOptions {
    fn through_no_link(&mut self) -> &mut Self {
        use std::os::unix::fs::OpenOptionsExt;
        self.custom_flags(rustix::fs::OFlags::NOFOLLOW.bits() as i32)
    }
}

#[cfg(not(unix))]
impl ThroughNoLink for OpenOptions {
    fn through_no_link(&mut self) -> &mut Self {
        self
    }
}

#[cfg(unix)]
fn is_own(found: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    found.uid() == nix::unistd::geteuid().as_raw()
}

#[cfg(not(unix))]
fn is_own(_: &fs::Metadata) -> bool {
    true
}
