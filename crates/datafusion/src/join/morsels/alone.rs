//! The rows of the left side that a join outputs alone, after all pairs.

use std::{ops::Range, sync::Arc};

use annulus_join::BATCH_ROWS;
use datafusion::error::Result;

use super::{
    build::Build,
    left::Part,
    method::Method,
    metrics::ProbeMetrics,
    probe::{Ready, into},
};
use crate::error::from_join;

/// The parts of the left side whose rows are output alone.
pub(super) struct UnpairedOutput<M: Method> {
    build: Arc<Build<M>>,
    part: Option<Arc<Part<M>>>,
    number: usize,
    rows: Range<usize>,
}

impl<M: Method> UnpairedOutput<M> {
    /// Begins with the first part.
    pub(super) fn new(build: Arc<Build<M>>) -> Self {
        Self { build, part: None, number: 0, rows: 0..0 }
    }

    /// Outputs some rows, and returns whether there may be more.
    ///
    /// # Errors
    /// If a part cannot be read.
    pub(super) async fn step(&mut self, method: &Arc<M>, ready: &Ready, metrics: &ProbeMetrics) -> Result<bool> {
        let Self { build, part, number, rows } = self;
        let Some(left) = part else {
            if *number == build.left.parts() {
                return Ok(false);
            }
            let loaded = build.left.part(&**method, &build.output, *number).await?;
            build.left.mark(*number, &loaded)?;
            *rows = 0..M::left_batch(&loaded.left).num_rows();
            *part = Some(loaded);
            return Ok(true);
        };
        let _compute = metrics.baseline.elapsed_compute().timer();
        let end = rows.end.min(rows.start + BATCH_ROWS);
        build.output.build_alone(&left.rows, rows.start..end, into(method, ready)).map_err(from_join)?;
        rows.start = end;
        if rows.start == rows.end {
            (*part, *number) = (None, *number + 1);
        }
        Ok(true)
    }
}
