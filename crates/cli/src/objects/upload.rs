//! Uploads a dataset, whose objects appear together when all of their parts are there.

use std::{
    collections::HashSet,
    fs::{self, File},
    io::Read,
    path::Path,
    sync::Arc,
};

use annulus_dataset::{ExistingPolicy, MANIFEST_NAME, Manifest, OLD_MANIFEST_NAME};
use annulus_terminal::progress;
use anyhow::{Context, Result, bail};
use futures::{TryStreamExt, stream::FuturesUnordered};
use indicatif::ProgressBar;
use object_store::{MultipartUpload, ObjectStore, ObjectStoreExt, path::Path as ObjectPath};
use tokio::{sync::Mutex, task::block_in_place};

use super::place;
use crate::interrupt::Signals;

/// The size of a part. Smaller objects are sent as a whole, when those of several parts are complete.
const PART_BYTES: u64 = 8 << 20;
/// The parts that are sent at a time.
const AT_ONCE: usize = 4;

/// The place of a dataset in an object store.
pub struct Upload {
    url: String,
    store: Arc<dyn ObjectStore>,
    prefix: ObjectPath,
    /// The names of the dataset that is there, and is to be replaced.
    old: Option<Vec<ObjectPath>>,
    sent: Mutex<UploadedObjects>,
}

/// What was sent.
#[derive(Default)]
struct UploadedObjects {
    /// Objects whose parts are there, and which do not exist.
    open: Vec<(ObjectPath, Box<dyn MultipartUpload>)>,
    /// Objects that exist, or may.
    complete: Vec<ObjectPath>,
}

impl Upload {
    /// Opens the store, and checks that nothing is at `url`, or a dataset that may be replaced.
    ///
    /// # Errors
    /// If something is there, or the store refuses.
    pub async fn prepare(url: &str, existing: ExistingPolicy) -> Result<Self> {
        let (store, prefix) = place(url).with_context(|| format!("invalid --output '{url}'"))?;
        let mut upload = Self { url: url.to_owned(), store, prefix, old: None, sent: Mutex::default() };
        let there = upload.objects().await.with_context(|| format!("cannot write to '{url}'"))?;
        if there.is_empty() {
            return Ok(upload);
        }
        let manifests = [MANIFEST_NAME, OLD_MANIFEST_NAME].map(|name| upload.below(name));
        let Some(manifest) = manifests.into_iter().find(|manifest| there.contains(manifest)) else {
            bail!("'{url}' has objects that are not of a dataset: choose another place, or remove them");
        };
        if existing != ExistingPolicy::Overwrite {
            bail!("'{url}' has a dataset: choose another place, or replace it (--overwrite)");
        }
        let text = upload.store.get(&manifest).await?.bytes().await?;
        let manifest: Manifest = serde_json::from_slice(&text).with_context(|| format!("'{url}'"))?;
        let own: HashSet<_> = manifest.file_names().map(|name| upload.below(name)).collect();
        let is_own = |object: &ObjectPath| own.contains(object) || is_manifest(object.as_ref());
        if let Some(other) = there.iter().find(|object| !is_own(object)) {
            bail!("'{other}' is not of the dataset in '{url}': choose another place, or remove it");
        }
        upload.old = Some(there);
        Ok(upload)
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    async fn objects(&self) -> Result<Vec<ObjectPath>> {
        let objects = self.store.list(Some(&self.prefix)).map_ok(|object| object.location);
        Ok(objects.try_collect().await?)
    }

    fn below(&self, name: &str) -> ObjectPath {
        let joined = || name.split('/').fold(self.prefix.clone(), |path, part| path.join(part));
        // Joining would escape the escapes in the names of folders.
        match self.prefix.as_ref() {
            "" => ObjectPath::parse(name),
            prefix => ObjectPath::parse(format!("{prefix}/{name}")),
        }
        .unwrap_or_else(|_| joined())
    }

    /// Sends the dataset in `folder`. No object of several parts exists until all of them are sent; the manifest
    /// comes last.
    ///
    /// # Errors
    /// If the store refuses. Then nothing is left, neither of a dataset that was to be replaced.
    async fn send(&self, folder: &Path) -> Result<()> {
        let sent = self.send_all(folder).await;
        if sent.is_err() {
            self.abandon().await;
        }
        sent.with_context(|| format!("cannot write to '{}'", self.url))
    }

    /// Sends the dataset like [`send`](Self::send), unless a signal arrives first, whose number is returned.
    ///
    /// # Errors
    /// As there.
    pub async fn send_until_interrupted(&self, folder: &Path, signals: &mut Signals) -> Result<Option<u8>> {
        let signal = tokio::select! {
            biased;
            signal = signals.next() => signal,
            sent = self.send(folder) => return sent.map(|()| None),
        };
        eprintln!("cancelling: what was uploaded is being removed; press Ctrl-C again to end at once");
        tokio::select! {
            () = self.abandon() => eprintln!("cancelled: the partial output is removed"),
            _ = signals.next() => eprintln!("ended at once: some of the objects may be left in '{}'", self.url),
        }
        Ok(Some(signal))
    }

    /// Sends the dataset like [`send`](Self::send), unless `stop` comes first. Returns whether it was sent.
    ///
    /// # Errors
    /// As there.
    pub async fn send_unless(&self, folder: &Path, stop: impl Future<Output = ()>) -> Result<bool> {
        tokio::select! {
            biased;
            () = stop => {
                self.abandon().await;
                Ok(false)
            }
            sent = self.send(folder) => sent.map(|()| true),
        }
    }

    async fn send_all(&self, folder: &Path) -> Result<()> {
        let mut names = Vec::new();
        add_names(folder, "", &mut names)?;
        // The manifest of all is the last one.
        names.sort_by_key(|(name, _)| (is_manifest(name), name == MANIFEST_NAME, name.clone()));
        let bar = progress::bytes(names.iter().map(|(_, bytes)| bytes).sum());
        bar.set_message("uploaded");
        for (name, _) in names.iter().filter(|(_, bytes)| *bytes > PART_BYTES) {
            self.send_parts(&folder.join(name), self.below(name), &bar).await.with_context(|| format!("'{name}'"))?;
        }
        let new: HashSet<_> = names.iter().map(|(name, _)| self.below(name)).collect();
        // Without its manifest, the old dataset is none.
        let mut old: Vec<_> = self.old.iter().flatten().collect();
        old.sort_by_key(|object| !is_manifest(object.as_ref()));
        for object in old.into_iter().filter(|object| !new.contains(object) || is_manifest(object.as_ref())) {
            self.store.delete(object).await?;
        }
        let mut sent = self.sent.lock().await;
        while let Some((object, mut upload)) = sent.open.pop() {
            // First, since it may exist though the answer does not come.
            sent.complete.push(object);
            if let Err(error) = upload.complete().await {
                upload.abort().await.ok();
                return Err(error.into());
            }
        }
        for (name, bytes) in names.iter().filter(|(_, bytes)| *bytes <= PART_BYTES) {
            let content = block_in_place(|| fs::read(folder.join(name)))?;
            sent.complete.push(self.below(name));
            self.store.put(&self.below(name), content.into()).await?;
            bar.inc(*bytes);
        }
        bar.finish_and_clear();
        Ok(())
    }

    /// Sends all parts of an object, which does not exist yet.
    async fn send_parts(&self, path: &Path, object: ObjectPath, bar: &ProgressBar) -> Result<()> {
        let mut file = File::open(path)?;
        let mut sent = self.sent.lock().await;
        let upload = self.store.put_multipart(&object).await?;
        sent.open.push((object, upload));
        let Some((_, upload)) = sent.open.last_mut() else { return Ok(()) };
        let mut parts = FuturesUnordered::new();
        loop {
            let mut part = Vec::new();
            let bytes = block_in_place(|| file.by_ref().take(PART_BYTES).read_to_end(&mut part))? as u64;
            if bytes == 0 {
                break;
            }
            let sending = upload.put_part(part.into());
            parts.push(async move { sending.await.map(|()| bytes) });
            if parts.len() == AT_ONCE
                && let Some(bytes) = parts.try_next().await?
            {
                bar.inc(bytes);
            }
        }
        while let Some(bytes) = parts.try_next().await? {
            bar.inc(bytes);
        }
        Ok(())
    }

    /// Removes what was sent. What a store refuses now, it keeps: some remove unfinished uploads by themselves.
    async fn abandon(&self) {
        let mut sent = self.sent.lock().await;
        for (_, mut upload) in sent.open.drain(..) {
            upload.abort().await.ok();
        }
        // The manifest first.
        while let Some(object) = sent.complete.pop() {
            self.store.delete(&object).await.ok();
        }
    }
}

/// Returns whether an object or a file is the manifest of a dataset or of a host's part of it.
fn is_manifest(name: &str) -> bool {
    [MANIFEST_NAME, OLD_MANIFEST_NAME]
        .into_iter()
        .any(|end| name.strip_suffix(end).is_some_and(|folder| folder.is_empty() || folder.ends_with('/')))
}

/// Adds the names and sizes of the files below a folder. Of hidden ones, only manifests are added.
fn add_names(folder: &Path, prefix: &str, names: &mut Vec<(String, u64)>) -> Result<()> {
    if let Ok(manifest) = fs::metadata(folder.join(MANIFEST_NAME)) {
        names.push((format!("{prefix}{MANIFEST_NAME}"), manifest.len()));
    }
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().into_string().ok().with_context(|| format!("'{}'", entry.path().display()))?;
        if name.starts_with('.') {
            continue;
        }
        let (name, metadata) = (format!("{prefix}{name}"), entry.metadata()?);
        match metadata.is_dir() {
            true => add_names(&entry.path(), &format!("{name}/"), names)?,
            false => names.push((name, metadata.len())),
        }
    }
    Ok(())
}
