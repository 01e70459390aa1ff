//! The names of the files in a dataset's folder, except those of its rows.
//!
//! ```text
//! DIR/.annulus/manifest         the files of a finished dataset
//! DIR/.annulus/journal.jsonl    what an unfinished run has finished
//! DIR/quarantine.jsonl          the rows that could not be read
//! DIR/host-00/                  the dataset of a member of a collection
//! ```

use std::path::{Path, PathBuf};

use crate::folder_name::is_value_folder;

/// The folder of everything that is not a part of the dataset. Readers of folders skip names with a
/// dot.
pub(crate) const HIDDEN: &str = ".annulus";

/// The name of the manifest below its folder. Its folder is hidden, so pyarrow, Spark and DataFusion
/// do not take it for data. It has no extension, so globs such as `*/*.json` do not match it.
pub const MANIFEST_NAME: &str = ".annulus/manifest";
/// The manifest's name in folders that older versions wrote. It is read if the folder has no
/// [`MANIFEST_NAME`].
pub const OLD_MANIFEST_NAME: &str = "manifest.json";

/// The journal's name in the hidden folder.
pub(crate) const JOURNAL_NAME: &str = "journal.jsonl";

/// Returns the path of the journal of an output folder.
pub(crate) fn journal_path(dir: &Path) -> PathBuf {
    dir.join(HIDDEN).join(JOURNAL_NAME)
}

/// The name of the file of the rows that could not be read. For an append it is
/// `quarantine.append-1.jsonl`, with the append's number.
pub const QUARANTINE_NAME: &str = "quarantine.jsonl";

/// Returns the name of the quarantine file of a first run, or of an append.
pub(crate) fn quarantine_name(append: Option<usize>) -> String {
    append.map_or_else(|| QUARANTINE_NAME.to_owned(), |append| format!("quarantine.append-{append}.jsonl"))
}

/// Returns whether a name is that of a quarantine file.
pub(crate) fn is_quarantine(name: &str) -> bool {
    let number = name.strip_prefix("quarantine.append-").and_then(|rest| rest.strip_suffix(".jsonl"));
    name == QUARANTINE_NAME || number.is_some_and(|number| number.parse::<usize>().is_ok())
}

/// Returns the name of the folder of a collection's member.
pub(crate) fn member_name(member: usize) -> String {
    format!("host-{member:02}")
}

/// Returns whether a name is that of a member's folder. Other folders may have names like
/// `host-backup`.
pub(crate) fn is_member_name(name: &str) -> bool {
    name.strip_prefix("host-").and_then(|number| number.parse().ok()).is_some_and(|member| name == member_name(member))
}

/// Returns an error unless all names are plain, as a run gives them. They may be in one plain
/// folder or in folders of values. Names that are read from a folder must not lead out of it.
pub(crate) fn checked_names<'a>(mut names: impl Iterator<Item = &'a str>) -> Result<(), String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    let is_part = |part: &str| !part.is_empty() && !part.starts_with('.') && part.chars().all(is_plain);
    let is_ours = |name: &str| match name.rsplit_once('/') {
        None => is_part(name),
        Some((folders, file)) => {
            is_part(file) && (is_part(folders) && !folders.contains('/') || folders.split('/').all(is_value_folder))
        }
    };
    names
        .find(|name| !is_ours(name))
        .map_or(Ok(()), |name| Err(format!("'{name}' is not a valid name of a dataset's file")))
}
