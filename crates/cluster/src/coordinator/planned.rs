//! Which host reads what, what it needs for it, and how it joins.

use std::{
    cmp::Reverse,
    time::{SystemTime, UNIX_EPOCH},
};

use annulus_dataset::{Dataset, Extent, Unit};
use annulus_join::{BuildSide, Partitions, Side};
use annulus_roundabout::FRAGMENT_BYTES;

use super::memory::{Needs, Sizes, largest_unit};
use crate::{
    control::{Files, MOST_REVOLUTIONS, MOST_THREADS, schema_to},
    error::ClusterError,
    job::{Algorithm, Input, Inputs, JoinJob, JoinOptions, LEAST_TIMEOUT, Query, Revolutions},
    plan::{self, Choice, Condition, Shown},
};

/// A plan of a join, the same for all hosts but for what they read.
#[derive(Clone, Debug)]
pub struct Planned {
    /// Which side goes around, and how hosts find pairs.
    pub choice: Choice,
    /// The condition, by who looks at it.
    pub shown: Shown,
    /// Rows and bytes of the left and the right side, as far as they are read.
    pub extents: [Extent; 2],
    /// Bytes that all hosts read of the inputs' files: what goes around is read in each revolution.
    pub input_bytes: u64,
    /// Hosts of the ring.
    pub hosts: usize,
    /// How often it turns.
    pub revolutions: usize,
    /// Bytes of memory that each host needs, about.
    pub memory_per_host: u64,
    /// As hosts are told it.
    pub(super) query: Query,
    /// What `now()` is on all hosts, in nanoseconds since 1970.
    pub(super) now_ns: i64,
    pub(super) schemas: [Vec<u8>; 2],
    /// For each host its units of the left and the right side; all of what it sees if none are
    /// named.
    pub(super) units: Vec<[Option<Vec<usize>>; 2]>,
    pub(super) files: [Files; 2],
}

/// Looks at both inputs, and plans their join on so many hosts.
///
/// # Errors
/// If an input cannot be read, or lies in the output folder, the condition is none, or hosts would
/// need more memory than they may use.
pub fn plan(job: &JoinJob, hosts: usize) -> Result<Planned, ClusterError> {
    if !(1..=MOST_HOSTS).contains(&hosts) {
        return Err(ClusterError::Option { option: "hosts", reason: format!("must be from 1 to {MOST_HOSTS}") });
    }
    check(&job.options)?;
    if job.query.suffix.is_empty() {
        let reason = "must not be empty: columns of both sides may have the same name".to_owned();
        return Err(ClusterError::Option { option: "suffix", reason });
    }
    let query = &in_small_units(&job.query);
    let [left, right] = [open(&query.left)?, open(&query.right)?];
    // What is to be overwritten goes before the inputs are read.
    for side in [&left, &right] {
        side.refuse_inputs_in(&job.output)?;
    }
    query.refuse_nested(&job.output, job.format)?;
    check_types(query, [&left, &right])?;
    let now_ns = nanoseconds_since_1970();
    let condition = Condition::new(query, &left.schema, &right.schema, now_ns)?;
    let all = |dataset: &Dataset| dataset.extent(&(0..dataset.schema.fields().len()).collect::<Vec<_>>());
    // Where each host has files, those seen here are one host's.
    let copies = if job.options.inputs == Inputs::Each { hosts as u64 } else { 1 };
    let of_all = |Extent { rows, bytes }| Extent { rows: rows * copies, bytes: bytes * copies };
    let choice = plan::choose(&condition, &job.options, [all(&left)?, all(&right)?], hosts)?;
    let bound = plan::bind(&condition, query, choice.rotate, choice.algorithm)?;
    let seen = [left.extent(&bound.scans[0].columns)?, right.extent(&bound.scans[1].columns)?];
    let extents = seen.map(of_all);
    let around = if choice.rotate == Side::Left { 0 } else { 1 };
    let needs = Needs::new(&Sizes {
        options: &job.options,
        hosts: hosts as u64,
        stays: extents[1 - around],
        copies: match choice.algorithm {
            Algorithm::Hash => {
                let rows = extents[1 - around].rows / hosts as u64;
                BuildSide::copies_in_halves(bound.scans[1 - around].schema(), Partitions::for_rows(rows as usize))
            }
            Algorithm::Merge | Algorithm::Loops => 4,
        },
        has_tables: choice.algorithm != Algorithm::Loops,
        unit: largest_unit([&left, &right][around], seen[around]),
        columns_out: bound.output.columns.iter().map(Vec::len).sum::<usize>() as u64,
    });
    let (revolutions, memory_per_host) = needs.revolutions(&job.options)?;
    let units = match job.options.inputs {
        Inputs::Each => vec![[None, None]; hosts],
        Inputs::Shared => {
            let (left, right) = (shares(&left.units, hosts), shares(&right.units, hosts));
            left.into_iter().zip(right).map(|(left, right)| [Some(left), Some(right)]).collect()
        }
    };
    let sizes = [left.total_bytes, right.total_bytes];
    Ok(Planned {
        query: query.clone(),
        now_ns,
        choice,
        shown: bound.shown,
        extents,
        input_bytes: (sizes[1 - around] + sizes[around] * revolutions as u64) * copies,
        hosts,
        revolutions,
        memory_per_host,
        schemas: [schema_to(&left.schema)?, schema_to(&right.schema)?],
        units,
        files: [Files::of(&left), Files::of(&right)],
    })
}

/// A column that is given a type must be one of a side.
fn check_types(query: &Query, sides: [&Dataset; 2]) -> Result<(), ClusterError> {
    let has = |column: &str| sides.iter().any(|side| side.schema.field_with_name(column).is_ok());
    let given = [&query.left, &query.right].into_iter().flat_map(|input| &input.options.types.columns);
    match given.map(|(column, _)| column).find(|column| !has(column)) {
        None => Ok(()),
        Some(column) => {
            let reason = format!("names a column '{column}', and neither side has one of that name");
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

/// The time; 1970 or 2262 by a clock that is before or after these.
fn nanoseconds_since_1970() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

const MOST_HOSTS: usize = 64;

/// The same query over inputs that are read in small units, so that hosts can share few files.
fn in_small_units(query: &Query) -> Query {
    let mut query = query.clone();
    for input in [&mut query.left, &mut query.right] {
        (input.options.unit_bytes, input.options.unit_rows) = (UNIT_BYTES, Some(UNIT_ROWS));
    }
    query
}

const UNIT_BYTES: usize = 512 << 10;
const UNIT_ROWS: usize = 64 << 10;

fn open(input: &Input) -> Result<Dataset, ClusterError> {
    let dataset = Dataset::open(&input.paths, &input.options)?;
    if dataset.fingerprint.is_some() {
        return Ok(dataset);
    }
    let reason = "hosts cannot share standard input; put it into a file".to_owned();
    Err(ClusterError::Option { option: "LEFT and RIGHT", reason })
}

/// Each host's units, of about the same number of rows, or bytes where rows are not known: the
/// largest first, to whoever has least.
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
