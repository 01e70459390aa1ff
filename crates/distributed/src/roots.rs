//! What a worker reads and writes.

use std::{
    fmt, fs, io,
    ops::Range,
    path::{Component, Path, PathBuf},
    sync::Arc,
};

use annulus_datafusion::ReadAccess;
use annulus_dataset::{input_root, real_path};
use async_trait::async_trait;
use datafusion::{
    common::exec_err,
    error::{DataFusionError, Result as DataFusionResult},
};
use futures::{StreamExt, TryStreamExt, stream, stream::BoxStream};
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, local::LocalFileSystem, path::Path as StorePath,
};

/// Folders that queries may use, with all that is below them. Links in a path are resolved before it is
/// compared with them.
///
/// A user of the machine who can change links below these folders can redirect a query between the
/// check and the use.
#[derive(Clone, Debug, Default)]
pub struct Roots {
    folders: Vec<PathBuf>,
    /// A folder whose own files are never used, and the files that its links lead to.
    keys: Vec<PathBuf>,
}

impl Roots {
    /// Allows what is below these folders.
    ///
    /// # Errors
    /// If one does not exist or cannot be opened. The error names it.
    pub fn new(folders: &[PathBuf]) -> io::Result<Self> {
        let real = |folder: &PathBuf| {
            let found = folder.canonicalize().and_then(|real| fs::read_dir(&real).map(|_| real));
            found.map_err(|error| {
                io::Error::new(error.kind(), format!("cannot open the folder '{}': {error}", folder.display()))
            })
        };
        Ok(Self { folders: folders.iter().map(real).collect::<io::Result<_>>()?, keys: Vec::new() })
    }

    /// Refuses the files directly in a folder: certificates and their keys.
    ///
    /// # Errors
    /// If it does not exist.
    pub fn without_files_of(mut self, keys: &Path) -> io::Result<Self> {
        self.keys.push(keys.canonicalize()?);
        for entry in fs::read_dir(keys)? {
            // A link may lead nowhere.
            self.keys.extend(entry?.path().canonicalize());
        }
        Ok(self)
    }

    /// Returns whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.folders.is_empty()
    }

    /// Returns whether a path may be used. It need not exist.
    fn allow(&self, path: &Path) -> bool {
        let is_key = |real: &Path| self.keys.iter().any(|key| real == key || real.parent() == Some(key));
        let real = real_path(path);
        real.is_ok_and(|real| self.folders.iter().any(|folder| real.starts_with(folder)) && !is_key(&real))
    }
}

/// What a worker reads and writes for queries, beside its object stores. Nothing by default.
#[derive(Clone, Debug, Default)]
pub struct WorkerFiles {
    /// Where it opens datasets.
    pub read: Roots,
    /// Where it writes datasets.
    pub write: Roots,
}

impl WorkerFiles {
    /// Checks the folder of a result.
    ///
    /// # Errors
    /// If it is relative, or lies outside the folders.
    pub(crate) fn check_output(&self, folder: &Path) -> DataFusionResult<()> {
        if folder.is_absolute() && self.write.allow(folder) {
            return Ok(());
        }
        let path = folder.display();
        exec_err!("the worker refuses '{path}': it is outside the folders that it may write (`allow_write`)")
    }
}

/// The errors do not tell whether a refused path exists, or where it leads.
impl ReadAccess for WorkerFiles {
    fn check_inputs(&self, inputs: &[String]) -> DataFusionResult<()> {
        inputs.iter().try_for_each(|input| {
            let path = Path::new(input);
            let root = input_root(input);
            let climbs = path.components().skip(root.components().count()).any(|part| part == Component::ParentDir);
            let is_allowed = path.is_absolute() && !climbs && self.read.allow(&root);
            if is_allowed { Ok(()) } else { Err(not_readable(path)) }
        })
    }

    fn check_file(&self, path: &Path) -> DataFusionResult<()> {
        // Reading a pipe would block.
        let is_allowed = self.read.allow(path) && path.is_file();
        if is_allowed { Ok(()) } else { Err(not_readable(path)) }
    }
}

fn not_readable(path: &Path) -> DataFusionError {
    DataFusionError::Execution(format!("the worker refuses '{}': it {OUTSIDE}", path.display()))
}

/// Why a path is refused.
const OUTSIDE: &str = "is outside the folders that it may read (`allow_read`)";

/// An object store that writes nothing: that of another one, or local files below [`Roots`].
#[derive(Debug)]
pub struct ReadOnlyStore {
    store: Arc<dyn ObjectStore>,
    roots: Option<Roots>,
}

impl ReadOnlyStore {
    /// Returns what `store` has.
    pub fn new(store: Arc<dyn ObjectStore>) -> Self {
        Self { store, roots: None }
    }

    /// Returns the files of this machine below `roots`.
    pub fn local(roots: Roots) -> Self {
        Self { store: Arc::new(LocalFileSystem::new()), roots: Some(roots) }
    }

    /// Checks that an object may be read. The error does not tell whether a refused file exists.
    fn check(&self, location: &StorePath) -> Result<()> {
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

fn refused(location: &StorePath) -> Error {
    let path = format!("/{location}");
    let source = format!("the worker refuses '{path}': it {OUTSIDE}");
    Error::PermissionDenied { path, source: source.into() }
}

fn read_only(location: &StorePath) -> Error {
    let path = format!("/{location}");
    let source = format!("the worker does not write '{path}': workers only read");
    Error::PermissionDenied { path, source: source.into() }
}

#[async_trait]
impl ObjectStore for ReadOnlyStore {
    async fn put_opts(&self, location: &StorePath, _: PutPayload, _: PutOptions) -> Result<PutResult> {
        Err(read_only(location))
    }

    async fn put_multipart_opts(
        &self,
        location: &StorePath,
        _: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        Err(read_only(location))
    }

    async fn get_opts(&self, location: &StorePath, options: GetOptions) -> Result<GetResult> {
        self.check(location)?;
        self.store.get_opts(location, options).await
    }

    async fn get_ranges(&self, location: &StorePath, ranges: &[Range<u64>]) -> Result<Vec<bytes::Bytes>> {
        self.check(location)?;
        self.store.get_ranges(location, ranges).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<StorePath>>) -> BoxStream<'static, Result<StorePath>> {
        locations.and_then(|location| async move { Err(read_only(&location)) }).boxed()
    }

    fn list(&self, prefix: Option<&StorePath>) -> BoxStream<'static, Result<ObjectMeta>> {
        match self.check(prefix.unwrap_or(&StorePath::default())) {
            Ok(()) => self.store.list(prefix),
            Err(error) => stream::once(async { Err(error) }).boxed(),
        }
    }

    async fn list_with_delimiter(&self, prefix: Option<&StorePath>) -> Result<ListResult> {
        self.check(prefix.unwrap_or(&StorePath::default()))?;
        self.store.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, _: &StorePath, to: &StorePath, _: CopyOptions) -> Result<()> {
        Err(read_only(to))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

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
        let at = |path: &str| StorePath::from_absolute_path(root.join(path)).unwrap();
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
        let at = |path: &str| StorePath::from_absolute_path(folder.path().join(path)).unwrap();
        assert!(store.put(&at("b"), "x".into()).await.is_err() && store.put_multipart(&at("b")).await.is_err());
        assert!(store.copy(&at("a"), &at("b")).await.is_err() && store.rename(&at("a"), &at("b")).await.is_err());
        assert!(store.delete(&at("a")).await.is_err());
        let names: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["a"]);
    }

    fn folders() -> (tempfile::TempDir, WorkerFiles) {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for name in ["in/deep", "out", "secret", "in/certs"] {
            fs::create_dir_all(root.join(name)).unwrap();
        }
        for name in ["in/a.csv", "in/certs/key.pem", "secret/b.csv"] {
            fs::write(root.join(name), "x\n1\n").unwrap();
        }
        symlink("../secret", root.join("in/link")).unwrap();
        symlink("../secret/b.csv", root.join("in/b.csv")).unwrap();
        symlink("../secret", root.join("out/link")).unwrap();
        fs::write(root.join("in/deep/other.pem"), "key").unwrap();
        symlink("../deep/other.pem", root.join("in/certs/linked.pem")).unwrap();
        let roots = |name| Roots::new(&[root.join(name)]).unwrap().without_files_of(&root.join("in/certs")).unwrap();
        let files = WorkerFiles { read: roots("in"), write: roots("out") };
        (folder, files)
    }

    #[test]
    fn datasets_are_read_below_the_roots_only() {
        let (folder, files) = folders();
        let check = |input: &str| files.check_inputs(&[folder.path().join(input).to_str().unwrap().to_owned()]);
        for input in ["in", "in/a.csv", "in/*.csv", "in/deep/../a.csv", "in/none.csv", "in/**/*.csv"] {
            check(input).unwrap();
        }
        for input in ["", "secret/*", "none", "in/link/b.csv", "in/../secret", "in/*/../../secret/b.csv", "inn"] {
            let error = check(input).unwrap_err().to_string();
            assert!(error.contains("outside the folders"), "'{input}': {error}");
        }
        for input in ["in", "-"] {
            files.check_inputs(&[input.to_owned()]).unwrap_err();
        }
        files.check_file(&folder.path().join("in/a.csv")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(folder.path().join("in/socket")).unwrap();
        for file in
            ["in/b.csv", "in/link/b.csv", "in/certs/key.pem", "in/certs/linked.pem", "in/socket", "in/deep", "in/none"]
        {
            files.check_file(&folder.path().join(file)).unwrap_err();
        }
    }

    #[test]
    fn results_stay_below_the_roots() {
        let (folder, files) = folders();
        for dir in ["out", "out/new", "out/new/newer"] {
            files.check_output(&folder.path().join(dir)).unwrap();
        }
        for dir in ["", "in", "new", "out/..", "out/link", "out/link/new", "out/none/../../in"] {
            files.check_output(&folder.path().join(dir)).unwrap_err();
        }
        files.check_output(Path::new("out")).unwrap_err();
        WorkerFiles::default().check_output(folder.path()).unwrap_err();
    }

    #[test]
    fn a_folder_must_exist() {
        let error = Roots::new(&[PathBuf::from("/no/such/folder")]).unwrap_err().to_string();
        assert!(error.contains("/no/such/folder"), "{error}");
    }
}
