//! Tables as Parquet files, generated once and then reused.

use std::{
    fs::{self, File},
    io::{BufWriter, Write},
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
    thread::{self, JoinHandle},
};

use annulus_sync::{CancelToken, Cancelled};
use annulus_terminal::progress;
use anyhow::{Context, Result, anyhow, bail};
use arrow::array::RecordBatchReader;
use datafusion::parquet::{arrow::ArrowWriter, basic::Compression, file::properties::WriterProperties};
use indicatif::ProgressBar;
use tempfile::TempDir;
use tokio::sync::oneshot;

/// Tables to generate. Each is a folder of files.
pub struct Tables {
    pub names: Vec<&'static str>,
    /// The files, largest first, so that all threads end at about the same time.
    pub files: Vec<TableFile>,
    /// The approximate number of rows of all tables, for the progress.
    pub rows: u64,
    /// The most rows of a row group.
    pub group_rows: usize,
    /// The option that names another folder, for errors.
    pub flag: &'static str,
}

/// A file of a table.
pub struct TableFile {
    pub table: &'static str,
    /// The number of the file, from 1.
    pub number: usize,
    /// Generates its rows.
    pub rows: Box<dyn Fn() -> Box<dyn RecordBatchReader> + Send + Sync>,
}

/// Returns `folder` with the tables, and generates them if it is missing. Dropping the future stops
/// the work and removes unfinished files.
pub async fn ensure(folder: &Path, tables: Tables) -> Result<PathBuf> {
    if folder.exists() {
        check_complete(folder, &tables)?;
        return Ok(folder.to_owned());
    }
    let (sender, made) = oneshot::channel();
    let target = folder.to_owned();
    let _maker = Maker::start(move |cancel| {
        // The receiver is gone if the command was interrupted.
        sender.send(make(&target, &tables, cancel)).ok();
    })?;
    made.await.context("the generator of the tables panicked")??;
    Ok(folder.to_owned())
}

/// A thread that is stopped and joined when this is dropped. It removes its unfinished files.
struct Maker {
    cancel: CancelToken,
    thread: Option<JoinHandle<()>>,
}

impl Maker {
    fn start(work: impl FnOnce(&CancelToken) + Send + 'static) -> Result<Self> {
        let cancel = CancelToken::new();
        let token = cancel.clone();
        let thread = thread::Builder::new().name("tables".to_owned()).spawn(move || work(&token))?;
        Ok(Self { cancel, thread: Some(thread) })
    }
}

impl Drop for Maker {
    fn drop(&mut self) {
        self.cancel.cancel();
        if let Some(thread) = self.thread.take() {
            // The thread has reported its panic, and the missing answer shows it.
            thread.join().ok();
        }
    }
}

fn check_complete(folder: &Path, tables: &Tables) -> Result<()> {
    match tables.names.iter().find(|table| !folder.join(table).is_dir()) {
        Some(table) => {
            bail!("folder '{}' has no table {table}: delete the folder to generate it again", folder.display())
        }
        None => Ok(()),
    }
}

/// Generates all tables under a temporary name, then renames the folder.
fn make(folder: &Path, tables: &Tables, cancel: &CancelToken) -> Result<()> {
    let root = folder.parent().with_context(|| format!("'{}' has no parent folder", folder.display()))?;
    let cannot_write =
        || format!("cannot write tables in '{}'; name another folder with {}", root.display(), tables.flag);
    fs::create_dir_all(root).with_context(cannot_write)?;
    let unfinished = tempfile::Builder::new().prefix(".making-").tempdir_in(root).with_context(cannot_write)?;
    for table in &tables.names {
        fs::create_dir(unfinished.path().join(table))?;
    }
    let bar = progress::bar(tables.rows, "generating tables");
    write_files(unfinished.path(), tables, &bar, cancel).with_context(cannot_write)?;
    bar.finish_and_clear();
    publish(unfinished, folder, tables).with_context(cannot_write)
}

/// Writes the files with one thread per core. The first error stops all threads.
fn write_files(folder: &Path, tables: &Tables, bar: &ProgressBar, cancel: &CancelToken) -> Result<()> {
    let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get).min(tables.files.len());
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(file) = tables.files.get(next.fetch_add(1, Ordering::Relaxed)) {
            let written = write_file(folder, file, tables.group_rows, bar, cancel);
            if written.is_err() {
                cancel.cancel();
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

fn write_file(
    folder: &Path,
    file: &TableFile,
    group_rows: usize,
    bar: &ProgressBar,
    cancel: &CancelToken,
) -> Result<()> {
    let name = file.table;
    let path = folder.join(name).join(format!("{name}-{:05}.parquet", file.number));
    let target = File::create(&path).with_context(|| format!("cannot create '{}'", path.display()))?;
    let rows = (file.rows)();
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_max_row_group_row_count(Some(group_rows))
        .build();
    let mut writer = ArrowWriter::try_new(BufWriter::new(target), rows.schema(), Some(properties))?;
    for batch in rows {
        cancel.check()?;
        let batch = batch?;
        writer.write(&batch)?;
        bar.inc(batch.num_rows() as u64);
    }
    writer.into_inner()?.flush().with_context(|| format!("cannot write '{}'", path.display()))
}

/// Renames the finished folder, unless another process has already made the same tables.
fn publish(unfinished: TempDir, folder: &Path, tables: &Tables) -> Result<()> {
    match fs::rename(unfinished.path(), folder) {
        Ok(()) => {
            let _renamed = unfinished.keep();
            allow_others_to_read(folder)
        }
        Err(_) if folder.is_dir() => check_complete(folder, tables),
        Err(error) => Err(error.into()),
    }
}

/// Makes the folder readable for others, because temporary folders are private.
fn allow_others_to_read(folder: &Path) -> Result<()> {
    #[cfg(unix)]
    fs::set_permissions(folder, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    Ok(())
}
