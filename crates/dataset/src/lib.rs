#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod bad_rows;
mod codes;
mod column_list;
mod column_types;
mod error;
mod exact;
mod file_names;
mod folder_name;
mod folder_types;
mod hot_keys;
mod input;
mod layout;
mod manifest;
mod output;
mod placement;
mod split;

pub use annulus_sync::{CancelToken, Cancelled};
pub use bad_rows::{BadRow, BadRows};
pub use column_list::parse_columns;
pub use error::{DatasetError, DatasetOption, OutputError};
pub use file_names::{MANIFEST_NAME, OLD_MANIFEST_NAME, QUARANTINE_NAME};
pub use folder_name::{NULL_FOLDER, folder_name};
pub use folder_types::{FOLDER_TYPES_NAME, FolderTypes};
pub use hot_keys::{DEFAULT_HOT_SHARE, HotKey, HotKeys, HotSample, sample_hot_keys};
pub use input::{
    ColumnHints, ColumnType, ColumnTypes, CsvOptions, DataFile, Dataset, DecodedBatch, Format, InputOptions, LocalCopy,
    MixedColumn, Origin, PartialColumn, Quote, Unit, UnitReader, absolute_path, extension_of, input_root,
    input_that_reads, number_duplicates, real_path, type_of_column,
};
pub use layout::{KeyLayout, KeyRule, NoLayout};
pub use manifest::{
    AppendEntry, ColumnEntry, Compression, FileEntry, HotKeyEntry, JoinKey, JoinSettings, KeyEntry, KeyType,
    MANIFEST_VERSION, Manifest, OutputFormat, PartitionEntry, PartitionSettings, PlacementRule, PlainFileEntry,
    Settings, SortColumn, SpreadKey,
};
pub use output::{
    BadFile, Collection, CsvWriter, DEFAULT_PAGE_BYTES, ExistingPolicy, OutputOptions, SealedDataset, Verification,
    VerificationReport, WholeDataset, can_resume, cast_to, for_arrow, for_parquet, for_parquet_writer, json_writer,
    remove_dataset, with_plain_text, with_whole_offsets,
};
pub use placement::{KeyHasher, Placement, PlacementSpec, Scratch, VALUE_BUCKETS};
pub use split::{HotFiles, Job, JobSpec, NoProgress, PlacementChoice, Progress, Summary, sample_ranges, split};
