//! Plans a join: the units that each host reads, the algorithm, and the memory of a host.

use std::{
    cmp::Reverse,
    num::NonZeroUsize,
    time::{SystemTime, UNIX_EPOCH},
};

use annulus_dataset::{Dataset, Extent, MixedColumn, Unit};
use annulus_join::{Side, Sides};
use annulus_roundabout::FRAGMENT_BYTES;
use arrow::datatypes::SchemaRef;

use super::{
    decide::{Decided, Deciding},
    key_filter::{self, KeyFilterDecision, KeyFilterReason},
    memory::kept_bytes,
};
use crate::{
    control::{Files, InputTask, MOST_REVOLUTIONS, MOST_THREADS, schema_to},
    error::ClusterError,
    job::{Algorithm, Input, Inputs, JoinJob, JoinOptions, KeyFilterMode, LEAST_TIMEOUT, Query, Revolutions},
    plan::{self, Choice, Condition, Shown},
};

/// The plan of a join: the same for all hosts, apart from what they read.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Planned {
    /// The rotating relation, and the algorithm.
    pub choice: Choice,
    /// The plan as SQL text.
    pub shown: Shown,
    /// The columns of the result.
    pub columns: SchemaRef,
    /// The rows and bytes that are read of the left and the right side.
    pub extents: Sides<Extent>,
    /// The bytes of the input files, as [`HostProgress::bytes_done`](crate::HostProgress) counts
    /// them on all hosts: those of the rotating relation once for each revolution.
    pub work_bytes: u64,
    /// The number of hosts.
    pub hosts: usize,
    /// Whether the only host runs the join as a query of DataFusion, without a ring.
    pub is_single: bool,
    /// The number of revolutions.
    pub revolutions: usize,
    /// An estimate of the memory of each host, in bytes.
    pub memory_per_host: u64,
    /// The most bytes of prepared rotating rows that each host keeps in memory between revolutions.
    /// It keeps the others on disk.
    pub kept_bytes: u64,
    /// Whether hosts make a key filter, as far as it is known.
    pub key_filter: KeyFilterReason,
    /// The columns of both sides' CSV files that are text because of a few values.
    pub mixed: Sides<Vec<MixedColumn>>,
    /// The query as hosts get it.
    pub(super) query: Query,
    /// The time that functions like `now()` return on all hosts, in nanoseconds since 1970.
    pub(super) now_ns: i64,
    /// The part of the left and the right input that each host reads.
    pub(super) inputs: Vec<Sides<InputTask>>,
}

impl Planned {
    /// Decides about the key filter when a part of the stationary relation has `build_rows` rows on
    /// all hosts.
    pub(super) fn key_filter(&self, mode: KeyFilterMode, build_rows: u64) -> KeyFilterDecision {
        let stationary = self.choice.rotate.other();
        let sizes = key_filter::Sizes {
            hosts: self.hosts,
            revolutions: self.revolutions,
            whole: self.extents[stationary],
            is_reduced: !self.shown.dropped[stationary].is_empty(),
            rotating: self.extents[self.choice.rotate],
            // Between revolutions hosts keep rotating rows, too.
            most_bytes: if self.revolutions > 1 { self.kept_bytes / 4 } else { self.kept_bytes },
        };
        key_filter::decide(mode, self.key_filter, &sizes, build_rows)
    }
}

/// Plans a join on `hosts` hosts. Reads the metadata and a few batches of both inputs.
///
/// # Errors
/// If an input cannot be read, or lies in the output folder, the query is invalid, or hosts would
/// need more memory than they may use.
pub fn plan(job: &JoinJob, hosts: usize) -> Result<Planned, ClusterError> {
    if !(1..=MOST_HOSTS).contains(&hosts) {
        return Err(ClusterError::Option { option: "hosts", reason: format!("must be from 1 to {MOST_HOSTS}") });
    }
    check(&job.options)?;
    if job.query.suffix.is_empty() {
        let reason = "must not be empty: both sides may have a column of the same name".to_owned();
        return Err(ClusterError::Option { option: "suffix", reason });
    }
    let query = &in_small_units(&job.query);
    let [left, right] = [open(&query.left)?, open(&query.right)?];
    // A dataset to be overwritten is deleted before the inputs are read.
    for side in [&left, &right] {
        side.refuse_inputs_in(&job.output)?;
    }
    query.refuse_nested(&job.output, job.format)?;
    check_types(query, [&left, &right])?;
    let now_ns = nanoseconds_since_1970();
    let condition = Condition::new(query, &left.schema, &right.schema, now_ns)?;
    // The columns that are read do not depend on the choice.
    let read = plan::bind(&condition, query, Side::Right, Algorithm::Loops)?.scans.map(|scan| scan.columns);
    let sides = Sides { left: &left, right: &right };
    let decided = Deciding { condition: &condition, query, options: &job.options, hosts, sides }.decide(&read)?;
    let Decided { choice, bound, extents, is_single, revolutions, memory_per_host } = decided;
    let columns = bound.schema()?;
    let parts = NonZeroUsize::new(revolutions).unwrap_or(NonZeroUsize::MIN);
    let mut key_filter = key_filter::plan(&job.options, &bound, parts)?;
    if is_single && key_filter == KeyFilterReason::Undecided {
        key_filter = KeyFilterReason::AtScan;
    }
    let whole = |dataset: &Dataset| -> Result<InputTask, ClusterError> {
        Ok(InputTask { schema: schema_to(&dataset.schema)?, units: None, files: Files::of(dataset) })
    };
    let mut inputs = vec![Sides { left: whole(&left)?, right: whole(&right)? }; hosts];
    if job.options.inputs == Inputs::Shared {
        let shares = shares(&left.units, hosts).into_iter().zip(shares(&right.units, hosts));
        for (Sides { left, right }, shares) in inputs.iter_mut().zip(shares) {
            (left.units, right.units) = (Some(shares.0), Some(shares.1));
        }
    }
    let sizes = Sides { left: left.total_bytes, right: right.total_bytes };
    let (in_each, once) = sizes.one_and_other(choice.rotate);
    // If each host has its own files, the files seen here are those of one host.
    let copies = if job.options.inputs == Inputs::Each { hosts as u64 } else { 1 };
    Ok(Planned {
        query: query.clone(),
        now_ns,
        choice,
        shown: bound.shown,
        columns,
        extents,
        work_bytes: (once + in_each * revolutions as u64) * copies,
        hosts,
        is_single,
        revolutions,
        memory_per_host,
        key_filter,
        kept_bytes: kept_bytes(job.options.memory_bytes, memory_per_host),
        mixed: Sides { left: left.mixed, right: right.mixed },
        inputs,
    })
}

/// Refuses a type for a column that neither side has.
pub(crate) fn check_types(query: &Query, sides: [&Dataset; 2]) -> Result<(), ClusterError> {
    let has = |column: &str| sides.iter().any(|side| side.schema.field_with_name(column).is_ok());
    let given = [&query.left, &query.right].into_iter().flat_map(|input| &input.options.types.columns);
    match given.map(|(column, _)| column).find(|column| !has(column)) {
        None => Ok(()),
        Some(column) => {
            let reason = format!("no input has a column '{column}'");
            Err(ClusterError::Option { option: "types", reason })
        }
    }
}

fn check(options: &JoinOptions) -> Result<(), ClusterError> {
    let refuse = |option, reason: String| Err(ClusterError::Option { option, reason });
    if options.timeout < LEAST_TIMEOUT {
        return refuse("timeout", format!("must be at least {} s", LEAST_TIMEOUT.as_secs()));
    }
    if options.threads.is_some_and(|threads| !(1..=MOST_THREADS).contains(&threads)) {
        return refuse("threads", format!("must be from 1 to {MOST_THREADS}"));
    }
    if !FRAGMENT_BYTES.contains(&options.fragment_bytes) {
        return refuse("fragment_size", "must be from 4K to 1G".to_owned());
    }
    match options.revolutions {
        Revolutions::Exactly(revolutions) if !(1..=MOST_REVOLUTIONS).contains(&revolutions) => {
            refuse("revolutions", format!("must be from 1 to {MOST_REVOLUTIONS}"))
        }
        _ => Ok(()),
    }
}

/// Returns the current time, limited to the years 1970 to 2262.
pub(crate) fn nanoseconds_since_1970() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

const MOST_HOSTS: usize = 64;

/// Returns the same query over inputs that are read in small units, so that hosts can share few
/// files.
pub(crate) fn in_small_units(query: &Query) -> Query {
    let mut query = query.clone();
    for input in [&mut query.left, &mut query.right] {
        (input.options.unit_bytes, input.options.unit_rows) = (UNIT_BYTES, Some(UNIT_ROWS));
    }
    query
}

const UNIT_BYTES: usize = 512 << 10;
const UNIT_ROWS: usize = 64 << 10;

pub(crate) fn open(input: &Input) -> Result<Dataset, ClusterError> {
    let dataset = Dataset::open(&input.paths, &input.options)?;
    if dataset.fingerprint.is_some() {
        return Ok(dataset);
    }
    let reason = "hosts cannot share standard input; put it into a file".to_owned();
    Err(ClusterError::Option { option: "LEFT and RIGHT", reason })
}

/// Assigns units to hosts, so that hosts have about the same number of rows, or of bytes where rows
/// are not known. The largest unit goes first, to the host that has least.
fn shares(units: &[Unit], hosts: usize) -> Vec<Vec<usize>> {
    let weight = |unit: &Unit| unit.rows().unwrap_or_else(|| unit.bytes());
    let mut order: Vec<&Unit> = units.iter().collect();
    order.sort_by_key(|unit| Reverse(weight(unit)));
    let mut shares = vec![(0, Vec::new()); hosts];
    for unit in order {
        if let Some((held, share)) = shares.iter_mut().min_by_key(|(held, share)| (*held, share.len())) {
            *held += weight(unit);
            share.push(unit.index());
        }
    }
    let sorted = shares.into_iter().map(|(_, mut share)| {
        share.sort_unstable();
        share
    });
    sorted.collect()
}
