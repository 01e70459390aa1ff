//! `annulus join`: joins two datasets as a query of this process or of workers, and writes the result as a
//! dataset.
//!
//! ```text
//! args.rs -> query/: a plan of DataFusion
//!         -> attempt.rs: a session of this process or of workers, which writes a dataset
//!         -> run.rs: progress (progress.rs, counts.rs), signals, restarts without lost workers
//!         -> report.rs: the plan, or the result
//! ```

mod args;
mod attempt;
mod counts;
mod pieces;
mod progress;
mod query;
mod report;
mod restarts;
mod run;
mod values;

pub use args::JoinArgs;
pub use run::run;
