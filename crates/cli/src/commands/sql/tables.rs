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
    inputs::{InputArgument, InputSource, Inputs},
    notes::say,
    objects::{self, is_url},
    reading,
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
    /// Registers the table. Its path is what all commands read, with `options`.
    pub async fn register(&self, ctx: &SessionContext, inputs: &Inputs, options: &InputOptions) -> Result<()> {
        let table = table_at(&ctx.state(), inputs, &self.path.to_string_lossy(), options).await;
        ctx.register_table(self.name.as_str(), table.with_context(|| format!("table '{}'", self.name))?)?;
        Ok(())
    }
}

/// Lets queries name tables by their paths and URLs, which are read like those of a [`TableSpec`].
pub fn name_by_path(ctx: &SessionContext, inputs: Arc<Inputs>, options: InputOptions) {
    let paths = Arc::new(PathTables { state: ctx.state_weak_ref(), inputs, options });
    let catalogs = Arc::clone(ctx.state().catalog_list());
    ctx.register_catalog_list(Arc::new(DynamicFileCatalog::new(catalogs, paths)));
}

#[derive(Debug)]
struct PathTables {
    state: Weak<RwLock<SessionState>>,
    inputs: Arc<Inputs>,
    options: InputOptions,
}

#[async_trait]
impl UrlTableFactory for PathTables {
    async fn try_new(&self, url: &str) -> datafusion::error::Result<Option<Arc<dyn TableProvider>>> {
        let Some(state) = self.state.upgrade() else { return Ok(None) };
        let state = state.read().clone();
        if !is_input(url, &self.options) {
            return Ok(None);
        }
        let table = table_at(&state, &self.inputs, url, &self.options).await;
        table.map(Some).map_err(|error| DataFusionError::External(error.into()))
    }
}

/// Returns whether a table's name is a path or a URL, which may be missing.
pub fn is_path(name: &str) -> bool {
    is_input(name, &InputOptions::default())
}

fn is_input(name: &str, options: &InputOptions) -> bool {
    if is_url(name) || name == "-" || Path::new(name).exists() || is_glob(name) {
        return true;
    }
    // Wrong options are reported when the table is opened.
    let Ok(given) = InputArgument::parse(name, options) else { return true };
    given.paths.iter().any(|path| Path::new(path).exists() || Format::of_path(Path::new(path)).is_some())
}

fn is_glob(path: &str) -> bool {
    path.contains(['*', '?', '['])
}

/// Returns the table of an input.
///
/// # Errors
/// If there is no such input, or it cannot be read.
async fn table_at(
    state: &SessionState,
    inputs: &Inputs,
    input: &str,
    options: &InputOptions,
) -> Result<Arc<dyn TableProvider>> {
    table_of(state, inputs, &[input.to_owned()], options).await
}

/// Returns the table of several inputs.
///
/// # Errors
/// If there is no such input, they cannot be read, or have different columns.
pub async fn table_of(
    state: &SessionState,
    inputs: &Inputs,
    names: &[String],
    options: &InputOptions,
) -> Result<Arc<dyn TableProvider>> {
    let runtime = state.runtime_env();
    let (mut paths, mut all) = (vec![], options.clone().with_page_index(true));
    for name in names {
        match inputs.find(name, &all, Some(runtime)).await? {
            InputSource::Parquet(url) if names.len() == 1 => return Ok(objects::table(state, &url).await?),
            InputSource::Parquet(url) => {
                bail!("'{url}' is Parquet in a store, and cannot be read together with others")
            }
            InputSource::Paths(more, options) => {
                paths.extend(more);
                all = *options;
            }
        }
    }
    if let Some(path) = paths.iter().find(|path| !is_glob(path) && *path != "-" && !Path::new(path).exists()) {
        bail!("no file or folder '{path}': check the path");
    }
    let all = reading_options(&all, state.config())?;
    let dataset = spawn_blocking(move || Dataset::open(&paths, &all)).await.context("the reader has panicked")??;
    reading::note_surprises(&dataset);
    GivenTypes::found(state.config(), &dataset.schema);
    let on_skipped = |path: &str, rows| say(format_args!("skipped {} of '{path}'", counted(rows, "bad row")));
    Ok(Arc::new(DatasetTable::new(dataset, state.config()).on_skipped(on_skipped)))
}
