//! Files that appear under their name only when they are complete.

use std::{
    fs::File,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use tempfile::{Builder, NamedTempFile};

/// A file in the making, under a temporary name in the folder of its target. Dropped, it is
/// removed.
#[derive(Debug)]
pub struct Unfinished {
    temporary: NamedTempFile,
    target: PathBuf,
}

impl Unfinished {
    /// Begins the file that will be `target`, which `option` named.
    pub fn create(option: &str, target: PathBuf) -> Result<Self> {
        let shown = target.display();
        if target.is_dir() {
            bail!("{option} '{shown}' is a folder; name a file in it");
        }
        let folder = match target.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        };
        let mut builder = Builder::new();
        builder.prefix(".annulus-").suffix(".tmp");
        // A temporary file is private by default; this one becomes an ordinary file, within the user's
        // umask.
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        let temporary = builder.tempfile_in(folder).with_context(|| {
            format!("cannot write {option} in '{}'; does the folder exist, and may you write there?", folder.display())
        })?;
        Ok(Self { temporary, target })
    }

    /// Where its content goes.
    pub fn file(&self) -> &File {
        self.temporary.as_file()
    }

    /// The name that the file will have.
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// Gives the file its name.
    pub fn finish(self) -> Result<()> {
        let Self { temporary, target } = self;
        let shown = || format!("cannot write '{}'", target.display());
        temporary.as_file().sync_all().with_context(shown)?;
        temporary.persist(&target).with_context(shown)?;
        Ok(())
    }
}
