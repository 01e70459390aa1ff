//! The table `hits`: generated, or given as files.

use std::{
    fs,
    io::{self, ErrorKind},
    path::{Path, PathBuf},
};

use annulus_hits::{Hits, schema};
use anyhow::{Context, Result, bail};
use arrow::datatypes::DataType;
use datafusion::prelude::{ParquetReadOptions, SessionContext};

use crate::comparison::generated::{self, TableFile, Tables};

const NAME: &str = "hits";
/// The remedy for files that are not the table.
const REMEDY: &str = "expected ClickBench's hits.parquet, or a folder of its parts";
/// The number of rows of a file, each of which one thread writes.
const FILE_ROWS: u64 = 250_000;
/// The number of rows that are generated at once.
const BATCH_ROWS: u64 = 8_192;
/// The number of row groups that a table should have, so that 64 scans can share it, and the fewest
/// and the most rows of a group.
const GROUPS: u64 = 64;
const GROUP_ROWS: (u64, u64) = (8_192, 65_536);

/// Returns the folder below `cache` with the table of `rows` rows for `seed`, and generates it if
/// it is missing. Dropping the future stops the work and removes unfinished files.
pub async fn ensure(cache: &Path, rows: u64, seed: u64) -> Result<PathBuf> {
    let hits = Hits::new(rows, seed);
    let file = |number: u64| TableFile {
        table: NAME,
        number: number as usize + 1,
        rows: Box::new(move || Box::new(hits.batches(number * FILE_ROWS..(number + 1) * FILE_ROWS, BATCH_ROWS))),
    };
    let tables = Tables {
        names: vec![NAME],
        files: (0..rows.div_ceil(FILE_ROWS)).map(file).collect(),
        rows,
        group_rows: (rows / GROUPS).clamp(GROUP_ROWS.0, GROUP_ROWS.1) as usize,
        flag: "--cache",
    };
    let folder = format!("v{}-rows{rows}-seed{seed}", annulus_hits::VERSION);
    Ok(generated::ensure(&cache.join(folder), tables).await?.join(NAME))
}

/// Registers the files in `path` as the table `hits`.
///
/// # Errors
/// If `path` does not exist or has no Parquet file, or if a column is missing or has a type that
/// the queries cannot use.
pub async fn register(ctx: &SessionContext, path: &Path) -> Result<()> {
    let cannot_read = || format!("cannot read the table '{}'", path.display());
    let is_folder = match fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => bail!("no file or folder '{}': {REMEDY}", path.display()),
        found => found.with_context(cannot_read)?.is_dir(),
    };
    if is_folder && !has_parquet(path).with_context(cannot_read)? {
        bail!("no .parquet file in '{}': {REMEDY}", path.display());
    }
    let text = path.to_str().with_context(|| format!("'{}' is not Unicode", path.display()))?;
    let extension = path.extension().and_then(|extension| extension.to_str()).map(|text| format!(".{text}"));
    let options = ParquetReadOptions {
        // A file may have any name.
        file_extension: if is_folder { ".parquet" } else { extension.as_deref().unwrap_or_default() },
        ..ParquetReadOptions::default()
    };
    ctx.register_parquet("hits_raw", text, options).await.with_context(cannot_read)?;
    let table = ctx.table("hits_raw").await?;
    check_columns(path, table.schema().as_arrow())?;
    let date = table.schema().as_arrow().field_with_name("EventDate")?;
    // As in ClickBench's script for DataFusion: the files have dates as numbers of days.
    let view = match date.data_type() {
        DataType::Date32 | DataType::Date64 => "SELECT * FROM hits_raw",
        _ => {
            "SELECT * EXCEPT (\"EventDate\"), CAST(CAST(\"EventDate\" AS INTEGER) AS DATE) AS \"EventDate\" \
             FROM hits_raw"
        }
    };
    ctx.sql(&format!("CREATE VIEW hits AS {view}")).await?;
    Ok(())
}

/// Returns whether there is a Parquet file in `folder` or below.
fn has_parquet(folder: &Path) -> io::Result<bool> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let is_found =
            if path.is_dir() { has_parquet(&path)? } else { path.extension().is_some_and(|e| e == "parquet") };
        if is_found {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Checks that a table has the benchmark's columns, of kinds that the queries can use.
fn check_columns(path: &Path, found: &arrow::datatypes::Schema) -> Result<()> {
    let path = path.display();
    for field in schema().fields() {
        let name = field.name();
        let Ok(column) = found.field_with_name(name) else {
            bail!("the table '{path}' has no column '{name}': {REMEDY}");
        };
        let data_type = column.data_type();
        let (fits, kind) = match field.data_type() {
            DataType::Utf8 => (is_text(data_type), "text"),
            DataType::UInt16 => (data_type.is_integer() || is_time(data_type), "a date, or days in an integer"),
            _ if name.ends_with("Time") => (data_type.is_integer() || is_time(data_type), "a time, or an integer"),
            _ => (data_type.is_integer(), "an integer"),
        };
        if !fits {
            bail!("column '{name}' of the table '{path}' is {data_type}: expected {kind}");
        }
    }
    Ok(())
}

fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

fn is_time(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Date32 | DataType::Date64 | DataType::Timestamp(..))
}
