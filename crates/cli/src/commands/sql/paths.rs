//! Paths in statements that DataFusion opens itself, as URLs: it takes `?`, `*` and `[` in the names of files
//! for wildcards, and follows no links before `..`.

use std::{
    fs,
    path::{self, Path, PathBuf},
};

use annulus_dataset::{absolute_path, input_root};
use anyhow::{Context, Result};
use url::Url;

use crate::objects::is_url;

/// Returns the URL of the local file or folder that `COPY ... TO` writes; `None` for a URL, or a folder that
/// does not exist.
pub fn target_url(target: &str) -> Option<String> {
    if is_url(target) { None } else { local_url(target) }
}

/// Checks that a local file or folder can be written. The engine's own error does not say why it cannot.
///
/// # Errors
/// If the folder, or the one in which it would be made, is read-only.
pub fn check_target(target: &str) -> Result<()> {
    if is_url(target) {
        return Ok(());
    }
    let path = path::absolute(target)?;
    let folder = path.ancestors().skip(usize::from(!target.ends_with('/'))).find(|folder| folder.is_dir());
    let created = folder.map_or(Ok(()), |folder| tempfile::tempfile_in(folder).map(drop));
    created.with_context(|| format!("cannot write '{target}'"))
}

/// Returns whether a target of `COPY ... TO` is a local folder with files.
pub fn has_files(target: &str) -> bool {
    !is_url(target) && fs::read_dir(target).is_ok_and(|mut entries| entries.next().is_some())
}

/// Returns where the files of `LOCATION` are: the URL of a file or folder, or a glob with an absolute path.
/// `None` for a URL, and for what does not exist.
pub fn location(text: &str) -> Option<String> {
    if is_url(text) {
        return None;
    }
    if Path::new(text).exists() {
        return local_url(text);
    }
    let root = input_root(text);
    let wild: PathBuf = Path::new(text).components().skip(root.components().count()).collect();
    if wild.as_os_str().is_empty() {
        return None;
    }
    let root = if root.as_os_str().is_empty() { Path::new(".") } else { &root };
    absolute_path(root).ok()?.join(wild).into_os_string().into_string().ok()
}

fn local_url(text: &str) -> Option<String> {
    let path = absolute_path(Path::new(text)).ok()?;
    let is_folder = path.is_dir() || text.ends_with('/');
    let url = if is_folder { Url::from_directory_path(path) } else { Url::from_file_path(path) };
    url.ok().map(String::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_encoded_and_dots_resolved() {
        let folder = tempfile::tempdir().expect("a folder");
        let real = folder.path().canonicalize().expect("a path");
        let shown = |name: &str| format!("{}/{name}", real.display());
        fs::create_dir(real.join("sub")).expect("a folder");
        fs::write(real.join("a?b #1%20.csv"), "").expect("a file");
        let url = |name: &str| Some(format!("file://{}/{name}", real.display()));
        assert_eq!(location(&shown("sub/../a?b #1%20.csv")), url("a%3Fb%20%231%2520.csv"));
        assert_eq!(location(&shown("sub")), url("sub/"));
        assert_eq!(location(&shown("sub/../*.csv")), Some(shown("*.csv")));
        assert_eq!(target_url(&shown("sub/../new?.parquet")), url("new%3F.parquet"));
        assert_eq!(target_url(&shown("new/")), url("new/"));
        assert_eq!((location("s3://b/x"), target_url("s3://b/x")), (None, None));
    }
}
