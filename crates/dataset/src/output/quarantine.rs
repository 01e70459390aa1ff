//! The file of the rows that could not be read: a JSON object on each line, with file, line, reason
//! and text.

use std::io::{BufWriter, Write};

use serde::Serialize;

use super::{publish::Folder, work_file::WorkFile};
use crate::{bad_rows::BadRow, error::OutputError, file_names::quarantine_name, manifest::PlainFileEntry};

/// The quarantine file. The first bad row creates it.
pub(crate) struct Quarantine {
    name: String,
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
    pub(crate) fn new(append: Option<usize>) -> Self {
        Self { name: quarantine_name(append), file: None, rows: 0 }
    }

    /// Adds bad rows.
    pub(crate) fn write(&mut self, folder: &Folder, bad: &[BadRow]) -> Result<(), OutputError> {
        for BadRow { file, line, text, reason } in bad {
            let out = match &mut self.file {
                Some(out) => out,
                None => self.file.insert(BufWriter::new(WorkFile::create(folder, &self.name)?)),
            };
            let line = Line { file, line: *line, reason, text };
            let written =
                serde_json::to_writer(&mut *out, &line).map_err(Into::into).and_then(|()| out.write_all(b"\n"));
            written.map_err(OutputError::io("write", folder.work_path(&self.name)))?;
            self.rows += 1;
        }
        Ok(())
    }

    /// Seals the file in the work folder, if there is one.
    pub(crate) fn finish(self, folder: &Folder) -> Result<Option<PlainFileEntry>, OutputError> {
        let Self { name, file, rows } = self;
        let Some(out) = file else { return Ok(None) };
        let refused = OutputError::io("write", folder.work_path(&name));
        let sealed = out.into_inner().map_err(|error| refused(error.into_error()))?.seal()?;
        Ok(Some(PlainFileEntry { name, rows, bytes: sealed.bytes, checksum: sealed.checksum }))
    }
}
