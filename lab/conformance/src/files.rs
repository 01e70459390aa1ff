//! Finds the test files, and copies them to a folder in which they can run.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use datafusion_sqllogictest::read_dir_recursive;
use serde_json::Value;
use tempfile::TempDir;

const PACKAGE: &str = "datafusion-sqllogictest";
const TESTS: &str = "test_files";

/// Returns the folder of the package that ships the files, as cargo resolved it for this workspace.
pub fn package() -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--manifest-path", manifest])
        .output()
        .context("cannot run cargo to find the test files; name their folder with --files")?;
    ensure!(output.status.success(), "cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let packages = metadata["packages"].as_array().into_iter().flatten();
    packages
        .filter(|package| package["name"] == PACKAGE)
        .find_map(|package| Path::new(package["manifest_path"].as_str()?).parent().map(Path::to_owned))
        .with_context(|| format!("{PACKAGE} is not among this workspace's packages"))
}

/// Returns a writable copy of the package's files, which is removed on drop.
pub fn copy(package: &Path) -> Result<TempDir> {
    let copy = tempfile::tempdir()?;
    for folder in [TESTS, "data"] {
        let from = package.join(folder);
        for file in read_dir_recursive(&from)? {
            let to = copy.path().join(file.strip_prefix(package)?);
            fs::create_dir_all(to.parent().context("a file without a folder")?)?;
            fs::write(&to, fs::read(&file)?).with_context(|| format!("cannot write {}", to.display()))?;
        }
    }
    Ok(copy)
}

/// Returns the test files in the working directory, in order, relative to their folder. Only files
/// whose path contains one of `filters` are chosen, or all if there are no filters.
pub fn choose(filters: &[String], only_repartition: bool) -> Result<Vec<PathBuf>> {
    let mut chosen = vec![];
    for path in read_dir_recursive(TESTS)? {
        let relative = path.strip_prefix(TESTS)?.to_owned();
        let name = relative.to_string_lossy();
        let wanted = filters.is_empty() || filters.iter().any(|filter| name.contains(filter));
        if !wanted || !name.ends_with(".slt") {
            continue;
        }
        if !only_repartition || fs::read_to_string(&path)?.contains("RepartitionExec") {
            chosen.push(relative);
        }
    }
    chosen.sort();
    ensure!(!chosen.is_empty(), "no test file matches {filters:?}");
    Ok(chosen)
}

/// Returns the path of a test file from the working directory.
pub fn path(relative: &Path) -> PathBuf {
    Path::new(TESTS).join(relative)
}
