//! DataFusion as the test files expect it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use datafusion_sqllogictest::{DFColumnType, DFOutput, DFSqlLogicTestError, DataFusion};
use sqllogictest::{AsyncDB, DBOutput};

/// DataFusion, whose output names the current folder as the one in which the files were written.
pub struct Engine {
    pub inner: DataFusion,
    /// Set while a statement runs that prints its plan.
    pub prints_plans: Arc<AtomicBool>,
}

/// The files' name for the folder in which they run.
const HOME: &str = "WORKSPACE_ROOT/datafusion/sqllogictest";

#[async_trait]
impl AsyncDB for Engine {
    type Error = DFSqlLogicTestError;
    type ColumnType = DFColumnType;

    async fn run(&mut self, sql: &str) -> Result<DFOutput, Self::Error> {
        let prints_plans = sql.trim_start().get(..7).is_some_and(|word| word.eq_ignore_ascii_case("explain"));
        self.prints_plans.store(prints_plans, Ordering::Relaxed);
        let mut output = self.inner.run(sql).await?;
        // Plans name files by their path from the root, without the first slash.
        let here = std::env::current_dir().unwrap_or_default();
        let here = here.to_string_lossy();
        let here = here.trim_start_matches('/');
        if let DBOutput::Rows { rows, .. } = &mut output {
            for cell in rows.iter_mut().flatten().filter(|cell| cell.contains(here)) {
                *cell = cell.replace(here, HOME);
            }
        }
        Ok(output)
    }

    fn engine_name(&self) -> &str {
        self.inner.engine_name()
    }

    async fn sleep(duration: Duration) {
        DataFusion::sleep(duration).await;
    }

    async fn shutdown(&mut self) {
        self.inner.shutdown().await;
    }
}
