//! Sessions, queries and random values.

use std::sync::Arc;

use annulus_datafusion::{SessionStateBuilderExt, sql};
use datafusion::{
    execution::{SessionStateBuilder, memory_pool::MemoryPool, runtime_env::RuntimeEnvBuilder},
    physical_plan::{ExecutionPlan, displayable, metrics::MetricsSet},
    prelude::{SessionConfig, SessionContext},
};

use super::lines;

/// Returns a session with Annulus whose batches are short.
pub fn session(partitions: usize, pool: Option<Arc<dyn MemoryPool>>) -> SessionContext {
    let mut runtime = RuntimeEnvBuilder::new();
    runtime.memory_pool = pool;
    let config = SessionConfig::new().with_target_partitions(partitions).with_batch_size(64);
    let builder = SessionStateBuilder::new_with_default_features().with_config(config);
    let builder = builder.with_runtime_env(Arc::new(runtime.build().unwrap()));
    SessionContext::new_with_state(builder.with_annulus().build())
}

/// Runs a statement.
pub async fn run(context: &SessionContext, statement: &str) {
    context.sql(statement).await.expect(statement).collect().await.expect(statement);
}

/// Returns the plan of a query as it is shown.
pub async fn shown(context: &SessionContext, query: &str) -> String {
    let plan = sql(context, query).await.expect(query).create_physical_plan().await.expect(query);
    displayable(plan.as_ref()).indent(false).to_string()
}

/// Returns the rows of a query in their order.
pub async fn rows(context: &SessionContext, query: &str) -> Vec<String> {
    lines(&sql(context, query).await.expect(query).collect().await.expect(query))
}

pub async fn sorted_rows(context: &SessionContext, query: &str) -> Vec<String> {
    let mut rows = rows(context, query).await;
    rows.sort();
    rows
}

/// Returns the error of a query, which may be found when it is planned or when it runs.
pub async fn error(context: &SessionContext, query: &str) -> String {
    match sql(context, query).await {
        Ok(frame) => frame.collect().await.expect_err(query).to_string(),
        Err(error) => error.to_string(),
    }
}

/// Returns the sum of a metric over all operators of a plan.
pub fn metric(plan: &Arc<dyn ExecutionPlan>, of: fn(&MetricsSet) -> Option<usize>) -> usize {
    let own = plan.metrics().and_then(|metrics| of(&metrics)).unwrap_or_default();
    own + plan.children().into_iter().map(|child| metric(child, of)).sum::<usize>()
}

/// Numbers that look random.
pub struct Numbers(pub u64);

impl Numbers {
    /// Returns the next number, which is less than `below`.
    pub fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }

    /// Returns one of some literals, or null.
    pub fn literal(&mut self, literals: &[&str]) -> String {
        if self.next(8) == 0 {
            "NULL".to_owned()
        } else {
            literals[self.next(literals.len() as u64) as usize].to_owned()
        }
    }
}
