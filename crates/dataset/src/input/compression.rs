//! Text files that are compressed as a whole.

use std::{
    fs::File,
    io::{self, BufReader, Read},
    path::Path,
};

use flate2::read::MultiGzDecoder;

/// The compression of a whole text file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Compression {
    /// `.gz`.
    Gzip,
    /// `.bz2`.
    Bzip2,
    /// `.xz`.
    Xz,
    /// `.zst`.
    Zstd,
}

impl Compression {
    /// Splits a file name at the extension that names its compression: `a.csv.gz` into `a.csv` and
    /// [`Compression::Gzip`].
    pub fn split(path: &Path) -> (&Path, Option<Self>) {
        let compression = match extension(path).as_str() {
            "gz" => Self::Gzip,
            "bz2" => Self::Bzip2,
            "xz" => Self::Xz,
            "zst" => Self::Zstd,
            _ => return (path, None),
        };
        (Path::new(path.file_stem().unwrap_or_default()), Some(compression))
    }

    /// Opens a file to read its decompressed content, which may be several compressed streams one
    /// after another.
    pub(super) fn open(self, path: &str) -> io::Result<Box<dyn Read + Send>> {
        let file = BufReader::new(File::open(path)?);
        Ok(match self {
            Self::Gzip => Box::new(MultiGzDecoder::new(file)),
            Self::Bzip2 => Box::new(bzip2::read::MultiBzDecoder::new(file)),
            Self::Xz => Box::new(liblzma::read::XzDecoder::new_multi_decoder(file)),
            Self::Zstd => Box::new(zstd::Decoder::with_buffer(file)?),
        })
    }
}

/// Returns the extension of a file name in lower case; empty if it has none.
pub(super) fn extension(path: &Path) -> String {
    path.extension().and_then(|extension| extension.to_str()).unwrap_or_default().to_ascii_lowercase()
}
