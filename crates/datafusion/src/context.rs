//! The contexts of tasks.

use std::sync::Arc;

use datafusion::{config::ConfigOptions, execution::TaskContext};

/// Returns `context` with changed options.
pub(crate) fn with_options(context: &TaskContext, change: impl FnOnce(&mut ConfigOptions)) -> Arc<TaskContext> {
    let mut config = context.session_config().clone();
    change(config.options_mut());
    Arc::new(TaskContext::new(
        context.task_id(),
        context.session_id(),
        config,
        context.scalar_functions().clone(),
        context.higher_order_functions().clone(),
        context.aggregate_functions().clone(),
        context.window_functions().clone(),
        context.runtime_env(),
    ))
}
