//! Connects the streams of the inputs to the streams of the outputs through the exchange.
//!
//! ```text
//! input stream --feed (a task)--> Producer ... Consumer --OutputStream--> executor of the partition
//! ```
//! Ownership decides when the parts end:
//! - The output streams own the tasks. When the last stream is dropped, the tasks are aborted, and
//!   their reservations and files are freed.
//! - The operator owns the consumers of partitions that have not been executed yet. While there are
//!   any, it shares the ownership of the tasks, because these rows are still needed. Until they are
//!   read, the full exchange holds the inputs back.

mod feed;
mod flush;
mod output;
mod overflow;

use std::sync::Arc;

use annulus_exchange::{ExchangeConfig, exchange};
use datafusion::{
    common::{internal_datafusion_err, internal_err, runtime::SpawnedTask},
    error::Result,
    execution::TaskContext,
    physical_expr::PhysicalExpr,
    physical_plan::{
        ExecutionPlan, ExecutionPlanProperties, SendableRecordBatchStream, SpillManager,
        coop::cooperative,
        metrics::{BaselineMetrics, SpillMetrics},
    },
};
use parking_lot::Mutex;

pub(crate) use self::flush::Flush;
use self::{
    feed::{Feed, InputBudget, Times},
    output::{OutputStream, Receiver},
    overflow::SessionOverflow,
};
use crate::{error::from_exchange, metrics::NodeMetrics};

/// The parts from which an exchange is built.
pub(crate) struct Setup<'a> {
    pub(crate) input: &'a Arc<dyn ExecutionPlan>,
    pub(crate) exprs: &'a [Arc<dyn PhysicalExpr>],
    pub(crate) config: ExchangeConfig,
    /// The time after which rows in an incomplete batch are returned, for unbounded input.
    pub(crate) flush: Option<Flush>,
    pub(crate) metrics: &'a NodeMetrics,
}

/// One execution of the operator.
pub(crate) struct Bridge {
    /// The partitions that have not been executed yet.
    waiting: Vec<Option<Receiver>>,
    /// The number of these partitions.
    left: usize,
    /// Held until all partitions have been executed.
    inputs: Option<Arc<Inputs>>,
}

impl Bridge {
    /// Executes the inputs (without polling them) and creates the exchange.
    ///
    /// # Errors
    /// If an input cannot be executed, or an option is invalid.
    pub(crate) fn open(setup: &Setup<'_>, context: &Arc<TaskContext>) -> Result<Self> {
        let partitions = setup.input.output_partitioning().partition_count();
        let streams = (0..partitions).map(|partition| setup.input.execute(partition, Arc::clone(context)));
        let streams = streams.collect::<Result<Vec<_>>>()?;

        let schema = setup.input.schema();
        let metrics = setup.metrics.exchange();
        // One set of counters for all partitions: they are summed anyway, and most partitions never spill.
        let spill_metrics = SpillMetrics::new(&setup.metrics.common, 0);
        let spill = SpillManager::new(context.runtime_env(), spill_metrics, Arc::clone(&schema))
            .with_compression_type(context.session_config().spill_compression());
        let overflow = SessionOverflow::new(context, spill, setup.config.consumers, metrics.peak_memory.clone());
        let overflow = Arc::new(overflow);
        let (producers, consumers) =
            exchange(&setup.config, Arc::clone(&schema), Arc::clone(&overflow) as _).map_err(from_exchange)?;

        let feeds = streams.into_iter().zip(producers).enumerate().map(|(partition, (input, producer))| {
            let times = Times::new(&setup.metrics.common, partition);
            // An input's share of what the exchange holds.
            let budget = InputBudget { batches: setup.config.groups + 1 };
            Feed::new(input, Arc::clone(&schema), setup.exprs.to_vec(), producer, times, metrics.clone(), budget)
        });
        let inputs = Arc::new(Inputs(Mutex::new(InputState::Opened(feeds.collect()))));
        let waiting = consumers.into_iter().enumerate().map(|(partition, consumer)| {
            let (overflow, metrics) = (Arc::clone(&overflow), metrics.clone());
            Some(Receiver { consumer, partition, spilled: None, overflow, metrics })
        });
        Ok(Self { waiting: waiting.collect(), left: setup.config.consumers, inputs: Some(inputs) })
    }

    /// Takes the stream of `partition`, once.
    ///
    /// # Errors
    /// If it was taken before, or there is no such partition.
    pub(crate) fn take(&mut self, partition: usize, setup: &Setup<'_>) -> Result<SendableRecordBatchStream> {
        let Some(slot) = self.waiting.get_mut(partition) else {
            return internal_err!("partition {partition} of {} does not exist", self.waiting.len());
        };
        let (receiver, inputs) = slot.take().zip(self.inputs.clone()).ok_or_else(|| {
            internal_datafusion_err!("partition {partition} was executed twice without reset_state in between")
        })?;
        self.left -= 1;
        if self.left == 0 {
            self.inputs = None;
        }
        let baseline = BaselineMetrics::new(&setup.metrics.common, partition);
        let stream = OutputStream::new(setup.input.schema(), receiver, inputs, setup.flush.clone(), baseline);
        Ok(Box::pin(cooperative(stream)))
    }
}

/// The inputs. They run from the first poll of an output until the last owner is dropped.
pub(crate) struct Inputs(Mutex<InputState>);

/// The inputs before and after their start.
enum InputState {
    Opened(Vec<Feed>),
    Running { _tasks: Vec<SpawnedTask<()>> },
}

impl Inputs {
    /// Starts a task for each input, unless they run already.
    pub(crate) fn start(&self) {
        let mut state = self.0.lock();
        if let InputState::Opened(feeds) = &mut *state {
            let tasks = feeds.drain(..).map(|feed| SpawnedTask::spawn(feed.run())).collect();
            *state = InputState::Running { _tasks: tasks };
        }
    }
}
