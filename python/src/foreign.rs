//! Sessions of datafusion-python whose queries are planned and run here, by the operators of Annulus.
//!
//! ```text
//! their session, optimized plan -> tables.try_encode: their tables, by number
//!   -> Planner: a physical plan of Annulus, over their tables as they are (FFI)
//!   -> plans.try_encode: the whole plan, by number -> their session -> plans.try_decode: one operator (FFI),
//!      which runs here, on these threads
//! ```
//! The two libraries have the same types twice, so nothing is taken for the other's. What passes between them
//! is what the crate `datafusion-ffi` describes; it is the same within a major version of DataFusion.

use std::{
    collections::HashMap,
    ffi::CStr,
    fmt,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use annulus_datafusion::SessionStateBuilderExt as _;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::{
    catalog::{Session, TableProvider},
    common::{
        TableReference, exec_err, not_impl_err,
        tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion},
    },
    error::{DataFusionError, Result},
    execution::{SendableRecordBatchStream, SessionState, SessionStateBuilder, TaskContext, context::QueryPlanner},
    logical_expr::{Explain, Expr, Extension, LogicalPlan},
    physical_expr::PhysicalExpr,
    physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties},
    prelude::SessionConfig,
};
use datafusion_ffi::{
    proto::{logical_extension_codec::FFI_LogicalExtensionCodec, physical_extension_codec::FFI_PhysicalExtensionCodec},
    query_planner::FFI_QueryPlanner,
};
use datafusion_proto::{
    logical_plan::LogicalExtensionCodec,
    physical_plan::{PhysicalExtensionCodec, PhysicalProtoConverterExtension},
};
use parking_lot::Mutex;
use pyo3::{prelude::*, types::PyCapsule};

use crate::{
    errors::{OptionError, PythonError},
    handle::SessionHandle,
};

/// The name by which encoded plans and tables are known to be these.
pub const ID: &str = "annulus";
const LOGICAL_CODEC: &CStr = c"datafusion_logical_extension_codec";
const PHYSICAL_CODEC: &CStr = c"datafusion_physical_extension_codec";
const PLANNER: &CStr = c"datafusion_query_planner";

/// What is on its way to the other library and back, by number.
#[derive(Debug)]
struct Registry<T>(Mutex<HashMap<u64, T>>, AtomicU64);

static PLANS: LazyLock<Registry<Arc<dyn ExecutionPlan>>> = LazyLock::new(Registry::new);
static TABLES: LazyLock<Registry<Arc<dyn TableProvider>>> = LazyLock::new(Registry::new);

impl<T> Registry<T> {
    fn new() -> Self {
        Self(Mutex::default(), AtomicU64::new(0))
    }

    fn put(&self, value: T, buffer: &mut Vec<u8>) {
        let number = self.1.fetch_add(1, Relaxed);
        self.0.lock().insert(number, value);
        buffer.extend_from_slice(&number.to_le_bytes());
    }

    /// Takes the value of an encoded number: it is decoded once.
    fn take(&self, buffer: &[u8]) -> Result<T> {
        let number = buffer.try_into().map(u64::from_le_bytes);
        let value = number.ok().and_then(|number| self.0.lock().remove(&number));
        value.ok_or_else(|| DataFusionError::Execution("this plan was decoded before, or is another library's".into()))
    }
}

/// What a session of datafusion-python gets.
#[pyclass(frozen, module = "annulus_data._internal")]
pub struct Foreign {
    session: SessionHandle,
    /// The planner that the session had.
    fallback: Option<Py<PyAny>>,
}

#[pymethods]
impl Foreign {
    #[new]
    #[pyo3(signature = (session, fallback=None))]
    fn new(session: &crate::session::Session, fallback: Option<Py<PyAny>>) -> Self {
        Self { session: session.handle(), fallback }
    }

    #[getter]
    fn __datafusion_codec_id__(&self) -> &'static str {
        ID
    }

    fn __datafusion_logical_extension_codec__<'py>(
        &self,
        py: Python<'py>,
        _session: Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let open = self.session.open()?;
        let codec = FFI_LogicalExtensionCodec::new(Arc::new(TableCodec), Some(open.handle()), &open.task_contexts());
        PyCapsule::new_with_value(py, codec, LOGICAL_CODEC)
    }

    fn __datafusion_physical_extension_codec__<'py>(
        &self,
        py: Python<'py>,
        _session: Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let open = self.session.open()?;
        let codec = FFI_PhysicalExtensionCodec::new(Arc::new(PlanCodec), Some(open.handle()), &open.task_contexts());
        PyCapsule::new_with_value(py, codec, PHYSICAL_CODEC)
    }

    fn __datafusion_query_planner__<'py>(
        &self,
        py: Python<'py>,
        session: Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let logical: FFI_LogicalExtensionCodec =
            taken(&session, "__datafusion_logical_extension_codec__", LOGICAL_CODEC)?;
        let physical: FFI_PhysicalExtensionCodec =
            taken(&session, "__datafusion_physical_extension_codec__", PHYSICAL_CODEC)?;
        // Theirs forget the session when its handle in Python is gone, though data frames still have it.
        let open = self.session.open()?;
        let contexts = open.task_contexts();
        let logical = FFI_LogicalExtensionCodec::new((&logical).into(), None, &contexts);
        let physical = FFI_PhysicalExtensionCodec::new((&physical).into(), None, &contexts);
        let fallback = self.fallback.as_ref().map(|planner| planner_of(planner.bind(py))).transpose()?;
        let planner = Planner { session: self.session.clone(), fallback };
        let planner = FFI_QueryPlanner::new_with_ffi_codecs(Arc::new(planner), logical, physical);
        PyCapsule::new_with_value(py, planner, PLANNER)
    }
}

/// Returns a copy of what a capsule of `session` has.
fn taken<T: Clone>(session: &Bound<'_, PyAny>, method: &str, name: &CStr) -> PyResult<T> {
    let capsule = session.call_method0(method)?.cast_into::<PyCapsule>()?;
    let value = capsule.pointer_checked(Some(name))?.cast::<T>();
    // SAFETY: a capsule of this name has such a value, for the major version that `enable` has checked.
    Ok(unsafe { value.as_ref() }.clone())
}

fn planner_of(capsule: &Bound<'_, PyAny>) -> PyResult<Arc<dyn QueryPlanner + Send + Sync>> {
    let capsule = capsule.cast::<PyCapsule>().map_err(|_| OptionError::new_err("the fallback is not a planner"))?;
    let planner = capsule.pointer_checked(Some(PLANNER))?.cast::<FFI_QueryPlanner>();
    // SAFETY: a capsule of this name has a planner, for the major version that `enable` has checked.
    Ok(Arc::from(unsafe { planner.as_ref() }))
}

/// Plans the queries of a session of the other library.
struct Planner {
    /// The session whose threads, memory and disk its operators use.
    session: SessionHandle,
    fallback: Option<Arc<dyn QueryPlanner + Send + Sync>>,
}

impl fmt::Debug for Planner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Planner").finish_non_exhaustive()
    }
}

#[async_trait]
impl QueryPlanner for Planner {
    async fn create_physical_plan(&self, plan: &LogicalPlan, session: &dyn Session) -> Result<Arc<dyn ExecutionPlan>> {
        let open = self.session.open().map_err(|error| DataFusionError::from(PythonError(error)))?;
        let config = SessionConfig::from(session.config_options().clone());
        let state = SessionStateBuilder::new()
            .with_config(config)
            .with_runtime_env(open.ctx().runtime_env())
            .with_default_features()
            .with_annulus()
            .build();
        let planned = with_own_functions(optimized(plan.clone()), &state)?;
        // Files are listed and opened on these threads: the caller's are another library's.
        let made = open.handle().spawn(async move {
            let made = state.query_planner().create_physical_plan(&planned, &state).await?;
            let context = state.task_ctx();
            Ok::<_, DataFusionError>(
                Arc::new(HostedExec { plan: made, context, is_packed: true }) as Arc<dyn ExecutionPlan>
            )
        });
        match made.await.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))? {
            Ok(made) => Ok(made),
            Err(error) => match &self.fallback {
                Some(fallback) => fallback.create_physical_plan(plan, session).await,
                None => Err(error),
            },
        }
    }
}

/// Returns a plan that calls the functions of this library, where it has one of the name. Those of the other one
/// get constants as columns, which some of them refuse, and each call passes between the libraries.
fn with_own_functions(plan: LogicalPlan, state: &SessionState) -> Result<LogicalPlan> {
    let own = |expr: Expr| {
        Ok(match expr {
            Expr::ScalarFunction(mut call) => match state.scalar_functions().get(call.func.name()) {
                Some(function) => {
                    call.func = Arc::clone(function);
                    Transformed::yes(Expr::ScalarFunction(call))
                }
                None => Transformed::no(Expr::ScalarFunction(call)),
            },
            Expr::AggregateFunction(mut call) => match state.aggregate_functions().get(call.func.name()) {
                Some(function) => {
                    call.func = Arc::clone(function);
                    Transformed::yes(Expr::AggregateFunction(call))
                }
                None => Transformed::no(Expr::AggregateFunction(call)),
            },
            Expr::WindowFunction(mut call) => {
                let name = call.fun.name().to_owned();
                let window = state.window_functions().get(&name).map(|function| Arc::clone(function).into());
                let aggregate = || state.aggregate_functions().get(&name).map(|function| Arc::clone(function).into());
                match window.or_else(aggregate) {
                    Some(function) => {
                        call.fun = function;
                        Transformed::yes(Expr::WindowFunction(call))
                    }
                    None => Transformed::no(Expr::WindowFunction(call)),
                }
            }
            other => Transformed::no(other),
        })
    };
    let replaced = plan.transform_down_with_subqueries(|node| node.map_expressions(|expr| expr.transform_down(own)));
    replaced.data()
}

/// Returns an `EXPLAIN` that knows that its plan was optimized: that is not encoded.
fn optimized(plan: LogicalPlan) -> LogicalPlan {
    match plan {
        LogicalPlan::Explain(explain) => {
            // The physical planner adds the logical plan, if it was optimized.
            LogicalPlan::Explain(Explain { stringified_plans: vec![], logical_optimization_succeeded: true, ..explain })
        }
        other => other,
    }
}

/// A plan that runs with the memory, the disk and the options of this library, whatever asks for its rows.
#[derive(Debug)]
struct HostedExec {
    plan: Arc<dyn ExecutionPlan>,
    context: Arc<TaskContext>,
    /// Whether the plan is on its way to the other library, which encodes the inputs of operators one by one.
    is_packed: bool,
}

impl DisplayAs for HostedExec {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AnnulusExec")
    }
}

impl ExecutionPlan for HostedExec {
    fn name(&self) -> &str {
        "AnnulusExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.plan.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        if self.is_packed { vec![] } else { vec![&self.plan] }
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        if self.is_packed { vec![] } else { vec![true] }
    }

    fn apply_expressions(
        &self,
        _visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, mut plans: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        match (plans.pop(), plans.is_empty()) {
            (Some(plan), true) => Ok(Arc::new(Self { plan, context: Arc::clone(&self.context), is_packed: false })),
            (None, _) if self.is_packed => Ok(self),
            _ => exec_err!("AnnulusExec has one input"),
        }
    }

    fn execute(&self, partition: usize, _context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.plan.execute(partition, Arc::clone(&self.context))
    }
}

/// Passes whole plans, each as one operator.
#[derive(Debug)]
struct PlanCodec;

impl PhysicalExtensionCodec for PlanCodec {
    fn try_decode(
        &self,
        buffer: &[u8],
        _inputs: &[Arc<dyn ExecutionPlan>],
        _context: &TaskContext,
        _converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        PLANS.take(buffer)
    }

    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        buffer: &mut Vec<u8>,
        _converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        let Some(HostedExec { plan, context, .. }) = node.downcast_ref() else {
            return not_impl_err!("{} is not a plan of Annulus", node.name());
        };
        let (plan, context) = (Arc::clone(plan), Arc::clone(context));
        PLANS.put(Arc::new(HostedExec { plan, context, is_packed: false }), buffer);
        Ok(())
    }
}

/// Passes tables that their own library does not describe, such as those in its memory.
#[derive(Debug)]
struct TableCodec;

impl LogicalExtensionCodec for TableCodec {
    fn try_decode(&self, _buffer: &[u8], _inputs: &[LogicalPlan], _context: &TaskContext) -> Result<Extension> {
        not_impl_err!("nodes of other libraries")
    }

    fn try_encode(&self, _node: &Extension, _buffer: &mut Vec<u8>) -> Result<()> {
        not_impl_err!("nodes of other libraries")
    }

    fn try_decode_table_provider(
        &self,
        buffer: &[u8],
        _name: &TableReference,
        _schema: SchemaRef,
        _context: &TaskContext,
    ) -> Result<Arc<dyn TableProvider>> {
        TABLES.take(buffer)
    }

    fn try_encode_table_provider(
        &self,
        _name: &TableReference,
        table: Arc<dyn TableProvider>,
        buffer: &mut Vec<u8>,
    ) -> Result<()> {
        TABLES.put(table, buffer);
        Ok(())
    }
}
