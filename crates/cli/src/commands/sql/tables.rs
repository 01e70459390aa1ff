//! Tables from files, folders and globs, read as by all commands.

use std::{
    path::{Path, PathBuf},
    str::FromStr,
    sync::{Arc, Weak},
};

use annulus_datafusion::{DatasetTable, reading_options};
use annulus_dataset::{Dataset, Format, InputOptions};
use annulus_terminal::units::counted;
use anyhow::{Context, Result, bail};
use async_trait::async_trait;
use datafusion::{
    catalog::{DynamicFileCatalog, TableProvider, UrlTableFactory},
    error::DataFusionError,
    execution::SessionState,
    prelude::SessionContext,
};
use parking_lot::RwLock;
use tokio::task::spawn_blocking;

use super::given_types::GivenTypes;
use crate::{
    objects::{self, is_url},
    reading::note_mixed,
};

/// A table's name and the path of its rows, written `NAME=PATH`.
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
            _ => Err(format!("invalid table '{text}': expected NAME=PATH")),
        }
    }
}

impl TableSpec {
    /// Registers the table. Its path is a file, a folder or a glob, read with `options`.
    pub async fn register(&self, ctx: &SessionContext, options: &InputOptions) -> Result<()> {
        let table = self.open(ctx, options).await.with_context(|| format!("table '{}'", self.name))?;
        ctx.register_table(self.name.as_str(), table)?;
        Ok(())
    }

    async fn open(&self, ctx: &SessionContext, options: &InputOptions) -> Result<Arc<dyn TableProvider>> {
        let path = self.path.to_string_lossy();
        if is_url(&path) {
            bail!("'{path}' is not a local file: use CREATE EXTERNAL TABLE ... LOCATION '{path}'");
        }
        table_at(&ctx.state(), &path, options).await
    }
}

/// Lets queries name tables by their paths. Local files are read like those of a [`TableSpec`],
/// URLs by DataFusion.
pub fn name_by_path(ctx: &SessionContext, options: InputOptions) {
    let paths = Arc::new(PathTables { state: ctx.state_weak_ref(), options });
    let catalogs = Arc::clone(ctx.state().catalog_list());
    ctx.register_catalog_list(Arc::new(DynamicFileCatalog::new(catalogs, paths)));
}

#[derive(Debug)]
struct PathTables {
    state: Weak<RwLock<SessionState>>,
    options: InputOptions,
}

#[async_trait]
impl UrlTableFactory for PathTables {
    async fn try_new(&self, url: &str) -> datafusion::error::Result<Option<Arc<dyn TableProvider>>> {
        let Some(state) = self.state.upgrade() else { return Ok(None) };
        let state = state.read().clone();
        if is_url(url) {
            let table = objects::table(&state, url).await;
            return table.map(Some).map_err(|error| error.context(format!("cannot read '{url}'")));
        }
        if !is_local(url) {
            return Ok(None);
        }
        let table = table_at(&state, url, &self.options).await;
        table.map(Some).map_err(|error| DataFusionError::External(error.into()))
    }
}

/// Returns whether a table's name is a URL, or the path of a local file.
pub fn is_path(name: &str) -> bool {
    is_url(name) || is_local(name)
}

/// Returns whether a table's name is the path of a local file, which may be missing.
fn is_local(name: &str) -> bool {
    let path = Path::new(name);
    !is_url(name) && (path.exists() || is_glob(name) || Format::of_path(path).is_some())
}

fn is_glob(path: &str) -> bool {
    path.contains(['*', '?', '['])
}

/// Returns the table of the files at `path`.
async fn table_at(state: &SessionState, path: &str, options: &InputOptions) -> Result<Arc<dyn TableProvider>> {
    if !is_glob(path) && path != "-" && !Path::new(path).exists() {
        bail!("no file or folder '{path}': check the path");
    }
    let (inputs, options) = ([path.to_owned()], reading_options(options, state.config())?);
    let dataset =
        spawn_blocking(move || Dataset::open(&inputs, &options)).await.context("the reader has panicked")??;
    note_mixed(&dataset.mixed);
    GivenTypes::found(state.config(), &dataset.schema);
    let on_skipped = |path: &str, rows| eprintln!("skipped {} of '{path}'", counted(rows, "bad row"));
    Ok(Arc::new(DatasetTable::new(dataset, state.config()).on_skipped(on_skipped)))
}
