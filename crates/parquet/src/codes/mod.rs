//! Columns as codes: the dictionaries of many column chunks merged into one, and the chunks read as codes
//! of that one.

mod reader;
mod shared;

pub use reader::CodesReader;
pub(crate) use shared::Entries;
pub use shared::SharedDictionary;
