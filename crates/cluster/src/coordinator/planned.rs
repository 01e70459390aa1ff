//! Which host reads what, what it needs for it, and how it joins.

use std::{cmp::Reverse, num::NonZeroUsize, thread};

use annulus_dataset::input::{Dataset, Extent, Unit};
use annulus_join::types::Side;
use annulus_roundabout::config::FRAGMENT_BYTES;

use crate::{
    control::{Files, MOST_REVOLUTIONS, MOST_THREADS, schema_to},
    error::{ClusterError, mebibytes},
    host::wave_bytes,
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
    /// Bytes of the inputs' files.
    pub input_bytes: u64,
    /// Hosts of the ring.
    pub hosts: usize,
    /// How often it turns.
    pub revolutions: usize,
    /// Bytes of memory that each host needs, about.
    pub memory_per_host: u64,
    /// As hosts are told it.
    pub(super) query: Query,
    pub(super) schemas: [Vec<u8>; 2],
    /// For each host its units of the left and the right side; all of what it sees if none are named.
    pub(super) units: Vec<[Option<Vec<usize>>; 2]>,
    pub(super) files: [Files; 2],
}

/// An entry of a hash table and its share of the directory.
const TABLE_BYTES: u64 = 24;
/// Rows that go around are read, prepared and waiting to be sent.
const WAVES: u64 = 3;
/// What a host needs that does not depend on its rows.
const BASE_BYTES: u64 = 96 << 20;
/// A column of a Parquet file that is being written: a dictionary, a page, and the page compressed.
const WRITTEN_COLUMN_BYTES: u64 = 5 << 19;

/// Looks at both inputs, and plans their join on so many hosts.
///
/// # Errors
/// If an input cannot be read, or lies in the output folder, the condition is none, or hosts would need more memory than they may use.
pub fn plan(job: &JoinJob, hosts: usize) -> Result<Planned, ClusterError> {
    if !(1..=MOST_HOSTS).contains(&hosts) {
        return Err(ClusterError::Option { option: "hosts", reason: format!("must be from 1 to {MOST_HOSTS}") });
    }
    check(&job.options)?;
    if job.query.suffix.is_empty() {
        let reason = "must not be empty: columns of both sides may have the same name".to_owned();
        return Err(ClusterError::Option { option: "--suffix", reason });
    }
    let query = &in_small_units(&job.query);
    let [left, right] = [open(&query.left)?, open(&query.right)?];
    // What is to be overwritten goes before the inputs are read.
    for side in [&left, &right] {
        side.refuse_inputs_in(&job.output)?;
    }
    let condition = Condition::new(query, &left.schema, &right.schema)?;
    let all = |dataset: &Dataset| dataset.extent(&(0..dataset.schema.fields().len()).collect::<Vec<_>>());
    // Where each host has files, those seen here are one host's.
    let copies = if job.options.inputs == Inputs::Each { hosts as u64 } else { 1 };
    let of_all = |Extent { rows, bytes }| Extent { rows: rows * copies, bytes: bytes * copies };
    let choice = plan::choose(&condition, &job.options, [all(&left)?, all(&right)?], hosts)?;
    let bound = plan::bind(&condition, query, choice.rotate, choice.algorithm)?;
    let extents = [left.extent(&bound.scans[0].columns)?, right.extent(&bound.scans[1].columns)?].map(of_all);
    let columns_out = bound.output.left_columns.len() + bound.output.right_columns.len();
    let needs = Needs::new(job, &choice, extents, hosts as u64, columns_out as u64);
    let (revolutions, memory_per_host) = needs.revolutions(job)?;
    let units = match job.options.inputs {
        Inputs::Each => vec![[None, None]; hosts],
        Inputs::Shared => {
            let (left, right) = (shares(&left.units, hosts), shares(&right.units, hosts));
            left.into_iter().zip(right).map(|(left, right)| [Some(left), Some(right)]).collect()
        }
    };
    Ok(Planned {
        query: query.clone(),
        choice,
        shown: bound.shown,
        extents,
        input_bytes: (left.total_bytes + right.total_bytes) * copies,
        hosts,
        revolutions,
        memory_per_host,
        schemas: [schema_to(&left.schema)?, schema_to(&right.schema)?],
        units,
        files: [Files::of(&left), Files::of(&right)],
    })
}

fn check(options: &JoinOptions) -> Result<(), ClusterError> {
    let refuse = |option, reason: String| Err(ClusterError::Option { option, reason });
    if options.timeout < LEAST_TIMEOUT {
        return refuse("--timeout", format!("must be at least {} s", LEAST_TIMEOUT.as_secs()));
    }
    if options.threads.is_some_and(|threads| !(1..=MOST_THREADS).contains(&threads)) {
        return refuse("--threads", format!("must be from 1 to {MOST_THREADS}"));
    }
    if !FRAGMENT_BYTES.contains(&options.fragment_bytes) {
        return refuse("--fragment-size", "must be from 4K to 1G".to_owned());
    }
    match options.revolutions {
        Revolutions::Exactly(revolutions) if !(1..=MOST_REVOLUTIONS).contains(&revolutions) => {
            refuse("--revolutions", format!("must be from 1 to {MOST_REVOLUTIONS}"))
        }
        _ => Ok(()),
    }
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

/// Each host's units, of about the same number of rows, or bytes where rows are not known: the largest first, to whoever has least.
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

/// What hosts need memory for, in bytes.
struct Needs {
    hosts: u64,
    /// Rows that stay, of all hosts.
    build: u64,
    /// What they are found by, of all hosts.
    tables: u64,
    /// Rows on their way through each host: read, sent around, and written.
    passing: u64,
    /// What else each host needs.
    base: u64,
}

impl Needs {
    fn new(job: &JoinJob, choice: &Choice, [left, right]: [Extent; 2], hosts: u64, columns_out: u64) -> Self {
        let (build, probe) = if choice.rotate == Side::Left { (right, left) } else { (left, right) };
        let tables = if choice.algorithm == Algorithm::Loops { 0 } else { build.rows * TABLE_BYTES };
        let (fragment_bytes, buffers) = (job.options.fragment_bytes, u64::from(job.options.buffers));
        // The last rows of a wave may be all but one of a unit too many.
        let unit = probe.bytes / probe.rows.div_ceil(UNIT_ROWS as u64).max(1);
        let waves = WAVES * (wave_bytes(fragment_bytes, job.options.memory_bytes) + unit);
        // Each thread has a file. Other machines may have other cores than this one.
        let threads =
            job.options.threads.unwrap_or_else(|| thread::available_parallelism().map_or(1, NonZeroUsize::get));
        let files = threads as u64 * columns_out * WRITTEN_COLUMN_BYTES;
        // The allocator keeps some of what comes and goes.
        let passing = (waves + files) / 2 * 3;
        Self { hosts, build: build.bytes, tables, passing, base: buffers * u64::from(fragment_bytes) + BASE_BYTES }
    }

    /// While what stays is prepared, its rows are there twice; then others come by.
    fn each(&self, revolutions: u64) -> u64 {
        let share = |bytes: u64| (bytes / revolutions).div_ceil(self.hosts);
        let build = share(self.build);
        self.base + share(self.tables) + (2 * build).max(build + self.passing)
    }

    /// How many hosts would each need no more than this besides what does not depend on their rows.
    fn enough(&self, revolutions: u64, room: u64) -> u64 {
        let least = |bytes: u64, room: u64| (bytes / revolutions).div_ceil(room.max(1));
        least(2 * self.build + self.tables, room).max(least(self.build + self.tables, room - self.passing))
    }

    /// How often the ring turns, and what each host then needs.
    fn revolutions(&self, job: &JoinJob) -> Result<(usize, u64), ClusterError> {
        let limit = job.options.memory_bytes.unwrap_or(u64::MAX);
        let without_rows = self.base + self.passing;
        if limit <= without_rows {
            let reason = format!(
                "is {}, and a host needs {} besides the rows that stay there; allow more, or have fewer threads, or fewer or \
                 smaller buffers (--threads, --buffers, --fragment-size)",
                mebibytes(limit),
                mebibytes(without_rows)
            );
            return Err(ClusterError::Option { option: "--memory-limit", reason });
        }
        let revolutions = match job.options.revolutions {
            Revolutions::Exactly(revolutions) => revolutions as u64,
            Revolutions::Auto => {
                let fits = |&revolutions: &u64| self.each(revolutions) <= limit;
                (1..MOST_SENSIBLE).find(fits).unwrap_or(MOST_SENSIBLE)
            }
        };
        let needed = self.each(revolutions);
        if needed <= limit {
            return Ok((revolutions as usize, needed));
        }
        let (hosts, enough) = (self.hosts as usize, self.enough(revolutions, limit - self.base));
        let more_revolutions = revolutions < MOST_SENSIBLE && job.options.revolutions != Revolutions::Auto;
        Err(ClusterError::Memory { hosts, needed, limit, enough, more_revolutions })
    }
}

/// More parts would be of too few rows.
const MOST_SENSIBLE: u64 = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    /// What is told to those who allow too little is enough, and no more than that.
    #[test]
    fn hosts_that_are_said_to_be_enough_are() {
        let needs = |hosts| Needs { hosts, build: 10 << 30, tables: 1 << 30, passing: 300 << 20, base: 100 << 20 };
        for limit in [401 << 20, 500 << 20, 700 << 20, 1 << 30, 5 << 30] {
            for revolutions in [1, 3] {
                let enough = needs(1).enough(revolutions, limit - needs(1).base);
                assert!(needs(enough).each(revolutions) <= limit + 2, "{enough} hosts, {limit} bytes");
                assert!(enough == 1 || needs(enough - 1).each(revolutions) > limit, "{enough} hosts, {limit} bytes");
            }
        }
    }
}
