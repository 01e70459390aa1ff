//! Scans of Parquet files that filter rows on their codes, by [`annulus_parquet`].
//!
//! [`EncodedScans`](crate::rule) puts an [`EncodedParquetSource`] in the place of DataFusion's source of a
//! scan, with the conditions of the filter above it. For each file that the source opens it finds the row
//! groups that are left as DataFusion's own source does, and reads them itself; a file with columns that
//! `annulus-parquet` does not read is left to DataFusion's source.

mod fetch;
mod file;
mod groups;
mod morsel;
mod parts;
mod predicate;
mod rows;
mod source;
mod stock;
mod version;

pub use source::EncodedParquetSource;
