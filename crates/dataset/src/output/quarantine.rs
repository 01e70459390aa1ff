//! The file of the rows that could not be read: a JSON object a line, with file, line, reason and
//! text.

use std::io::{BufWriter, Write};

use serde::Serialize;

use super::{OutputError, manifest::PlainFileEntry, publish::Folder, work_file::WorkFile};
use crate::input::BadRow;

/// Its name in the folder.
pub const QUARANTINE_NAME: &str = "quarantine.jsonl";

/// Begun with the first bad row, so that there is no file without one.
#[derive(Default)]
pub(crate) struct Quarantine {
    file: Option<BufWriter<WorkFile>>,
    rows: u64,
}

#[derive(Serialize)]
struct Line<'a> {
    file: &'a str,
    line: u64,
    reason: &'a str,
    text: &'a str,
}

impl Quarantine {
    /// Adds rows.
    pub(crate) fn write(&mut self, folder: &Folder, bad: &[BadRow]) -> Result<(), OutputError> {
        for BadRow { file, line, text, reason } in bad {
            let out = match &mut self.file {
                Some(out) => out,
                None => self.file.insert(BufWriter::new(WorkFile::create(folder, QUARANTINE_NAME)?)),
            };
            let line = Line { file, line: *line, reason, text };
            let written =
                serde_json::to_writer(&mut *out, &line).map_err(Into::into).and_then(|()| out.write_all(b"\n"));
            written.map_err(OutputError::io("write", folder.work_path(QUARANTINE_NAME)))?;
            self.rows += 1;
        }
        Ok(())
    }

    /// Ends the file, which is on disk in the work folder then.
    pub(crate) fn finish(self, folder: &Folder) -> Result<Option<PlainFileEntry>, OutputError> {
        let Some(out) = self.file else { return Ok(None) };
        let refused = OutputError::io("write", folder.work_path(QUARANTINE_NAME));
        let sealed = out.into_inner().map_err(|error| refused(error.into_error()))?.seal()?;
        let (name, rows) = (QUARANTINE_NAME.to_owned(), self.rows);
        Ok(Some(PlainFileEntry { name, rows, bytes: sealed.bytes, checksum: sealed.checksum }))
    }
}
