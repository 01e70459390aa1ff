//! Datasets in object stores: read as tables, or copied to this machine first, and uploaded when a command has
//! written them.

mod fetch;
mod table;
mod upload;

pub use fetch::fetch;
pub use table::table;
pub use upload::Upload;

/// Returns whether an input or output is the URL of an object store, and not a path.
pub fn is_url(text: &str) -> bool {
    text.contains("://")
}
