//! The object stores of a worker, which writes to none: local files within limits, and those that URLs
//! name.

use std::sync::Arc;

use annulus_distributed::{ReadOnlyStore, Roots};
use datafusion::{error::Result, execution::object_store::ObjectStoreRegistry};
use object_store::ObjectStore;
use url::Url;

use crate::stores::Stores;

#[derive(Debug)]
pub struct WorkerStores {
    local: Arc<dyn ObjectStore>,
    others: Stores,
}

impl WorkerStores {
    /// Returns stores that read local files below `roots` only.
    pub fn new(roots: Roots) -> Self {
        Self { local: Arc::new(ReadOnlyStore::local(roots)), others: Stores::default() }
    }
}

impl ObjectStoreRegistry for WorkerStores {
    fn register_store(&self, url: &Url, store: Arc<dyn ObjectStore>) -> Option<Arc<dyn ObjectStore>> {
        self.others.register_store(url, store)
    }

    fn deregister_store(&self, url: &Url) -> Result<Arc<dyn ObjectStore>> {
        self.others.deregister_store(url)
    }

    fn get_store(&self, url: &Url) -> Result<Arc<dyn ObjectStore>> {
        match url.scheme() {
            "file" => Ok(Arc::clone(&self.local)),
            _ => Ok(Arc::new(ReadOnlyStore::new(self.others.get_store(url)?))),
        }
    }
}
