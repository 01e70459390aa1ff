//! Formats that files show by their first bytes.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

use super::{Format, compression::Compression};

/// The bytes that are looked at.
const HEAD_BYTES: u64 = 4 << 10;

/// Returns the extension for the file at `path`, whose name does not tell its format: that of
/// `format`, or of what the file's first bytes show, and that of its compression. A text that is no
/// JSON is taken for CSV.
///
/// # Errors
/// If the file cannot be read.
pub fn extension_of(path: &Path, format: Option<Format>) -> io::Result<String> {
    let shown = path.to_string_lossy();
    let head = head(&mut File::open(path)?)?;
    let Some((compression, extension)) = compression_of(&head) else {
        return Ok(format.unwrap_or_else(|| format_of(&head)).name().to_owned());
    };
    let format = match format {
        Some(format) => format,
        None => format_of(&self::head(&mut compression.open(&shown)?)?),
    };
    Ok(format!("{}.{extension}", format.name()))
}

fn head(reader: &mut dyn Read) -> io::Result<Vec<u8>> {
    let mut head = vec![];
    reader.take(HEAD_BYTES).read_to_end(&mut head)?;
    Ok(head)
}

fn compression_of(head: &[u8]) -> Option<(Compression, &'static str)> {
    Some(match head {
        [0x1f, 0x8b, ..] => (Compression::Gzip, "gz"),
        [b'B', b'Z', b'h', b'1'..=b'9', ..] => (Compression::Bzip2, "bz2"),
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => (Compression::Xz, "xz"),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => (Compression::Zstd, "zst"),
        _ => return None,
    })
}

fn format_of(head: &[u8]) -> Format {
    match head {
        [b'P', b'A', b'R', b'1', ..] => Format::Parquet,
        [b'A', b'R', b'R', b'O', b'W', b'1', ..] | [0xff, 0xff, 0xff, 0xff, ..] => Format::Ipc,
        [b'O', b'b', b'j', 1, ..] => Format::Avro,
        _ => {
            let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii_start();
            let inner = text.strip_prefix(b"[").map(<[u8]>::trim_ascii_start);
            // A list of objects, or an object.
            let is_json = inner.unwrap_or(text).starts_with(b"{") || inner == Some(b"]");
            if is_json { Format::Json } else { Format::Csv }
        }
    }
}
