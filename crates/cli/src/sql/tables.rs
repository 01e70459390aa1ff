//! Tables from files and folders.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    str::FromStr,
    sync::{Arc, Weak},
};

use annulus_dataset::output::{MANIFEST_NAME, QUARANTINE_NAME, is_unfinished};
use anyhow::{Context, Result, anyhow, bail};
use async_trait::async_trait;
use datafusion::{
    catalog::{DynamicFileCatalog, TableProvider, UrlTableFactory},
    datasource::{
        dynamic_file::DynamicListTableFactory,
        file_format::{
            FileFormat as DataFusionFormat, arrow::ArrowFormat, avro::AvroFormat, csv::CsvFormat,
            file_compression_type::FileCompressionType, json::JsonFormat, parquet::ParquetFormat,
        },
        listing::{ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl},
    },
    error::DataFusionError,
    execution::SessionState,
    prelude::SessionContext,
};
use parking_lot::RwLock;
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
        let Some(table) = table_at(&ctx.state(), &self.path).await? else {
            if self.path.is_dir() {
                bail!("folder '{shown}' holds no file that ends in {READABLE}");
            }
            bail!("'{shown}' has no extension for a format; rename it to end in {READABLE}");
        };
        ctx.register_table(self.name.as_str(), table)?;
        Ok(())
    }
}

/// Lets queries name tables by their paths. What is on this machine is read as a [`TableSpec`]'s, what else a URL names as
/// DataFusion does.
pub fn name_by_path(ctx: &SessionContext) {
    let urls = DynamicListTableFactory::default();
    urls.session_store().with_state(ctx.state_weak_ref());
    let paths = Arc::new(PathTables { state: ctx.state_weak_ref(), urls });
    let catalogs = Arc::clone(ctx.state().catalog_list());
    ctx.register_catalog_list(Arc::new(DynamicFileCatalog::new(catalogs, paths)));
}

#[derive(Debug)]
struct PathTables {
    state: Weak<RwLock<SessionState>>,
    urls: DynamicListTableFactory,
}

#[async_trait]
impl UrlTableFactory for PathTables {
    async fn try_new(&self, url: &str) -> datafusion::error::Result<Option<Arc<dyn TableProvider>>> {
        let path = Path::new(url);
        let Some(state) = self.state.upgrade().filter(|_| path.exists()) else { return self.urls.try_new(url).await };
        let state = state.read().clone();
        table_at(&state, path).await.map_err(|error| DataFusionError::External(error.into()))
    }
}

/// The rows of the file at `path`, or of all files below that folder, which must have one format. A folder's names `column=value`
/// are columns, too. `None` if no name tells a format.
async fn table_at(state: &SessionState, path: &Path) -> Result<Option<Arc<dyn TableProvider>>> {
    let shown = path.display();
    let full = path.canonicalize().with_context(|| format!("no file or folder '{shown}'; check the path"))?;
    let (sample, url) = if full.is_dir() {
        (sample_of_folder(&full, path)?, Url::from_directory_path(&full))
    } else {
        (FileFormat::of(&full).map(|format| (full.clone(), format)), Url::from_file_path(&full))
    };
    let url = url.map_err(|()| anyhow!("'{shown}' is no absolute path"))?;
    let Some((sample, format)) = sample else { return Ok(None) };
    let options = ListingOptions::new(reader(&format, &sample)?).with_file_extension(&format.suffix);
    let config = ListingTableConfig::new(ListingTableUrl::parse(url)?).with_listing_options(options);
    let table =
        async { ListingTable::try_new(config.infer_partitions_from_path(state).await?.infer_schema(state).await?) };
    let table = table.await.with_context(|| format!("cannot read '{shown}'"))?;
    Ok(Some(Arc::new(table.with_cache(state.runtime_env().cache_manager.get_file_statistic_cache()))))
}

/// A data file of `folder`, if there is one, and the format of all of them. `shown` is the folder's name in errors.
fn sample_of_folder(folder: &Path, shown: &Path) -> Result<Option<(PathBuf, FileFormat)>> {
    let mut files = Vec::new();
    collect_files(folder, &mut files).with_context(|| format!("cannot read folder '{}'", shown.display()))?;
    files.sort();
    // What a run of ours wrote beside its rows.
    files.retain(|file| {
        let is_dataset = || file.with_file_name(MANIFEST_NAME).exists();
        !(file.ends_with(MANIFEST_NAME) || file.ends_with(QUARANTINE_NAME) && is_dataset())
    });
    let mut known = files.into_iter().filter_map(|path| FileFormat::of(&path).map(|format| (path, format)));
    let Some((sample, format)) = known.next() else { return Ok(None) };
    if let Some((other, _)) = known.find(|(_, other)| other.suffix != format.suffix) {
        bail!(
            "folder '{}' mixes formats: '{}' and '{}'; name one kind of files, or separate them",
            shown.display(),
            sample.display(),
            other.display()
        );
    }
    Ok(Some((sample, format)))
}

/// Adds the files below `folder`, except hidden ones, to `files`. A dataset must be finished.
fn collect_files(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    if is_unfinished(folder) {
        let shown = folder.display();
        bail!("the run that writes '{shown}' has not finished; finish it (--resume), or name the files that are there");
    }
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
