//! Reads small files below a folder that looks like `/`.

use std::{fs, io, path::Path, str::FromStr};

/// The length at which the text of a file is cut in a message.
const SHOWN_CHARS: usize = 40;

/// The files below a root folder, and those that could not be understood.
pub(crate) struct Files<'a> {
    root: &'a Path,
    /// The name and the content of the first such file, and the number of them.
    garbage: Option<(String, usize)>,
}

impl<'a> Files<'a> {
    pub(crate) fn new(root: &'a Path) -> Self {
        Self { root, garbage: None }
    }

    /// Returns the text of the file at the absolute `path`, without white space at its ends, or
    /// `None` if the file is missing. A file that cannot be read gives `None`, and a note.
    pub(crate) fn text(&mut self, path: &str) -> Option<String> {
        match fs::read_to_string(self.root.join(path.trim_start_matches('/'))) {
            Ok(text) => Some(text.trim().to_owned()),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                self.note(path, "holds bytes that are not text");
                None
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => None,
            Err(error) => {
                self.note(path, &format!("cannot be read ({error})"));
                None
            }
        }
    }

    /// Returns the value in the file at `path`, or `None` if the file is missing. A file that holds
    /// something else gives `None`, and a note.
    pub(crate) fn value<T: FromStr>(&mut self, path: &str) -> Option<T> {
        let text = self.text(path)?;
        self.parsed(path, &text)
    }

    /// Returns the value in `text`, which is a part of the file at `path`. Text that is
    /// something else gives `None`, and a note.
    pub(crate) fn parsed<T: FromStr>(&mut self, path: &str, text: &str) -> Option<T> {
        let value = text.parse().ok();
        if value.is_none() {
            let shown: String = text.chars().take(SHOWN_CHARS).collect();
            self.note(path, &format!("holds '{}'", shown.escape_debug()));
        }
        value
    }

    fn note(&mut self, path: &str, what: &str) {
        let (_, count) = self.garbage.get_or_insert_with(|| (format!("'{path}' {what}"), 0));
        *count += 1;
    }

    /// Returns one line about the files that could not be understood. `None` if there are none.
    pub(crate) fn garbage(self) -> Option<String> {
        let (first, count) = self.garbage?;
        Some(match count {
            1 => format!("a file could not be understood: {first}"),
            _ => format!("{count} files could not be understood; the first, {first}"),
        })
    }
}
