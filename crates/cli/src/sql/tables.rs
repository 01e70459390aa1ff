//! Tables from files and folders.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    str::FromStr,
    sync::Arc,
};

use annulus_dataset::output::MANIFEST_NAME;
use anyhow::{Context, Result, anyhow, bail};
use datafusion::{
    datasource::{
        file_format::{
            FileFormat as DataFusionFormat, arrow::ArrowFormat, avro::AvroFormat, csv::CsvFormat,
            file_compression_type::FileCompressionType, json::JsonFormat, parquet::ParquetFormat,
        },
        listing::ListingOptions,
    },
    prelude::SessionContext,
};
use url::Url;

use super::format::{FileFormat, FileKind, READABLE};

/// A table's name and where its rows are: `name=path`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableSpec {
    pub name: String,
    pub path: PathBuf,
}

impl FromStr for TableSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((name, path)) if !name.is_empty() && !path.is_empty() => {
                Ok(Self { name: name.to_owned(), path: path.into() })
            }
            _ => Err(format!("'{text}' is no table; write NAME=PATH")),
        }
    }
}

impl TableSpec {
    /// Registers the table. The file must exist, or the folder must hold files of one known format.
    pub async fn register(&self, ctx: &SessionContext) -> Result<()> {
        self.try_register(ctx).await.with_context(|| format!("table '{}'", self.name))
    }

    async fn try_register(&self, ctx: &SessionContext) -> Result<()> {
        let shown = self.path.display();
        if self.path.to_string_lossy().contains("://") {
            bail!("'{shown}' is no local file; use CREATE EXTERNAL TABLE ... LOCATION '{shown}'");
        }
        let path = self.path.canonicalize().with_context(|| format!("no file or folder '{shown}'; check the path"))?;
        let (sample, url) = if path.is_dir() {
            (sample_of_folder(&path, &self.path)?, Url::from_directory_path(&path))
        } else {
            (path.clone(), Url::from_file_path(&path))
        };
        let url = url.map_err(|()| anyhow!("'{shown}' is no absolute path"))?;
        let format = FileFormat::of(&sample)
            .with_context(|| format!("'{shown}' has no extension for a format; rename it to end in {READABLE}"))?;
        let options = ListingOptions::new(reader(&format, &sample)?).with_file_extension(&format.suffix);
        ctx.register_listing_table(self.name.as_str(), url.as_str(), options, None, None)
            .await
            .with_context(|| format!("cannot read '{shown}'"))
    }
}

/// A data file of `folder`, all of whose data files must have the same format. `shown` is the folder's name in errors.
fn sample_of_folder(folder: &Path, shown: &Path) -> Result<PathBuf> {
    let mut files = Vec::new();
    collect_files(folder, &mut files).with_context(|| format!("cannot list '{}'", shown.display()))?;
    files.sort();
    // What a run of ours wrote beside its rows.
    files.retain(|file| !file.ends_with(MANIFEST_NAME));
    let mut known = files.into_iter().filter_map(|path| FileFormat::of(&path).map(|format| (path, format)));
    let Some((sample, format)) = known.next() else {
        bail!("folder '{}' holds no file that ends in {READABLE}", shown.display());
    };
    if let Some((other, _)) = known.find(|(_, other)| other.suffix != format.suffix) {
        bail!(
            "folder '{}' mixes formats: '{}' and '{}'; name one kind of files, or separate them",
            shown.display(),
            sample.display(),
            other.display()
        );
    }
    Ok(sample)
}

/// Adds the files below `folder`, except hidden ones, to `files`.
fn collect_files(folder: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(['.', '_']) {
            continue;
        }
        if entry.path().is_dir() {
            collect_files(&entry.path(), files)?;
        } else {
            files.push(entry.path());
        }
    }
    Ok(())
}

/// DataFusion's reader for `format`. A `sample` tells apart the two shapes of JSON.
fn reader(format: &FileFormat, sample: &Path) -> Result<Arc<dyn DataFusionFormat>> {
    let compression = format.compression;
    Ok(match format.kind {
        FileKind::Parquet => Arc::new(ParquetFormat::default()),
        FileKind::Csv => Arc::new(CsvFormat::default().with_file_compression_type(compression)),
        FileKind::Tsv => Arc::new(CsvFormat::default().with_delimiter(b'\t').with_file_compression_type(compression)),
        FileKind::Json => {
            let lines = compression != FileCompressionType::UNCOMPRESSED || !begins_with_array(sample)?;
            Arc::new(JsonFormat::default().with_newline_delimited(lines).with_file_compression_type(compression))
        }
        FileKind::Arrow => Arc::new(ArrowFormat),
        FileKind::Avro => Arc::new(AvroFormat),
    })
}

/// Whether the first character of a file that is no space is `[`.
fn begins_with_array(path: &Path) -> Result<bool> {
    let file = fs::File::open(path).with_context(|| format!("cannot read '{}'", path.display()))?;
    let mut reader = BufReader::new(file);
    loop {
        let buffer = reader.fill_buf()?;
        if let Some(byte) = buffer.iter().find(|byte| !byte.is_ascii_whitespace()) {
            return Ok(*byte == b'[');
        }
        let read = buffer.len();
        if read == 0 {
            return Ok(false);
        }
        reader.consume(read);
    }
}
