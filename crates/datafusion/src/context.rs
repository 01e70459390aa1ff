//! The contexts of tasks.

use std::sync::Arc;

use datafusion::{
    config::ConfigOptions,
    execution::{TaskContext, runtime_env::RuntimeEnv},
};

/// Returns `context` with changed options.
pub(crate) fn with_options(context: &TaskContext, change: impl FnOnce(&mut ConfigOptions)) -> Arc<TaskContext> {
    with_runtime(context, context.runtime_env(), change)
}

/// Returns `context` with another runtime and changed options.
pub(crate) fn with_runtime(
    context: &TaskContext,
    runtime: Arc<RuntimeEnv>,
    change: impl FnOnce(&mut ConfigOptions),
) -> Arc<TaskContext> {
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
        runtime,
    ))
}
