//! Checks whether an input would read a file that is to be written.

use std::{
    io::{self, ErrorKind},
    path::{self, Component, Path, PathBuf},
};

use glob::{MatchOptions, Pattern};

use super::paths::{WILDCARDS, is_hidden};

/// Returns a path without links, as far as it exists. Names that do not exist yet stay as they are.
///
/// # Errors
/// If a link leads nowhere, `..` follows a name that does not exist, or the file system refuses.
pub fn real_path(path: &Path) -> io::Result<PathBuf> {
    let mut existing = path::absolute(path)?;
    let mut missing = Vec::new();
    loop {
        match existing.canonicalize() {
            Ok(real) => return Ok(missing.iter().rev().fold(real, |path, name| path.join(name))),
            Err(error) if error.kind() == ErrorKind::NotFound && existing.symlink_metadata().is_err() => {
                let Some(name) = existing.file_name().map(ToOwned::to_owned) else { return Err(error) };
                missing.push(name);
                existing.pop();
            }
            Err(error) => return Err(error),
        }
    }
}

/// Returns an absolute path without `..`. Links before a `..` are followed, as the system does; others stay.
///
/// # Errors
/// If what `..` follows does not exist, or the file system refuses.
pub fn absolute_path(path: &Path) -> io::Result<PathBuf> {
    let path = path::absolute(path)?;
    let parts: Vec<Component<'_>> = path.components().collect();
    let Some(last) = parts.iter().rposition(|part| *part == Component::ParentDir) else { return Ok(path) };
    let mut absolute = parts[..=last].iter().collect::<PathBuf>().canonicalize()?;
    absolute.extend(&parts[last + 1..]);
    Ok(absolute)
}

/// Returns the folder that an input names or, for a glob, the path before the first wildcard.
pub fn input_root(input: &str) -> PathBuf {
    let path = Path::new(input);
    if path.exists() { path.to_owned() } else { path.components().take_while(|part| !is_wild(part)).collect() }
}

/// Returns the input that would read `file` if it existed: a folder above the file, or a glob that
/// matches the file or such a folder. Links in the paths of the input's [root](input_root) and of
/// the file are followed.
pub fn input_that_reads<'a>(inputs: &'a [String], file: &Path) -> Option<&'a str> {
    let file = real_path(file).ok()?;
    inputs.iter().map(String::as_str).find(|input| reads(input, &file).unwrap_or(false))
}

fn reads(input: &str, file: &Path) -> Option<bool> {
    let root = input_root(input);
    let real = real_path(&root).ok()?;
    let Ok(below) = file.strip_prefix(&real) else { return Some(false) };
    let wild: PathBuf = Path::new(input).components().skip(root.components().count()).collect();
    if wild.as_os_str().is_empty() {
        return Some(!has_hidden(below));
    }
    // At the end of a glob, two stars match only folders.
    let wild = if wild.ends_with("**") { wild.join("*") } else { wild };
    let pattern = Path::new(&Pattern::escape(real.to_str()?)).join(wild);
    let pattern = Pattern::new(pattern.to_str()?).ok()?;
    let options = MatchOptions { require_literal_separator: true, ..MatchOptions::new() };
    let matched = file.ancestors().take_while(|path| path.starts_with(&real));
    let mut matched = matched.filter(|path| pattern.matches_path_with(path, options));
    // A folder that matches is walked.
    Some(matched.any(|path| file.strip_prefix(path).is_ok_and(|below| !has_hidden(below))))
}

fn is_wild(part: &Component<'_>) -> bool {
    part.as_os_str().to_str().is_some_and(|name| name.contains(WILDCARDS))
}

fn has_hidden(path: &Path) -> bool {
    path.components().any(|part| is_hidden(Path::new(part.as_os_str())))
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    #[test]
    fn links_are_followed_as_far_as_there_is_something() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().canonicalize().unwrap();
        fs::create_dir(real.join("a")).unwrap();
        symlink("a", real.join("link")).unwrap();
        symlink("nothing", real.join("dangling")).unwrap();
        assert_eq!(real_path(&real.join("link/b/c")).unwrap(), real.join("a/b/c"));
        assert_eq!(real_path(&real.join("link/../b")).unwrap(), real.join("b"));
        assert!(real_path(&real.join("dangling")).is_err());
        assert!(real_path(&real.join("none/../a")).is_err());
    }

    #[cfg(unix)]
    #[test]
    fn absolute_paths_have_no_dots() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().canonicalize().unwrap();
        fs::create_dir_all(real.join("a/b")).unwrap();
        symlink("a/b", real.join("link")).unwrap();
        let absolute = |path: &str| absolute_path(&real.join(path)).unwrap();
        assert_eq!(absolute("a/../x"), real.join("x"));
        assert_eq!(absolute("a/b/../../a/./x"), real.join("a/x"));
        assert_eq!(absolute("link/../x"), real.join("a/x"), "as the system does");
        assert_eq!(absolute("link/x"), real.join("link/x"));
        assert_eq!(absolute("a/.."), real);
        assert!(absolute_path(&real.join("none/../x")).is_err());
    }

    #[test]
    fn inputs_that_would_read_a_file_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::create_dir_all(root.join("a/x")).unwrap();
        symlink("a", root.join("link")).unwrap();
        let reads = |input: &str, file: &str| {
            let inputs = [root.join(input).to_str().unwrap().to_owned()];
            input_that_reads(&inputs, &root.join(file)).is_some()
        };
        for (input, file) in [
            ("a", "a/out/host-00/part.parquet"),
            ("a", "link/out/part.parquet"),
            ("link", "a/out/part.parquet"),
            ("a/*", "a/out/part.parquet"),
            ("a/*/*.parquet", "a/out/part.parquet"),
            ("a/**", "a/out/part.parquet"),
            ("a/**/*.parquet", "a/out/b/part.parquet"),
            ("link/[o]*", "a/out/part.parquet"),
        ] {
            assert!(reads(input, file), "'{input}' reads '{file}'");
        }
        for (input, file) in [
            ("a", "out/part.parquet"),
            ("a", "ab/part.parquet"),
            ("a/x", "a/out/part.parquet"),
            ("a", "a/_out/part.parquet"),
            ("a/*.csv", "a/out/part.parquet"),
            ("a/*/*.csv", "a/out/part.parquet"),
            ("a/*/part.parquet", "a/out/host-00/part.parquet"),
        ] {
            assert!(!reads(input, file), "'{input}' does not read '{file}'");
        }
    }
}
