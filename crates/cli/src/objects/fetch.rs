//! Copies objects to a folder.

use std::{
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
};

use annulus_terminal::progress;
use anyhow::{Context, Result, bail};
use datafusion::{datasource::listing::ListingTableUrl, prelude::SessionContext};
use futures::{StreamExt, TryStreamExt, stream};
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
    copy(url, into).await.with_context(|| format!("cannot read '{url}'"))
}

async fn copy(url: &str, into: &Path) -> Result<PathBuf> {
    let table = ListingTableUrl::parse(url)?;
    let store = stores::open(table.get_url(), &Default::default())?;
    let state = SessionContext::new().state();
    let listed = table.list_all_files(&state, &store, "").await?;
    let objects: Vec<ObjectMeta> = listed.try_collect().await?;
    if objects.is_empty() {
        bail!("there is no such object, and none below it: check the URL; a folder's ends in /");
    }
    fs::create_dir(into).with_context(|| format!("cannot create '{}'", into.display()))?;
    let bar = progress::bytes(objects.iter().map(|object| object.size).sum());
    bar.set_message(format!("copied of '{url}'"));
    let is_one = !table.is_collection();
    let copies = objects.iter().map(|object| {
        let below = object.location.prefix_match(table.prefix()).filter(|_| !is_one);
        let name = match below {
            Some(parts) => parts.map(|part| part.as_ref().to_owned()).collect::<Vec<_>>().join("/"),
            None => object.location.filename().unwrap_or_default().to_owned(),
        };
        let (store, bar) = (&store, &bar);
        async move {
            let path = into.join(&name);
            save(store, object, &path, |bytes| bar.inc(bytes))
                .await
                .with_context(|| format!("'{}'", object.location))?;
            Ok::<_, anyhow::Error>(path)
        }
    });
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
