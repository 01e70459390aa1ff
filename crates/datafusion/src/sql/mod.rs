//! `ASOF JOIN` and `JOIN ... NEAREST` in SQL.
//!
//! ```text
//! SQL -> tokens.rs: NEAREST becomes a condition that the parser knows
//!     -> statement.rs: such a join becomes a nested join, which planners of relations see
//!     -> relation.rs: a logical node (../asof/, ../nearest/) -> filters.rs: filters below it
//!     -> planner.rs: its operator (../join/asof/, ../join/nearest/)
//! ```

mod filters;
mod planner;
mod relation;
mod statement;
mod tokens;

use std::sync::Arc;

use datafusion::{execution::SessionStateBuilder, optimizer::OptimizerRule};

pub(crate) use filters::LeftFilters;
pub use planner::{AnnulusPlanner, JoinPlanner};
pub use relation::JoinRelations;
pub use statement::{nest_joins, sql};
pub use tokens::nearest_as_condition;

use crate::asof::AsOfForms;

/// Adds the planners of `ASOF JOIN` and of `JOIN ... NEAREST` to a session, as `with_annulus` does: for sessions
/// whose query planner is put around another one, and which need them before. A query planner that is not
/// DataFusion's own stays: it needs [`JoinPlanner`] among its extension planners. With DataFusion's own, joins
/// that only look for the nearest row in time are planned as as-of joins.
pub fn install_planners(builder: &mut SessionStateBuilder) {
    let relations = builder.relation_planners().get_or_insert_default();
    let name = |planner: &dyn std::fmt::Debug| format!("{planner:?}");
    if !relations.iter().any(|known| name(known) == name(&JoinRelations)) {
        relations.push(Arc::new(JoinRelations));
    }
    // The type of DataFusion's own planner is private.
    let planner = builder.query_planner();
    if planner.as_ref().is_none_or(|planner| name(planner) == "DefaultQueryPlanner") {
        *planner = Some(Arc::new(AnnulusPlanner));
        // Another planner could not plan what the rule returns.
        let rules = &mut builder.optimizer().get_or_insert_default().rules;
        if !rules.iter().any(|known| known.name() == AsOfForms.name()) {
            rules.push(Arc::new(AsOfForms));
        }
    }
}
