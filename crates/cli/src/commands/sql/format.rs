//! File formats by extension.

use std::path::Path;

use datafusion::datasource::file_format::file_compression_type::FileCompressionType;

/// The kinds of files with rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    Parquet,
    Csv,
    Tsv,
    Json,
    Arrow,
    Avro,
}

/// The kind of a file and its compression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileFormat {
    pub kind: FileKind,
    pub compression: FileCompressionType,
}

impl FileFormat {
    /// Returns the format for the extension of `path`, if it is known.
    pub fn from_path(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?;
        let (stem, last) = name.rsplit_once('.')?;
        let Some(compression) = compression(last) else {
            let kind = kind(last)?;
            return Some(Self { kind, compression: FileCompressionType::UNCOMPRESSED });
        };
        let (_, inner) = stem.rsplit_once('.')?;
        // The other formats compress inside the file.
        let kind = kind(inner).filter(|kind| matches!(kind, FileKind::Csv | FileKind::Tsv | FileKind::Json))?;
        Some(Self { kind, compression })
    }
}

fn kind(extension: &str) -> Option<FileKind> {
    match extension.to_ascii_lowercase().as_str() {
        "parquet" | "pq" => Some(FileKind::Parquet),
        "csv" => Some(FileKind::Csv),
        "tsv" => Some(FileKind::Tsv),
        "json" | "ndjson" | "jsonl" => Some(FileKind::Json),
        "arrow" | "ipc" | "feather" => Some(FileKind::Arrow),
        "avro" => Some(FileKind::Avro),
        _ => None,
    }
}

fn compression(extension: &str) -> Option<FileCompressionType> {
    match extension.to_ascii_lowercase().as_str() {
        "gz" => Some(FileCompressionType::GZIP),
        "bz2" => Some(FileCompressionType::BZIP2),
        "xz" => Some(FileCompressionType::XZ),
        "zst" => Some(FileCompressionType::ZSTD),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extensions_tell_the_format() {
        let of = |name: &str| FileFormat::from_path(Path::new(name)).map(|format| (format.kind, format.compression));
        assert_eq!(of("a/b.parquet"), Some((FileKind::Parquet, FileCompressionType::UNCOMPRESSED)));
        assert_eq!(of("B.CSV"), Some((FileKind::Csv, FileCompressionType::UNCOMPRESSED)));
        assert_eq!(of("b.2024.json.gz"), Some((FileKind::Json, FileCompressionType::GZIP)));
        assert_eq!(of("b.parquet.gz"), None);
        assert_eq!(of("b.gz"), None);
        assert_eq!(of("csv"), None);
        assert_eq!(of("b.txt"), None);
    }
}
