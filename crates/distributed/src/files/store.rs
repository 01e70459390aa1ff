//! Object stores that a worker only reads.

use std::{fmt, ops::Range, sync::Arc};

use async_trait::async_trait;
use futures::{StreamExt, TryStreamExt, stream, stream::BoxStream};
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, local::LocalFileSystem, path::Path,
};

use super::{access::OUTSIDE, roots::Roots};

/// An object store that never writes. It reads from another store, or local files below [`Roots`].
#[derive(Debug)]
pub struct ReadOnlyStore {
    store: Arc<dyn ObjectStore>,
    roots: Option<Roots>,
}

impl ReadOnlyStore {
    /// Returns a store that reads from `store`.
    pub fn new(store: Arc<dyn ObjectStore>) -> Self {
        Self { store, roots: None }
    }

    /// Returns a store that reads the files of this machine below `roots`.
    pub fn local(roots: Roots) -> Self {
        Self { store: Arc::new(LocalFileSystem::new()), roots: Some(roots) }
    }

    /// Checks that an object may be read. The error does not tell whether a refused file exists.
    fn check(&self, location: &Path) -> Result<()> {
        let Some(roots) = &self.roots else { return Ok(()) };
        let path = LocalFileSystem::new().path_to_filesystem(location)?;
        if roots.allow(&path) && path.exists() { Ok(()) } else { Err(refused(location)) }
    }
}

impl fmt::Display for ReadOnlyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReadOnlyStore({})", self.store)
    }
}

fn refused(location: &Path) -> Error {
    let path = format!("/{location}");
    let source = format!("the worker refuses '{path}': it {OUTSIDE}");
    Error::PermissionDenied { path, source: source.into() }
}

fn read_only(location: &Path) -> Error {
    let path = format!("/{location}");
    let source = format!("the worker does not write '{path}': workers only read");
    Error::PermissionDenied { path, source: source.into() }
}

#[async_trait]
impl ObjectStore for ReadOnlyStore {
    async fn put_opts(&self, location: &Path, _: PutPayload, _: PutOptions) -> Result<PutResult> {
        Err(read_only(location))
    }

    async fn put_multipart_opts(&self, location: &Path, _: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        Err(read_only(location))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.check(location)?;
        self.store.get_opts(location, options).await
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<bytes::Bytes>> {
        self.check(location)?;
        self.store.get_ranges(location, ranges).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        locations.and_then(|location| async move { Err(read_only(&location)) }).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        match self.check(prefix.unwrap_or(&Path::default())) {
            Ok(()) => self.store.list(prefix),
            Err(error) => stream::once(async { Err(error) }).boxed(),
        }
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.check(prefix.unwrap_or(&Path::default()))?;
        self.store.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, _: &Path, to: &Path, _: CopyOptions) -> Result<()> {
        Err(read_only(to))
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use object_store::ObjectStoreExt;

    use super::*;

    #[tokio::test]
    async fn only_files_below_the_roots_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for (dir, file) in [("in/deep", "in/deep/a"), ("in/keys", "in/keys/key"), ("secret", "secret/b")] {
            fs::create_dir_all(root.join(dir)).unwrap();
            fs::write(root.join(file), "text").unwrap();
        }
        symlink("../secret/b", root.join("in/link")).unwrap();
        let roots = Roots::new(&[root.join("in")]).unwrap().without_files_of(&root.join("in/keys")).unwrap();
        let store = ReadOnlyStore::local(roots);
        let at = |path: &str| Path::from_absolute_path(root.join(path)).unwrap();
        assert_eq!(store.get(&at("in/deep/a")).await.unwrap().bytes().await.unwrap(), "text");
        assert_eq!(store.get_range(&at("in/deep/a"), 1..3).await.unwrap(), "ex");
        assert_eq!(store.list(Some(&at("in/deep"))).count().await, 1);
        for path in ["secret/b", "in/link", "secret/none", "in/none", "in/keys/key"] {
            let error = store.get(&at(path)).await.unwrap_err().to_string();
            assert!(error.contains("outside the folders") && error.contains(path), "{error}");
            assert!(store.get_range(&at(path), 0..1).await.is_err() && store.head(&at(path)).await.is_err());
        }
        for path in ["", "secret"] {
            assert!(store.list(Some(&at(path))).try_collect::<Vec<_>>().await.is_err());
            assert!(store.list_with_delimiter(Some(&at(path))).await.is_err());
        }
    }

    #[tokio::test]
    async fn nothing_is_written() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a"), "text").unwrap();
        let store = ReadOnlyStore::local(Roots::new(&[folder.path().to_owned()]).unwrap());
        let at = |path: &str| Path::from_absolute_path(folder.path().join(path)).unwrap();
        assert!(store.put(&at("b"), "x".into()).await.is_err() && store.put_multipart(&at("b")).await.is_err());
        assert!(store.copy(&at("a"), &at("b")).await.is_err() && store.rename(&at("a"), &at("b")).await.is_err());
        assert!(store.delete(&at("a")).await.is_err());
        let names: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["a"]);
    }
}
