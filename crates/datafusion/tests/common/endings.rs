//! How the queries of a join end if memory is short, the disk is full, a row fails, or nobody reads on.

use std::sync::Arc;

use annulus_datafusion::{SessionStateBuilderExt, sql};
use datafusion::{
    error::{DataFusionError, Result},
    execution::{
        SessionStateBuilder,
        disk_manager::{DiskManagerBuilder, DiskManagerMode},
        memory_pool::FairSpillPool,
        runtime_env::{RuntimeEnv, RuntimeEnvBuilder},
    },
    physical_plan::metrics::MetricsSet,
    prelude::{SessionConfig, SessionContext},
};
use futures::StreamExt;

use super::{
    eventually, lines,
    queries::{metric, run},
    within,
};

/// Returns the statement that creates a table with a number, a key, a time and a text.
pub fn table(name: &str, rows: u64) -> String {
    format!(
        "CREATE TABLE {name} AS SELECT value AS id, value % 50 AS k, value * 7919 % 10007 AS t, \
         concat('the text with the number ', value * 31 % 500) AS s FROM range(1, {rows})"
    )
}

/// A join of the tables `l` and `r`, of which nothing is ordered or counted.
pub struct Join<'a> {
    /// The statements that create the tables.
    pub tables: &'a [String],
    /// The query.
    pub query: &'a str,
    /// The query with an expression that fails for some row of `r`.
    pub failing: &'a str,
    /// The pool in which it needs the disk.
    pub pool_bytes: usize,
}

impl Join<'_> {
    /// Checks that the answer in a small pool is that in a large one, and that nothing is left of a query, however it
    /// ends.
    pub async fn check(&self) {
        let expected = self.answer(&Arc::default(), self.query).await.expect("an answer").0;
        assert!(!expected.is_empty());
        let runtime = self.limited(DiskManagerBuilder::default());
        let (found, spills) = self.answer(&runtime, self.query).await.expect("an answer in a small pool");
        assert_eq!(found, expected);
        assert!(spills > 0, "nothing was spilled");
        nothing_is_left(&runtime).await;

        let error = self.answer(&runtime, self.failing).await.expect_err("a row fails").to_string();
        assert!(error.to_lowercase().contains("divide by zero"), "{error}");
        nothing_is_left(&runtime).await;

        let mut stream = self.stream(&runtime).await;
        within("a batch", stream.next()).await.expect("rows").expect("a batch");
        drop(stream);
        nothing_is_left(&runtime).await;

        let runtime = self.limited(DiskManagerBuilder::default().with_max_temp_directory_size(20_000));
        let error = self.answer(&runtime, self.query).await.expect_err("the disk is full").to_string();
        assert!(error.contains("`datafusion.runtime.max_temp_directory_size`"), "{error}");
        nothing_is_left(&runtime).await;

        let runtime = self.limited(DiskManagerBuilder::default().with_mode(DiskManagerMode::Disabled));
        let error = self.answer(&runtime, self.query).await.expect_err("there is no disk");
        assert!(matches!(error.find_root(), DataFusionError::ResourcesExhausted(_)), "{error}");
        nothing_is_left(&runtime).await;
    }

    fn limited(&self, disk: DiskManagerBuilder) -> Arc<RuntimeEnv> {
        let pool = Arc::new(FairSpillPool::new(self.pool_bytes));
        let builder = RuntimeEnvBuilder::new().with_memory_pool(pool).with_disk_manager_builder(disk);
        builder.build_arc().expect("a runtime")
    }

    /// Returns a session that has the tables. They are made in one without limits.
    async fn session(&self, runtime: &Arc<RuntimeEnv>) -> SessionContext {
        let maker = session_in(&Arc::default());
        for statement in self.tables {
            run(&maker, statement).await;
        }
        let context = session_in(runtime);
        for name in ["l", "r"] {
            let table = maker.table_provider(name).await.expect("a table");
            context.register_table(name, table).expect("a new table");
        }
        context
    }

    async fn stream(&self, runtime: &Arc<RuntimeEnv>) -> datafusion::execution::SendableRecordBatchStream {
        let context = self.session(runtime).await;
        sql(&context, self.query).await.expect("a query").execute_stream().await.expect("a stream")
    }

    /// Returns the sorted rows, and how often rows were spilled.
    async fn answer(&self, runtime: &Arc<RuntimeEnv>, query: &str) -> Result<(Vec<String>, usize)> {
        let context = self.session(runtime).await;
        let plan = sql(&context, query).await?.create_physical_plan().await?;
        let batches =
            within("the end", datafusion::physical_plan::collect(Arc::clone(&plan), context.task_ctx())).await?;
        let mut rows = lines(&batches);
        rows.sort_unstable();
        Ok((rows, metric(&plan, MetricsSet::spill_count)))
    }
}

fn session_in(runtime: &Arc<RuntimeEnv>) -> SessionContext {
    let config = SessionConfig::new().with_target_partitions(2).with_batch_size(256);
    let builder = SessionStateBuilder::new_with_default_features().with_config(config);
    let builder = builder.with_runtime_env(Arc::clone(runtime));
    SessionContext::new_with_state(builder.with_annulus().build())
}

async fn nothing_is_left(runtime: &RuntimeEnv) {
    eventually("nothing is reserved", || runtime.memory_pool.reserved() == 0).await;
    eventually("files are removed", || runtime.disk_manager.used_disk_space() == 0).await;
}
