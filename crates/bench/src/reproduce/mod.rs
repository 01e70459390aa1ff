//! `annulus reproduce`: the figures of papers, on this machine.

pub mod cyclo;
pub mod pages;

use std::{fs, io::Write, path::Path};

use annulus_terminal::unfinished::Unfinished;
use anyhow::{Context, Result};

/// Files of the folder that `--out` names, which appear when all is measured.
struct Files(Vec<Unfinished>);

impl Files {
    /// Begins them at once, so that files that cannot be written are known before the work.
    fn create<const N: usize>(out: &Path, names: [&str; N]) -> Result<Self> {
        fs::create_dir_all(out).with_context(|| format!("cannot make the folder --out '{}'", out.display()))?;
        let file = |name: &str| Unfinished::create("--out", out.join(name));
        Ok(Self(names.into_iter().map(file).collect::<Result<_>>()?))
    }

    /// Writes each its content, and says where.
    fn finish<const N: usize>(self, contents: [String; N]) -> Result<()> {
        for (file, content) in self.0.into_iter().zip(contents) {
            let shown = file.target().display().to_string();
            file.file().write_all(content.as_bytes()).with_context(|| format!("cannot write '{shown}'"))?;
            file.finish()?;
            eprintln!("{shown}");
        }
        Ok(())
    }
}
