//! How the output partitions of a join share the rows of its right side, and the threads.

mod common;

use std::{
    fmt,
    sync::{Arc, Condvar, Mutex},
    time::Duration,
};

use annulus_datafusion::LoopJoinExec;
use arrow::{
    array::{AsArray, RecordBatch},
    compute::sum,
    datatypes::{Int64Type, SchemaRef},
};
use common::{
    Plan, Step,
    bands::{band, stock},
    batch, context, rows, schema, scripted, within,
};
use datafusion::{
    common::{JoinType, exec_err},
    execution::{SendableRecordBatchStream, TaskContext, runtime_env::RuntimeEnv},
    physical_plan::{
        common::collect,
        stream::RecordBatchStreamAdapter,
        streaming::{PartitionStream, StreamingTableExec},
    },
};
use futures::{StreamExt, future::try_join_all, stream};

/// Returns a band join and a join by nested loops with the right sides that `right` makes.
fn joins(right: impl Fn() -> Plan) -> [Plan; 2] {
    let all = stock((rows(1, 1, 1).0, right()), JoinType::Inner, (1 << 40, 1 << 40), None);
    let looped = LoopJoinExec::try_new(&all, "a test").unwrap().unwrap();
    [band((rows(2, 4, 50_000).0, right()), JoinType::Inner), Arc::new(looped)]
}

#[tokio::test]
async fn one_output_reads_what_another_leaves() {
    let rows_of =
        |batches: i64, first| (0..batches).map(move |index| Step::Batch(batch(first + index * 50_000, 50_000)));
    let right = || scripted(vec![rows_of(7, 0).collect(), rows_of(1, 350_000).collect()]).0;
    let two = || context(Arc::new(RuntimeEnv::default()), 8192);
    for (shared, apart) in joins(right).into_iter().zip(joins(right)) {
        let [context, apart_context] = [two(), common::apart(&two())];
        let expected = [0, 1].map(|partition| apart.execute(partition, Arc::clone(&apart_context)).unwrap());
        let expected = try_join_all(expected.map(collect)).await.unwrap();
        let mut first = shared.execute(0, Arc::clone(&context)).unwrap();
        let second = shared.execute(1, context).unwrap();
        let mut found = vec![within("a batch", first.next()).await.unwrap().unwrap()];
        let of_second = within("the second", collect(second)).await.unwrap();
        assert!(number_and_sum(&of_second).0 > 2 * number_and_sum(&expected[1]).0, "{}", shared.name());
        found.extend(within("the first", collect(first)).await.unwrap());
        found.extend(of_second);
        assert_eq!(number_and_sum(&found), number_and_sum(&expected.concat()), "{}", shared.name());
    }
}

/// Returns the number of rows, and the sum of the last column, which is different in each row of the
/// right side.
fn number_and_sum(batches: &[RecordBatch]) -> (usize, i64) {
    let of_batch = |batch: &RecordBatch| sum(batch.column(3).as_primitive::<Int64Type>()).unwrap_or_default();
    (batches.iter().map(RecordBatch::num_rows).sum(), batches.iter().map(of_batch).sum())
}

/// Partitions whose first batches come when all of them have been asked for, each on a thread of its
/// own.
#[derive(Clone)]
struct Meeting {
    schema: SchemaRef,
    missing: Arc<(Mutex<usize>, Condvar)>,
}

impl fmt::Debug for Meeting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Meeting")
    }
}

impl PartitionStream for Meeting {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let missing = Arc::clone(&self.missing);
        let first = async move {
            let (missing, all) = &*missing;
            let mut left = missing.lock().expect("no panic");
            *left -= 1;
            all.notify_all();
            let left = all.wait_timeout_while(left, Duration::from_secs(60), |left| *left > 0).expect("no panic");
            if left.1.timed_out() { exec_err!("{} partitions do not run", left.0) } else { Ok(batch(0, 50)) }
        };
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), stream::once(first)))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_outputs_run_once_the_left_side_is_there() {
    let right = || -> Plan {
        let meeting = Meeting { schema: schema(), missing: Arc::new((Mutex::new(2), Condvar::new())) };
        let partitions: Vec<Arc<dyn PartitionStream>> = vec![Arc::new(meeting.clone()), Arc::new(meeting)];
        Arc::new(StreamingTableExec::try_new(schema(), partitions, None, [], false, None).unwrap())
    };
    for join in joins(right) {
        let context = context(Arc::new(RuntimeEnv::default()), 8192);
        let streams: Vec<_> = (0..2).map(|partition| join.execute(partition, Arc::clone(&context)).unwrap()).collect();
        let tasks = streams.into_iter().map(|stream| tokio::spawn(collect(stream)));
        let found = try_join_all(tasks).await.unwrap();
        for found in found {
            found.unwrap_or_else(|error| panic!("{}: {error}", join.name()));
        }
    }
}
