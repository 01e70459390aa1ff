//! The benchmark's tables as Parquet files, generated once for each scale factor and then reused.

use std::{
    fs::{self, File},
    io::{BufWriter, Write},
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
};

use annulus_terminal::progress;
use anyhow::{Context, Result, anyhow, bail};
use arrow::array::RecordBatchReader;
use datafusion::{
    parquet::{arrow::ArrowWriter, basic::Compression, file::properties::WriterProperties},
    prelude::{ParquetReadOptions, SessionContext},
};
use indicatif::ProgressBar;
use tempfile::TempDir;
use tokio::sync::oneshot;
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator, PartSuppGenerator,
    RegionGenerator, SupplierGenerator,
};
use tpchgen_arrow::{
    CustomerArrow, LineItemArrow, NationArrow, OrderArrow, PartArrow, PartSuppArrow, RegionArrow, SupplierArrow,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Table {
    LineItem,
    Orders,
    PartSupp,
    Part,
    Customer,
    Supplier,
    Nation,
    Region,
}

/// A file of a table: part `number` of `count`, counted from 1.
#[derive(Clone, Copy, Debug)]
struct Part {
    table: Table,
    number: i32,
    count: i32,
}

/// The tables, largest first, so that all threads end at about the same time.
const TABLES: [Table; 8] = [
    Table::LineItem,
    Table::Orders,
    Table::PartSupp,
    Table::Part,
    Table::Customer,
    Table::Supplier,
    Table::Nation,
    Table::Region,
];

/// The approximate number of rows of a file.
const FILE_ROWS: f64 = 1_000_000.0;
/// The number of rows of a row group: small enough for 64 scans to share the larger tables at scale
/// factor 1.
const ROW_GROUP_ROWS: usize = 1 << 17;

/// Returns the folder below `root` with the tables of `scale`, and generates them if they are
/// missing. Dropping the future stops the work and removes unfinished files.
pub async fn ensure(root: &Path, scale: f64) -> Result<PathBuf> {
    let folder = root.join(format!("sf{scale}"));
    if folder.exists() {
        check_complete(&folder)?;
        return Ok(folder);
    }
    let (sender, made) = oneshot::channel();
    let target = folder.clone();
    let _maker = Maker::start(move |cancelled| {
        // The receiver is gone if the command was interrupted.
        sender.send(make(&target, scale, cancelled)).ok();
    })?;
    made.await.context("the generator of the tables panicked")??;
    Ok(folder)
}

/// Registers the tables in `folder`.
pub async fn register(ctx: &SessionContext, folder: &Path) -> Result<()> {
    for table in TABLES {
        let path = folder.join(table.name());
        let path = path.to_str().with_context(|| format!("'{}' is not Unicode", path.display()))?;
        ctx.register_parquet(table.name(), path, ParquetReadOptions::default())
            .await
            .with_context(|| format!("cannot read the table '{path}'"))?;
    }
    Ok(())
}

/// A thread that is stopped and joined when this is dropped. It removes its unfinished files.
struct Maker {
    cancelled: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Maker {
    fn start(work: impl FnOnce(&AtomicBool) + Send + 'static) -> Result<Self> {
        let cancelled = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&cancelled);
        let thread = thread::Builder::new().name("tables".to_owned()).spawn(move || work(&flag))?;
        Ok(Self { cancelled, thread: Some(thread) })
    }
}

impl Drop for Maker {
    fn drop(&mut self) {
        self.cancelled.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // The thread has reported its panic, and the missing answer shows it.
            thread.join().ok();
        }
    }
}

fn check_complete(folder: &Path) -> Result<()> {
    match TABLES.iter().find(|table| !folder.join(table.name()).is_dir()) {
        Some(table) => {
            bail!("folder '{}' has no table {}: delete the folder to generate it again", folder.display(), table.name())
        }
        None => Ok(()),
    }
}

/// Generates all tables under a temporary name, then renames the folder.
fn make(folder: &Path, scale: f64, cancelled: &AtomicBool) -> Result<()> {
    let root = folder.parent().with_context(|| format!("'{}' has no parent folder", folder.display()))?;
    let cannot_write = || format!("cannot write tables in '{}'; name another folder with --data", root.display());
    fs::create_dir_all(root).with_context(cannot_write)?;
    let unfinished = tempfile::Builder::new().prefix(".making-").tempdir_in(root).with_context(cannot_write)?;
    let mut parts = Vec::new();
    for table in TABLES {
        fs::create_dir(unfinished.path().join(table.name()))?;
        let count = (table.rows(scale) / FILE_ROWS).ceil().max(1.0) as i32;
        parts.extend((1..=count).map(|number| Part { table, number, count }));
    }
    let bar = progress::bar(TABLES.iter().map(|table| table.rows(scale) as u64).sum(), "generating tables");
    write_parts(unfinished.path(), &parts, scale, &bar, cancelled).with_context(cannot_write)?;
    bar.finish_and_clear();
    publish(unfinished, folder).with_context(cannot_write)
}

/// Writes `parts` with one thread per core. The first error stops all threads.
fn write_parts(folder: &Path, parts: &[Part], scale: f64, bar: &ProgressBar, cancelled: &AtomicBool) -> Result<()> {
    let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get).min(parts.len());
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(part) = parts.get(next.fetch_add(1, Ordering::Relaxed)) {
            let written = write_part(folder, *part, scale, bar, cancelled);
            if written.is_err() {
                cancelled.store(true, Ordering::Relaxed);
                return written;
            }
        }
        Ok(())
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let results = workers.into_iter().map(|worker| worker.join().map_err(|_| anyhow!("a generator panicked"))?);
        // All threads are joined first. Then the cause is reported, not the cancellations that it
        // led to.
        let results: Vec<Result<()>> = results.collect();
        let (cancellations, causes): (Vec<_>, Vec<_>) =
            results.into_iter().filter_map(Result::err).partition(|error| error.is::<Cancelled>());
        causes.into_iter().chain(cancellations).next().map_or(Ok(()), Err)
    })
}

/// The error of a thread that stopped because another one failed or the command was cancelled.
#[derive(Debug)]
struct Cancelled;

impl std::fmt::Display for Cancelled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("cancelled")
    }
}

impl std::error::Error for Cancelled {}

fn write_part(folder: &Path, part: Part, scale: f64, bar: &ProgressBar, cancelled: &AtomicBool) -> Result<()> {
    let name = part.table.name();
    let path = folder.join(name).join(format!("{name}-{:05}.parquet", part.number));
    let file = File::create(&path).with_context(|| format!("cannot create '{}'", path.display()))?;
    let rows = part.rows(scale);
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
        .build();
    let mut writer = ArrowWriter::try_new(BufWriter::new(file), rows.schema(), Some(properties))?;
    for batch in rows {
        if cancelled.load(Ordering::Relaxed) {
            return Err(Cancelled.into());
        }
        let batch = batch?;
        writer.write(&batch)?;
        bar.inc(batch.num_rows() as u64);
    }
    writer.into_inner()?.flush().with_context(|| format!("cannot write '{}'", path.display()))
}

/// Renames the finished folder, unless another process has already made the same tables.
fn publish(unfinished: TempDir, folder: &Path) -> Result<()> {
    match fs::rename(unfinished.path(), folder) {
        Ok(()) => {
            let _renamed = unfinished.keep();
            allow_others_to_read(folder)
        }
        Err(_) if folder.is_dir() => check_complete(folder),
        Err(error) => Err(error.into()),
    }
}

/// Makes the folder readable for others, because temporary folders are private.
fn allow_others_to_read(folder: &Path) -> Result<()> {
    #[cfg(unix)]
    fs::set_permissions(folder, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    Ok(())
}

impl Table {
    fn name(self) -> &'static str {
        match self {
            Self::LineItem => "lineitem",
            Self::Orders => "orders",
            Self::PartSupp => "partsupp",
            Self::Part => "part",
            Self::Customer => "customer",
            Self::Supplier => "supplier",
            Self::Nation => "nation",
            Self::Region => "region",
        }
    }

    /// Returns the number of rows at a scale factor. For lineitem it is an estimate, as an order
    /// has 1 to 7 lines.
    fn rows(self, scale: f64) -> f64 {
        match self {
            Self::LineItem => 6_001_215.0 * scale,
            Self::Orders => 1_500_000.0 * scale,
            Self::PartSupp => 800_000.0 * scale,
            Self::Part => 200_000.0 * scale,
            Self::Customer => 150_000.0 * scale,
            Self::Supplier => 10_000.0 * scale,
            Self::Nation => 25.0,
            Self::Region => 5.0,
        }
    }
}

impl Part {
    /// Generates the rows.
    fn rows(self, scale: f64) -> Box<dyn RecordBatchReader> {
        let Self { table, number, count } = self;
        match table {
            Table::LineItem => Box::new(LineItemArrow::new(LineItemGenerator::new(scale, number, count))),
            Table::Orders => Box::new(OrderArrow::new(OrderGenerator::new(scale, number, count))),
            Table::PartSupp => Box::new(PartSuppArrow::new(PartSuppGenerator::new(scale, number, count))),
            Table::Part => Box::new(PartArrow::new(PartGenerator::new(scale, number, count))),
            Table::Customer => Box::new(CustomerArrow::new(CustomerGenerator::new(scale, number, count))),
            Table::Supplier => Box::new(SupplierArrow::new(SupplierGenerator::new(scale, number, count))),
            Table::Nation => Box::new(NationArrow::new(NationGenerator::new(scale, number, count))),
            Table::Region => Box::new(RegionArrow::new(RegionGenerator::new(scale, number, count))),
        }
    }
}
