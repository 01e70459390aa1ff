#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod aggregate;
mod arithmetic;
mod asof;
mod bounds;
mod bridge;
mod choice;
mod compare;
pub mod config;
mod context;
mod delegate;
mod error;
mod exec;
pub mod executions;
mod folders;
mod functions;
mod grouping;
mod join;
mod join_nodes;
mod logical;
mod metrics;
mod nearest;
mod parquet_files;
mod report;
mod rule;
mod scan;
mod session;
mod sinks;
mod sql;
mod table;
mod text_files;
mod whole_files;

pub use aggregate::RunAggregateExec;
pub use asof::AsOfJoin;
pub use choice::profile;
pub use compare::{Comparisons, Incomparable, compare};
pub use config::{AnnulusConfig, DataPath, ExchangeTuning, Joins};
pub use exec::{CommonSubplanExec, FirstRowsExec, InTurnExec, RingRepartitionExec, UnorderedExec};
pub use functions::install_functions;
pub use join::{
    AsOfCondition, AsOfJoinExec, BandJoinExec, DescribedJoin, KeyFilterExec, LoopJoinExec, MorselJoinExec,
    NearestCondition, NearestJoinExec, PairMethod, SharedHashJoinExec, SimilarityJoinExec,
};
pub use metrics::ExchangeReport;
pub use nearest::{NearestJoin, NearestOrder};
pub use parquet_files::write_parquet;
pub use report::exchange_report;
pub use rule::{
    BandJoin, KeyFilters, RingRepartition, RunAggregates, SharedJoins, inputs_meet, replace_in_stage, why_stock_joins,
    why_stock_repartitions, why_stock_scans,
};
pub use session::SessionStateBuilderExt;
pub use sql::{AnnulusPlanner, JoinPlanner, JoinRelations, install_planners, nearest_as_condition, nest_joins, sql};
pub use table::{
    DatasetTable, NotPartitioned, ReadAccess, SkippedRows, UnitScan, divide_partitions, divide_units, hash_partitions,
    is_of_each_process, reading_options, register_dataset, scanned_bytes, task_of_partition, unit_bytes,
};
