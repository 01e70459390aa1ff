//! On-demand partitioning (paper, section 3.4.1): each tuple goes to its page at once.

use annulus_pages::{
    PagesError,
    target::{PartitionOf, with_target},
};

use super::{
    Job, Partitioner, Shuffled, check_job,
    crew::{blocks, each_batch, on_threads},
    one_tuple,
};
use crate::manager::{Writer, lock::Lock, places::Places};

/// Writes each tuple by itself, over the lock-based page manager.
#[derive(Clone, Copy, Debug)]
pub struct OnDemand;

impl Partitioner for OnDemand {
    fn name(&self) -> &'static str {
        "OnDemand"
    }

    fn shuffle(&self, job: &Job<'_>) -> Result<Shuffled, PagesError> {
        check_job(job)?;
        let places = Places::new(job.shape, job.memory, blocks(job, |_| 1)?);
        on_threads(job.threads, |thread, stop| {
            let mut writer = Lock(&places);
            each_batch(job, thread, stop, |tuples| {
                with_target!(job.partitions, |target| {
                    for (index, &key) in tuples.keys().iter().enumerate() {
                        let payload = tuples.payload(index);
                        one_tuple(key, payload, &job.shape, |run| writer.insert(target.of(key), run))?;
                    }
                });
                Ok(())
            })
        })?;
        Ok(Shuffled { partitions: places.finish() })
    }
}
