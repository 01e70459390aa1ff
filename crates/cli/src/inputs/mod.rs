//! The inputs of commands: local files as they are, and copies of pipes and of objects of stores.
//!
//! ```text
//! as typed -> argument.rs: options behind `?`, `~`, `{a,b}` -> pipe? spool.rs: a copy on disk
//!                                                        -> URL?  objects/: a copy, or Parquet where it is
//! ```
//! Copies lie in the folder for spilled rows, which is removed when the command ends.

mod argument;
mod spool;

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

use annulus_dataset::{Format, InputOptions, LocalCopy};
use anyhow::{Context, Result};
use datafusion::{datasource::listing::ListingTableUrl, execution::runtime_env::RuntimeEnv};
use object_store::{ObjectMeta, ObjectStore};
use tokio::sync::Mutex;

pub use argument::{InputArgument, with_options};

use crate::{
    objects::{self, is_url},
    stores,
};

/// The copies that a command has made. A pipe is copied once, since it can be read once; an object
/// again if it has changed.
#[derive(Debug)]
pub struct Inputs {
    folder: PathBuf,
    next: AtomicUsize,
    copies: Mutex<HashMap<String, CopyOf>>,
}

#[derive(Clone, Debug)]
struct CopyOf {
    path: String,
    /// The objects that were copied.
    objects: Vec<ObjectMeta>,
}

/// What to read for an input.
pub enum InputSource {
    /// Local paths.
    Paths(Vec<String>, Box<InputOptions>),
    /// Parquet in a store, which is read where it is.
    Parquet(String),
}

impl Inputs {
    /// Puts copies into `folder`, which must be there when the first one is made.
    pub fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), next: AtomicUsize::new(0), copies: Mutex::default() }
    }

    /// Finds what to read for an input as it was typed, with `options` for all inputs of the
    /// command. The stores of URLs are those of `runtime`, if there is one.
    ///
    /// # Errors
    /// If an option behind `?` is wrong, there is no such object, or it cannot be copied.
    pub async fn find(&self, input: &str, options: &InputOptions, runtime: Option<&RuntimeEnv>) -> Result<InputSource> {
        let InputArgument { paths, mut options } = InputArgument::parse(input, options)?;
        let [path] = &paths[..] else { return Ok(InputSource::Paths(paths, Box::new(options))) };
        if is_url(path) {
            let url = ListingTableUrl::parse(path).with_context(|| format!("cannot read '{path}'"))?;
            let store = match runtime {
                Some(runtime) => runtime.object_store(&url)?,
                None => stores::open(url.get_url(), &HashMap::new())?,
            };
            let objects = objects::list(&url, &*store).await.with_context(|| format!("cannot read '{path}'"))?;
            let format = options.format.or_else(|| Format::of_path(Path::new(objects[0].location.as_ref())));
            if format == Some(Format::Parquet) {
                return Ok(InputSource::Parquet(path.clone()));
            }
            let copy = self.copy_of_objects(path, &url, &*store, objects).await;
            let copy = copy.with_context(|| format!("cannot read '{path}'"))?;
            return Ok(named(copy, path, options));
        }
        if spool::is_pipe(path) && !(path == "-" && spool::is_arrow_stream(options.format).await) {
            let copy = self.copy_of_pipe(path, &options).await?;
            let name = if path == "-" { "standard input" } else { path };
            options.format = None;
            return Ok(named(copy, name, options));
        }
        Ok(InputSource::Paths(paths, Box::new(options)))
    }

    async fn copy_of_objects(
        &self,
        name: &str,
        url: &ListingTableUrl,
        store: &dyn ObjectStore,
        objects: Vec<ObjectMeta>,
    ) -> Result<String> {
        let mut copies = self.copies.lock().await;
        if let Some(copy) = copies.get(name).filter(|copy| is_unchanged(&copy.objects, &objects)) {
            return Ok(copy.path.clone());
        }
        let path = objects::copy(url, store, &objects, &self.new_path()).await?;
        let path = spool::with_extension(&path).await?;
        copies.insert(name.to_owned(), CopyOf { path: path.clone(), objects });
        Ok(path)
    }

    async fn copy_of_pipe(&self, name: &str, options: &InputOptions) -> Result<String> {
        let mut copies = self.copies.lock().await;
        if let Some(copy) = copies.get(name) {
            return Ok(copy.path.clone());
        }
        let path = spool::copy(name, &self.new_path(), options.format).await?;
        copies.insert(name.to_owned(), CopyOf { path: path.clone(), objects: vec![] });
        Ok(path)
    }

    fn new_path(&self) -> PathBuf {
        self.folder.join(format!("input-{}", self.next.fetch_add(1, Relaxed)))
    }
}

/// Returns the copy at `path`, which messages call `name`.
fn named(path: String, name: &str, options: InputOptions) -> InputSource {
    let copy = LocalCopy { path: path.clone(), name: name.to_owned() };
    InputSource::Paths(vec![path], Box::new(options.with_copy(copy)))
}

/// Returns whether objects are as they were. A store that says neither when an object was changed
/// nor which version it is does not prove that.
fn is_unchanged(before: &[ObjectMeta], now: &[ObjectMeta]) -> bool {
    let is_dated = |object: &ObjectMeta| object.e_tag.is_some() || object.last_modified.timestamp() != 0;
    before == now && now.iter().all(is_dated)
}
