//! Copies objects to a folder.

use std::{
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
};

use annulus_dataset::OLD_MANIFEST_NAME;
use annulus_terminal::progress;
use anyhow::{Context, Result, bail};
use datafusion::{
    datasource::listing::ListingTableUrl,
    prelude::{SessionConfig, SessionContext},
};
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};
use tokio::task::block_in_place;

use crate::stores;

/// The objects that are copied at a time.
const AT_ONCE: usize = 8;

/// Copies the objects that `url` names to the new folder `into`: an object, or all
/// below a prefix that ends in `/`. Returns the path to read in its place.
///
/// # Errors
/// If there are none, the store refuses, or the disk is full.
pub async fn fetch(url: &str, into: &Path) -> Result<PathBuf> {
    let copied = async {
        let table = ListingTableUrl::parse(url)?;
        let store = stores::open(table.get_url(), &Default::default())?;
        let objects = list(&table, &*store).await?;
        copy(&table, &*store, &objects, into).await
    };
    copied.await.with_context(|| format!("cannot read '{url}'"))
}

/// Returns the objects that `url` names, those with rows first.
///
/// # Errors
/// If there are none with rows, or the store refuses.
pub async fn list(url: &ListingTableUrl, store: &dyn ObjectStore) -> Result<Vec<ObjectMeta>> {
    let mut config = SessionConfig::new();
    // A join's files lie in a folder of each task.
    config.options_mut().execution.listing_table_ignore_subdirectory = false;
    let state = SessionContext::new_with_config(config).state();
    let listed = url.list_all_files(&state, store, "").await?;
    let listed: Vec<_> = listed.try_collect().await?;
    let (mut objects, others): (Vec<_>, Vec<_>) = listed.into_iter().partition(|object| has_rows(url, object));
    if objects.is_empty() {
        bail!("there is no such object, and none below it: check the URL; a folder's ends in /");
    }
    objects.extend(others);
    Ok(objects)
}

/// Returns whether an object below `url` has rows: it is not empty, not hidden, and no manifest.
pub(super) fn has_rows(url: &ListingTableUrl, object: &ObjectMeta) -> bool {
    let mut parts = url.strip_prefix(&object.location).into_iter().flatten();
    let is_manifest = url.is_collection() && object.location.filename() == Some(OLD_MANIFEST_NAME);
    object.size > 0 && !is_manifest && !parts.any(|part| part.starts_with(['.', '_']))
}

/// Copies objects below `url` to the new folder `into`. Returns the path to read in its place.
///
/// # Errors
/// If the store refuses, or the disk is full.
pub async fn copy(
    url: &ListingTableUrl,
    store: &dyn ObjectStore,
    objects: &[ObjectMeta],
    into: &Path,
) -> Result<PathBuf> {
    fs::create_dir(into).with_context(|| format!("cannot create '{}'", into.display()))?;
    let bar = progress::bytes(objects.iter().map(|object| object.size).sum());
    bar.set_message(format!("copied of '{url}'"));
    let is_one = !url.is_collection();
    let mut copies = vec![];
    for object in objects {
        let below = object.location.prefix_match(url.prefix()).filter(|_| !is_one);
        let name = match below {
            Some(parts) => parts.map(|part| part.as_ref().to_owned()).collect::<Vec<_>>().join("/"),
            None => object.location.filename().unwrap_or_default().to_owned(),
        };
        let (bar, path) = (&bar, into.join(&name));
        let copy = async move {
            let saved = save(store, object, &path, |bytes| bar.inc(bytes)).await;
            saved.with_context(|| format!("'{}'", object.location))?;
            Ok::<_, anyhow::Error>(path)
        };
        copies.push(copy.boxed());
    }
    let paths: Vec<PathBuf> = stream::iter(copies).buffer_unordered(AT_ONCE).try_collect().await?;
    bar.finish_and_clear();
    Ok(match (is_one, paths.into_iter().next()) {
        (true, Some(path)) => path,
        _ => into.to_owned(),
    })
}

async fn save(store: &dyn ObjectStore, object: &ObjectMeta, path: &Path, done: impl Fn(u64)) -> Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut file = File::create(path)?;
    let mut chunks = store.get(&object.location).await?.into_stream();
    while let Some(chunk) = chunks.next().await.transpose()? {
        block_in_place(|| file.write_all(&chunk))?;
        done(chunk.len() as u64);
    }
    Ok(())
}
