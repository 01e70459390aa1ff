//! Cross joins that let other tasks run.

use std::sync::Arc;

use datafusion::{
    common::tree_node::{Transformed, TransformedResult, TreeNode},
    config::ConfigOptions,
    error::Result,
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::{ExecutionPlan, coop::CooperativeExec, joins::CrossJoinExec},
};

use super::{Rules, install};

/// Lets cross joins yield to the runtime now and then.
///
/// A batch of the right side has a batch of pairs for each row of the left one, and DataFusion's operator returns them
/// without a pause. An aggregation above it asks for all of them in one poll: nothing could cancel the query meanwhile.
#[derive(Debug)]
pub(crate) struct YieldingCrossJoins;

impl YieldingCrossJoins {
    /// Adds the rule to those of a session, unless it is there.
    pub(crate) fn install(self, rules: &mut Rules) {
        install(self, "SanityCheckPlan", rules);
    }
}

impl PhysicalOptimizerRule for YieldingCrossJoins {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let wrap = |node: Arc<dyn ExecutionPlan>| {
            Ok(match node.is::<CrossJoinExec>() {
                true => Transformed::yes(Arc::new(CooperativeExec::new(node)) as _),
                false => Transformed::no(node),
            })
        };
        plan.transform_up(wrap).data()
    }

    fn name(&self) -> &str {
        "YieldingCrossJoins"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use datafusion::{execution::SessionStateBuilder, prelude::SessionContext};
    use tokio::task::yield_now;

    use crate::SessionStateBuilderExt;

    #[tokio::test]
    async fn a_cross_join_lets_others_run() {
        let state = SessionStateBuilder::new().with_default_features().with_annulus().build();
        let ctx = SessionContext::new_with_state(state);
        let pairs = "SELECT count(*) FROM range(20000) a CROSS JOIN range(20000) b";
        let others = async {
            for _ in 0..100 {
                yield_now().await;
            }
        };
        tokio::select! {
            biased;
            counted = ctx.sql(pairs).await.unwrap().collect() => panic!("it ended first: {counted:?}"),
            () = others => {}
        }
    }
}
