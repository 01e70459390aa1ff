//! Files on web servers, also those that send no parts of a file and list no folders.

use std::{
    collections::{HashMap, HashSet},
    fmt,
    fs::File,
    io::{Read, Seek, SeekFrom, Write},
    ops::Range,
    sync::Arc,
};

use async_trait::async_trait;
use futures::{StreamExt, TryStreamExt, stream, stream::BoxStream};
use indicatif::HumanBytes;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    ObjectStoreExt, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, path::Path,
};
use parking_lot::Mutex;
use tokio::{sync::OnceCell, task::spawn_blocking};

/// The largest file that is copied because its server sends no parts of it.
const COPIED_BYTES_MAX: u64 = 16 << 30;

/// The files of a web server. A file of which the server sends no parts is copied once, to a temporary file
/// without a name, and read there.
#[derive(Debug)]
pub struct WebStore {
    server: Arc<dyn ObjectStore>,
    copies: Mutex<HashMap<Path, Arc<OnceCell<Copy>>>>,
    /// The files that the server does not have.
    missing: Mutex<HashSet<Path>>,
}

/// A file that was copied.
#[derive(Debug)]
struct Copy {
    meta: ObjectMeta,
    file: Arc<Mutex<File>>,
}

impl WebStore {
    /// Returns the files of `server`.
    pub fn new(server: impl ObjectStore) -> Self {
        Self { server: Arc::new(server), copies: Mutex::default(), missing: Mutex::default() }
    }

    /// Returns a part of a file of which the server sends none.
    async fn get_copied(&self, location: &Path, options: &GetOptions) -> Result<GetResult> {
        let cell = Arc::clone(self.copies.lock().entry(location.clone()).or_default());
        let copy = cell.get_or_try_init(|| self.copy_here(location)).await?;
        let range = match &options.range {
            Some(range) => range.as_range(copy.meta.size).map_err(|error| other(error.to_string()))?,
            None => 0..copy.meta.size,
        };
        let bytes = if options.head { Vec::new() } else { copy.read(range.clone()).await? };
        Ok(GetResult {
            payload: GetResultPayload::Stream(stream::once(async { Ok(bytes.into()) }).boxed()),
            meta: copy.meta.clone(),
            range,
            attributes: Default::default(),
        })
    }

    /// Returns what the server says of a file. It may be another one since it was copied.
    async fn head(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let found = self.server.get_opts(location, options.clone()).await;
        match &found {
            Ok(found) => {
                let is_same = |copy: &Copy| copy.meta == found.meta;
                self.copies.lock().retain(|path, copy| path != location || copy.get().is_some_and(is_same));
            }
            // It answers no questions about files, but may send them.
            Err(error)
                if ["405 Method Not Allowed", "501 Not Implemented"]
                    .iter()
                    .any(|status| error.to_string().contains(status)) =>
            {
                return self.get_copied(location, &options).await;
            }
            Err(Error::NotFound { .. }) => drop(self.missing.lock().insert(location.clone())),
            Err(_) => {}
        }
        found
    }

    async fn copy_here(&self, location: &Path) -> Result<Copy> {
        let whole = self.server.get(location).await?;
        let meta = whole.meta.clone();
        if meta.size > COPIED_BYTES_MAX {
            let size = HumanBytes(meta.size);
            return Err(other(format!("the server sends no parts of '{location}', which has {size}: copy it first")));
        }
        let mut file =
            tempfile::tempfile().map_err(|error| other(format!("cannot create a temporary file: {error}")))?;
        let mut chunks = whole.into_stream();
        while let Some(chunk) = chunks.next().await.transpose()? {
            let written = spawn_blocking(move || file.write_all(&chunk).map(|()| file)).await?;
            file = written.map_err(|error| other(format!("cannot write a temporary file: {error}")))?;
        }
        Ok(Copy { meta, file: Arc::new(Mutex::new(file)) })
    }
}

impl Copy {
    async fn read(&self, range: Range<u64>) -> Result<Vec<u8>> {
        let file = Arc::clone(&self.file);
        let read = spawn_blocking(move || {
            let mut file = file.lock();
            file.seek(SeekFrom::Start(range.start))?;
            let mut bytes = Vec::new();
            (&mut *file).take(range.end - range.start).read_to_end(&mut bytes)?;
            std::io::Result::Ok(bytes)
        });
        read.await?.map_err(|error| other(format!("cannot read a temporary file: {error}")))
    }
}

fn other(text: String) -> Error {
    Error::Generic { store: "HTTP", source: text.into() }
}

impl fmt::Display for WebStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WebStore({})", self.server)
    }
}

#[async_trait]
impl ObjectStore for WebStore {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.copies.lock().remove(location);
        self.server.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.copies.lock().remove(location);
        self.server.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        if options.head {
            return self.head(location, options).await;
        }
        let is_copied = options.range.is_some() && self.copies.lock().contains_key(location);
        if is_copied {
            return self.get_copied(location, &options).await;
        }
        match self.server.get_opts(location, options.clone()).await {
            Err(Error::NotSupported { .. }) if options.range.is_some() => self.get_copied(location, &options).await,
            found => found,
        }
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.server.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let folder = prefix.cloned().unwrap_or_default();
        let is_missing = self.missing.lock().contains(&folder);
        let listed = self.server.list(prefix);
        let listing = async move {
            match listed.try_collect::<Vec<_>>().await {
                // What is asked for is a file, and only then a folder.
                Ok(objects) if objects.is_empty() && is_missing => Err(not_found(&folder)),
                Err(_) if is_missing => Err(not_found(&folder)),
                Err(_) => Err(Error::NotSupported {
                    source: format!("the server lists no folder '/{folder}': give the URLs of files").into(),
                }),
                Ok(objects) => Ok(stream::iter(objects.into_iter().map(Ok))),
            }
        };
        stream::once(listing).try_flatten().boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.server.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.server.copy_opts(from, to, options).await
    }
}

fn not_found(location: &Path) -> Error {
    Error::NotFound { path: location.to_string(), source: "404 Not Found".into() }
}
