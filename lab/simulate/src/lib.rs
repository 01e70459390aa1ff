#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod comparison;
mod engine;
mod error;
mod fit;
mod machine;
mod memory;
mod parameters;
mod prediction;
mod published;
mod random;
mod simulation;
mod strategy;
mod workload;
mod world;

pub use comparison::{Agreement, ComparedCell, ComparedRow, agreement, compare};
pub use error::Error;
pub use fit::{Cell, PAPER_ROWS, Trial, cells, fit, in_parallel};
pub use machine::{MAX_CORES, Machine, facts};
pub use parameters::{BOUNDS, Bounds, FITTED, FittedParameters, Parameter, assumptions};
pub use prediction::{Prediction, Question, predict};
pub use published::{PublishedRow, SPLIT_RULE, published};
pub use simulation::{Outcome, simulate};
pub use strategy::StrategyKind;
pub use workload::{RowSizes, Workload};
