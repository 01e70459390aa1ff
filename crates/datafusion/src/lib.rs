//! Apache DataFusion's hash repartition on the Annulus exchange, installed with one line.
//!
//! ```
//! use annulus_datafusion::SessionStateBuilderExt;
//! use datafusion::{execution::SessionStateBuilder, prelude::SessionContext};
//!
//! let state = SessionStateBuilder::new_with_default_features().with_annulus().build();
//! let context = SessionContext::new_with_state(state);
//! ```
//!
//! From then on every hash repartition of bounded input runs as a [`RingRepartitionExec`], unless
//! `SET annulus.strategy = 'stock'` says otherwise. Rows land in the partitions where DataFusion's own operator puts
//! them, bit for bit, so the two may stand on either side of one join.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod bridge;
pub mod config;
mod error;
pub mod exec;
mod metrics;
pub mod report;
pub mod rule;
mod session;

pub use config::AnnulusConfig;
pub use exec::RingRepartitionExec;
pub use report::{ExchangeReport, exchange_report};
pub use rule::RingRepartition;
pub use session::SessionStateBuilderExt;
