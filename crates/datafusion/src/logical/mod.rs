//! Logical optimizer rules. They mend queries that DataFusion answers wrongly or cannot plan, so the
//! answers are right whichever operators run them, on workers too.

mod comparison;
mod correlated;
mod dictionaries;
mod marks;
mod orders;
mod subqueries;

use std::sync::Arc;

use datafusion::optimizer::{Optimizer, OptimizerRule};

use crate::sql::LeftFilters;
use dictionaries::PlainDictionaries;
use orders::DistinctOrders;
use subqueries::NullAwareSubqueries;

type Rules = Vec<Arc<dyn OptimizerRule + Send + Sync>>;

/// Adds the rules to those of a session, unless they are there.
pub(crate) fn install(optimizer: &mut Optimizer) {
    insert(Arc::new(NullAwareSubqueries), 0, &mut optimizer.rules);
    insert(Arc::new(LeftFilters), 0, &mut optimizer.rules);
    insert(Arc::new(DistinctOrders), optimizer.rules.len(), &mut optimizer.rules);
    insert(Arc::new(PlainDictionaries), optimizer.rules.len(), &mut optimizer.rules);
}

fn insert(rule: Arc<dyn OptimizerRule + Send + Sync>, place: usize, rules: &mut Rules) {
    if !rules.iter().any(|known| known.name() == rule.name()) {
        rules.insert(place, rule);
    }
}
