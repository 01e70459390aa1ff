//! Datasets in object stores: read as tables, or copied to this machine first, and uploaded when a command has
//! written them.

mod fetch;
mod table;
mod upload;

use std::sync::Arc;

use anyhow::Result;
use object_store::{ObjectStore, path::Path};
use url::Url;

use crate::stores;

pub use fetch::{copy, fetch, list};
pub use table::table;
pub use upload::Upload;

/// Returns whether an input or output is the URL of an object store, and not a path.
pub fn is_url(text: &str) -> bool {
    text.contains("://")
}

/// Returns the store of a URL, and the object that it names there.
///
/// # Errors
/// If the URL is invalid, or its scheme is unknown.
pub fn place(url: &str) -> Result<(Arc<dyn ObjectStore>, Path)> {
    let url: Url = url.parse()?;
    Ok((stores::open(&url, &Default::default())?, Path::from_url_path(url.path())?))
}
