#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod error;
mod folder_name;
mod folder_types;
mod hot_keys;
mod input;
mod layout;
mod output;
mod placement;
mod split;

pub use annulus_sync::{CancelToken, Cancelled};
pub use error::DatasetError;
pub use folder_name::{NULL_FOLDER, folder_name};
pub use folder_types::{FOLDER_TYPES_NAME, FolderTypes};
pub use hot_keys::{DEFAULT_HOT_SHARE, HotKey, HotKeys, HotSample, sample_hot_keys};
pub use input::{
    BadRow, BadRows, ColumnHints, ColumnType, ColumnTypes, Copied, CsvOptions, DataFile, Dataset, Decoded, Format,
    InputOptions, MixedColumn, Origin, PartialColumn, Quote, Unit, UnitReader, absolute_path, extension_of, input_root,
    input_that_reads, number_duplicates, real_path, type_of_column,
};
pub use layout::{KeyLayout, KeyRule, NoLayout};
pub use output::{
    AppendEntry, BadFile, Collection, ColumnEntry, Compression, CsvWriter, DEFAULT_PAGE_BYTES, Existing, FileEntry,
    HotKeyEntry, KeyEntry, MANIFEST_NAME, MANIFEST_VERSION, Manifest, OLD_MANIFEST_NAME, OutputError, OutputFormat,
    OutputOptions, PartitionEntry, PlainFileEntry, QUARANTINE_NAME, SealedDataset, Settings, Verification, Verified,
    WholeDataset, can_resume, cast_to, for_arrow, for_parquet, for_parquet_writer, json_writer, remove_dataset,
    with_plain_text, with_whole_offsets,
};
pub use placement::{KeyHasher, Placement, PlacementSpec, Scratch, VALUE_BUCKETS, sample_ranges};
pub use split::{HotFiles, Job, JobSpec, Placing, Progress, Silent, SortColumn, Summary, split};
