//! Whether a file is still the one that was opened.

use std::sync::Arc;

use datafusion::{
    error::{DataFusionError, Result},
    object_store::{ObjectMeta, ObjectStore, ObjectStoreExt},
};

/// A file as it was when it was opened.
pub(super) struct FileVersion {
    store: Arc<dyn ObjectStore>,
    opened: ObjectMeta,
}

impl FileVersion {
    /// Asks the store about a file that was listed as `listed`.
    ///
    /// # Errors
    /// If the store does not know the file, or it has changed since it was listed.
    pub async fn open(store: &Arc<dyn ObjectStore>, listed: &ObjectMeta) -> Result<Self> {
        let opened = store.head(&listed.location).await?;
        if listed.e_tag.is_some() && listed.e_tag != opened.e_tag {
            let location = &listed.location;
            let remedy = "run the query again, or create its table again if that keeps the list of its files";
            return Err(DataFusionError::Execution(format!("'{location}' changed since it was listed; {remedy}")));
        }
        Ok(Self { store: Arc::clone(store), opened })
    }

    /// Checks that the file has not changed since.
    ///
    /// # Errors
    /// If it has.
    pub async fn check(&self) -> Result<()> {
        let ObjectMeta { location, last_modified, size, e_tag, .. } = &self.opened;
        let now = self.store.head(location).await?;
        if (now.last_modified, now.size, &now.e_tag) == (*last_modified, *size, e_tag) {
            return Ok(());
        }
        Err(DataFusionError::Execution(format!("'{location}' changed while it was read; run the query again")))
    }
}
