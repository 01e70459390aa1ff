//! Columns as codes: the dictionaries of many column chunks merged into one, and the chunks read as codes
//! of that one.

mod entries;
mod reader;
mod shared;
mod table;

pub(crate) use entries::Entries;
pub use reader::CodesReader;
pub use shared::SharedDictionary;
pub(crate) use table::CodeTable;
