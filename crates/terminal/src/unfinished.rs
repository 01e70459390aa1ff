//! Files that get their name only when they are complete.

use std::{
    fs::{self, File},
    io::{ErrorKind, Write},
    path::{Path, PathBuf},
};

use anyhow::{Context, Error, Result, anyhow, bail};
use tempfile::{Builder, NamedTempFile};

/// An incomplete file with a temporary name in the folder of its target. Dropping it removes the
/// file.
#[derive(Debug)]
pub struct UnfinishedFile {
    temporary: NamedTempFile,
    target: PathBuf,
}

impl UnfinishedFile {
    /// Creates the file that will become `target`. `option` is the flag that named it, for errors.
    ///
    /// # Errors
    /// If `target` is a folder, or a file cannot be created in its folder.
    pub fn create(option: &str, target: PathBuf) -> Result<Self> {
        let shown = target.display();
        if target.is_dir() {
            bail!("{option} '{shown}' is a folder: name a file in it");
        }
        let folder = match target.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        };
        let mut builder = Builder::new();
        builder.prefix(".annulus-").suffix(".tmp");
        // A temporary file is private by default. This one becomes an ordinary file, under the user's
        // umask.
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        let temporary = builder.tempfile_in(folder).map_err(|error| {
            let folder = folder.display();
            match error.kind() {
                ErrorKind::NotFound => anyhow!("cannot write {option}: no folder '{folder}' exists; create it first"),
                ErrorKind::PermissionDenied => {
                    anyhow!("cannot write {option} in '{folder}': permission denied; choose a folder you may write to")
                }
                _ => Error::new(error).context(format!("cannot write {option} in '{folder}'")),
            }
        })?;
        Ok(Self { temporary, target })
    }

    /// Returns the file to write to.
    pub fn file(&self) -> &File {
        self.temporary.as_file()
    }

    /// Returns the file's final name.
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// Puts the file on disk and gives it its final name.
    ///
    /// # Errors
    /// If the system refuses either step.
    pub fn finish(self) -> Result<()> {
        let Self { temporary, target } = self;
        let shown = || format!("cannot write '{}'", target.display());
        temporary.as_file().sync_all().with_context(shown)?;
        temporary.persist(&target).with_context(shown)?;
        Ok(())
    }
}

/// The files in the folder of `--out`, which appear when all contents are known.
#[derive(Debug)]
pub struct Files(Vec<UnfinishedFile>);

impl Files {
    /// Creates the files before their contents are known, so that an unwritable folder fails early.
    ///
    /// # Errors
    /// If the folder or a file in it cannot be created.
    pub fn create<const N: usize>(out: &Path, names: [&str; N]) -> Result<Self> {
        fs::create_dir_all(out).with_context(|| format!("cannot create the folder of --out, '{}'", out.display()))?;
        let file = |name: &str| UnfinishedFile::create("--out", out.join(name));
        Ok(Self(names.into_iter().map(file).collect::<Result<_>>()?))
    }

    /// Writes the contents, and prints the files' names to standard error.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn finish<const N: usize>(self, contents: [String; N]) -> Result<()> {
        for (file, content) in self.0.into_iter().zip(contents) {
            let shown = file.target().display().to_string();
            file.file().write_all(content.as_bytes()).with_context(|| format!("cannot write '{shown}'"))?;
            file.finish()?;
            eprintln!("{shown}");
        }
        Ok(())
    }
}
