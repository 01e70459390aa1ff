//! Plans in the words of DataFusion.

use std::{any::Any, fmt, sync::Arc};

use annulus_datafusion::{BandJoinExec, LoopJoinExec, RingRepartitionExec, RunAggregateExec, delegate};
use datafusion::{
    common::tree_node::{Transformed, TreeNode},
    error::Result,
    physical_plan::{
        DisplayAs, DisplayFormatType, ExecutionPlan,
        metrics::{Metric, MetricsSet},
    },
};

/// Returns `plan` with each operator of Annulus that contains a stock one under that one's name.
///
/// # Errors
/// If DataFusion cannot walk the plan.
pub fn as_stock(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    Ok(plan.transform_up(|node| Ok(renamed(node)))?.data)
}

/// Returns the operator whose name `node` hides, or `node`.
pub fn operator(node: &dyn ExecutionPlan) -> &dyn Any {
    let node = node as &dyn Any;
    node.downcast_ref().map_or(node, |renamed: &AsStock| renamed.inner.as_ref() as &dyn Any)
}

/// Hides the name of `node`, if it contains a stock operator.
fn renamed(node: Arc<dyn ExecutionPlan>) -> Transformed<Arc<dyn ExecutionPlan>> {
    match stock_of(node.as_ref()) {
        Some(_) => Transformed::yes(Arc::new(AsStock { inner: node }) as _),
        None => Transformed::no(node),
    }
}

/// Returns the stock operator that an operator of Annulus contains.
fn stock_of(node: &dyn ExecutionPlan) -> Option<&dyn ExecutionPlan> {
    // The plan's own downcast would find the stock operator inside.
    let node = node as &dyn Any;
    Some(if let Some(ring) = node.downcast_ref::<RingRepartitionExec>() {
        ring.stock()
    } else if let Some(grouping) = node.downcast_ref::<RunAggregateExec>() {
        grouping.stock()
    } else if let Some(join) = node.downcast_ref::<BandJoinExec>() {
        join.stock()
    } else {
        node.downcast_ref::<LoopJoinExec>()?.stock()
    })
}

/// An operator of Annulus, with the name, the text and the metrics of the stock one inside.
#[derive(Debug)]
struct AsStock {
    inner: Arc<dyn ExecutionPlan>,
}

impl AsStock {
    fn stock(&self) -> &dyn ExecutionPlan {
        stock_of(self.inner.as_ref()).unwrap_or(self.inner.as_ref())
    }

    fn rewrap(&self, plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(renamed(plan).data)
    }
}

impl DisplayAs for AsStock {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        self.stock().fmt_as(format, f)
    }
}

impl ExecutionPlan for AsStock {
    delegate!(self.inner:
        downcast_delegate,
        properties,
        children,
        apply_expressions,
        maintains_input_order,
        benefits_from_input_partitioning,
        execute,
        child_stats_requests,
        statistics_from_inputs,
        cardinality_effect,
    );
    delegate!(self.rewrap(self.inner): replace_children, reset_state);
    delegate!(self.replace_children: with_new_children);

    fn name(&self) -> &str {
        self.stock().name()
    }

    fn metrics(&self) -> Option<MetricsSet> {
        let mut shown = MetricsSet::new();
        // Those that only Annulus has are of all partitions together.
        let of_stock = |metric: &&Arc<Metric>| metric.partition().is_some();
        self.inner.metrics()?.iter().filter(of_stock).for_each(|metric| shown.push(Arc::clone(metric)));
        Some(shown)
    }
}

#[cfg(test)]
mod tests {
    use annulus_datafusion::{AnnulusConfig, SessionStateBuilderExt, config::Joins};
    use datafusion::{
        arrow::{array::RecordBatch, util::pretty::pretty_format_batches},
        common::tree_node::TreeNodeRecursion,
        config::ConfigOptions,
        execution::SessionStateBuilder,
        physical_optimizer::PhysicalOptimizerRule,
        physical_plan::displayable,
        prelude::{SessionConfig, SessionContext},
    };

    use super::*;

    /// Renames the operators of a finished plan.
    #[derive(Debug)]
    struct Rename;

    impl PhysicalOptimizerRule for Rename {
        fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
            as_stock(plan)
        }

        fn name(&self) -> &str {
            "Rename"
        }

        fn schema_check(&self) -> bool {
            true
        }
    }

    /// Returns a session with tables `t` and `u`, with or without Annulus.
    async fn session(joins: Option<Joins>) -> SessionContext {
        let mut config = SessionConfig::new().with_target_partitions(3);
        // Tables this small would otherwise not be partitioned.
        config.options_mut().optimizer.hash_join_single_partition_threshold = 0;
        config.options_mut().optimizer.hash_join_single_partition_threshold_rows = 0;
        if let Some(joins) = joins {
            let options = AnnulusConfig { joins, profile: "none".to_owned(), ..AnnulusConfig::default() };
            config = config.with_option_extension(options);
        }
        let mut builder = SessionStateBuilder::new_with_default_features().with_config(config);
        if joins.is_some() {
            builder = builder.with_annulus().with_physical_optimizer_rule(Arc::new(Rename));
        }
        let session = SessionContext::new_with_state(builder.build());
        for (name, rows) in [("t", 400), ("u", 100)] {
            let select = format!("SELECT value % 31 AS k, value AS v, value || 'x' AS s FROM range({rows})");
            session
                .sql(&format!("CREATE TABLE {name} AS {select}"))
                .await
                .expect("a table")
                .collect()
                .await
                .expect(name);
        }
        session
    }

    async fn answer(session: &SessionContext, sql: &str) -> Vec<RecordBatch> {
        session.sql(sql).await.expect(sql).collect().await.expect(sql)
    }

    async fn text(session: &SessionContext, sql: &str) -> String {
        let plan = session.sql(sql).await.expect(sql).create_physical_plan().await.expect(sql);
        displayable(plan.as_ref()).indent(false).to_string()
    }

    #[tokio::test]
    async fn a_plan_cannot_be_told_from_a_stock_one() {
        let (ours, theirs) = (session(Some(Joins::Never)).await, session(None).await);
        let join = "SELECT t.k, count(*), sum(u.v) FROM t JOIN u ON t.k = u.k GROUP BY t.k ORDER BY t.k";
        let grouping = "SELECT k, count(*) FROM t GROUP BY k ORDER BY k";
        let plain = [join, grouping].map(str::to_owned);
        let explained =
            [format!("EXPLAIN FORMAT TREE {join}"), format!("EXPLAIN {join}"), format!("EXPLAIN {grouping}")];
        for sql in plain.into_iter().chain(explained) {
            assert_eq!(text(&ours, &sql).await, text(&theirs, &sql).await);
            let [ours, theirs] = [answer(&ours, &sql).await, answer(&theirs, &sql).await];
            let shown = |batches: &[RecordBatch]| pretty_format_batches(batches).expect("a table").to_string();
            assert_eq!(shown(&ours), shown(&theirs));
        }
        let (mut repartitions, mut aggregates) = (0, 0);
        for sql in [join, grouping] {
            let plan = ours.sql(sql).await.expect(sql).create_physical_plan().await.expect(sql);
            plan.apply(|node| {
                let node = operator(node.as_ref());
                repartitions += usize::from(node.is::<RingRepartitionExec>());
                aggregates += usize::from(node.is::<RunAggregateExec>());
                Ok(TreeNodeRecursion::Continue)
            })
            .expect("a walk");
        }
        assert_eq!((repartitions, aggregates), (3, 1));
    }

    #[tokio::test]
    async fn analyzed_plans_have_no_counters_of_the_exchange() {
        let session = session(Some(Joins::Never)).await;
        let batches = answer(&session, "EXPLAIN ANALYZE SELECT k, count(*) FROM t GROUP BY k").await;
        let shown = pretty_format_batches(&batches).expect("a table").to_string();
        assert!(shown.contains("repartition_time=") && !shown.contains("shared_ops"), "{shown}");
    }

    #[tokio::test]
    async fn joins_without_equal_keys_have_the_name_of_stock() {
        let session = session(Some(Joins::Always)).await;
        for condition in ["t.s < u.s", "t.v < u.v"] {
            let shown = text(&session, &format!("SELECT t.k FROM t LEFT JOIN u ON {condition}")).await;
            assert!(shown.contains("NestedLoopJoinExec: join_type=Right, filter="), "{shown}");
            assert!(!shown.contains("why="), "{shown}");
        }
    }
}
