//! `ASOF JOIN` in SQL, with the syntax and the meaning of DataFusion 56.
//!
//! ```text
//! SQL -> statement.rs: an ASOF JOIN becomes a nested join, which planners of relations see
//!     -> relation.rs: AsOfJoin, a logical node (node.rs) -> filters.rs: filters below it
//!     -> planner.rs: AsOfJoinExec (../join/asof/)
//! ```

mod filters;
mod node;
mod planner;
mod relation;
mod statement;

use std::sync::Arc;

use datafusion::execution::SessionStateBuilder;

pub(crate) use filters::AsOfFilters;
pub use node::AsOfJoin;
pub use planner::{AnnulusPlanner, AsOfPlanner};
pub use relation::AsOfRelations;
pub use statement::{nest_asof_joins, sql};

/// Adds the planners of `ASOF JOIN` to a session, as `with_annulus` does: for sessions whose query planner is
/// put around another one, and which need them before. A query planner that is not DataFusion's own stays: it
/// needs [`AsOfPlanner`] among its extension planners.
pub fn install_planners(builder: &mut SessionStateBuilder) {
    let relations = builder.relation_planners().get_or_insert_default();
    let name = |planner: &dyn std::fmt::Debug| format!("{planner:?}");
    if !relations.iter().any(|known| name(known) == name(&AsOfRelations)) {
        relations.push(Arc::new(AsOfRelations));
    }
    // The type of DataFusion's own planner is private.
    let planner = builder.query_planner();
    if planner.as_ref().is_none_or(|planner| name(planner) == "DefaultQueryPlanner") {
        *planner = Some(Arc::new(AnnulusPlanner));
    }
}
