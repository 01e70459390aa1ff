//! Benchmarks that compare ways to run the same queries: stock DataFusion, and Annulus with one
//! strategy or several. Each query's answers are compared before it is timed.

mod answer;
mod engines;
pub mod generated;
mod options;
mod report;
mod run;
mod serve;
mod suite;
mod variants;

pub use answer::{Order, RowLimit};
pub use engines::Engines;
pub use options::{ComparisonArgs, cache_folder};
pub use report::WayReport;
pub use run::{Benchmark, Page, Query, run};
pub use suite::{Suite, SuiteArgs, TpcArgs, TpcSuite};
pub use variants::{Variant, Variants};
