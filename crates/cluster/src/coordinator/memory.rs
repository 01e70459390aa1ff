//! Estimates the memory that hosts need for a join.

use annulus_dataset::{Dataset, Extent, Unit};

use crate::{
    error::{ClusterError, mebibytes},
    host::{query_bytes, wave_bytes, writers_bytes},
    job::{JoinOptions, Revolutions, threads_or_cores},
};

/// The bytes of an entry of a hash table and its share of the directory.
const TABLE_BYTES: u64 = 24;
/// The waves of rotating rows in memory: one is read, one prepared, one sent.
const WAVES: u64 = 3;
/// The memory of a host that does not depend on its rows.
const BASE_BYTES: u64 = 96 << 20;
/// The memory of a Parquet column that is being written: a dictionary, a page, and the compressed
/// page.
const WRITTEN_COLUMN_BYTES: u64 = 5 << 19;

/// Returns the bytes of the largest unit of a side. A unit is read as a whole, and a file may have
/// only one.
pub(super) fn largest_unit(dataset: &Dataset, extent: Extent) -> u64 {
    let part = |of: u64, all: u64| (u128::from(extent.bytes) * u128::from(of) / u128::from(all.max(1))) as u64;
    let bytes = |unit: &Unit| match unit.rows() {
        Some(rows) => part(rows, extent.rows),
        None => part(unit.bytes(), dataset.total_bytes),
    };
    dataset.units.iter().map(bytes).max().unwrap_or(0)
}

/// The most bytes of prepared rotating rows that a host without a memory limit keeps between
/// revolutions.
const KEPT_BYTES: u64 = 256 << 20;

/// Returns the most bytes of prepared rotating rows that a host keeps in memory between
/// revolutions: half of what its limit leaves, because `needed` is an estimate.
pub(super) fn kept_bytes(limit: Option<u64>, needed: u64) -> u64 {
    limit.map_or(KEPT_BYTES, |limit| limit.saturating_sub(needed) / 2)
}

/// The sizes that memory depends on.
pub(super) struct Sizes<'a> {
    pub(super) options: &'a JoinOptions,
    pub(super) hosts: u64,
    /// The stationary relation, on all hosts together.
    pub(super) stationary: Extent,
    /// The number of copies of the stationary relation while it is prepared, in halves.
    pub(super) copies: u64,
    /// Whether the stationary relation has tables of its keys.
    pub(super) has_tables: bool,
    /// The largest unit of the rotating relation, in bytes.
    pub(super) unit: u64,
    pub(super) columns_out: u64,
}

/// The memory of hosts by its use, in bytes.
struct Needs {
    hosts: u64,
    /// The stationary rows of all hosts.
    build: u64,
    /// The number of copies of these rows while they are prepared, in halves.
    copies: u64,
    /// The tables of these rows' keys, on all hosts together.
    tables: u64,
    /// The rows that pass through each host: being read, sent around, and written.
    passing: u64,
    /// The other memory of each host.
    base: u64,
}

impl Needs {
    /// Returns what hosts need if each may use `limit` bytes: with more memory, they read and write
    /// more rows at once.
    fn new(sizes: &Sizes<'_>, limit: Option<u64>) -> Self {
        let &Sizes { options, hosts, stationary, copies, has_tables, unit, columns_out } = sizes;
        let (fragment_bytes, buffers) = (options.fragment_bytes, u64::from(options.buffers));
        // A wave may exceed its size by almost one unit.
        let waves = WAVES * (wave_bytes(fragment_bytes, limit) + unit);
        // Each thread has a file. Other machines may have more or fewer cores than this one.
        let threads = threads_or_cores(options.threads);
        let files = (threads as u64 * columns_out * WRITTEN_COLUMN_BYTES).min(writers_bytes(limit));
        Self {
            hosts,
            build: stationary.bytes,
            copies,
            tables: if has_tables { stationary.rows * TABLE_BYTES } else { 0 },
            // The allocator keeps some freed memory.
            passing: (waves + files) / 2 * 3,
            base: buffers * u64::from(fragment_bytes) + BASE_BYTES,
        }
    }

    /// Returns the memory that each host needs. It is the larger of two numbers: one while
    /// stationary rows are prepared, in several copies, and one while other rows pass through.
    fn each(&self, revolutions: u64) -> u64 {
        let share = |bytes: u64| (bytes / revolutions).div_ceil(self.hosts);
        let build = share(self.build);
        self.base + share(self.tables) + (self.copies * build / 2).max(build + self.passing)
    }

    /// Returns the number of hosts with which each needs at most `room` bytes for its rows.
    fn enough(&self, revolutions: u64, room: u64) -> u64 {
        let least = |bytes: u64, room: u64| (bytes / revolutions).div_ceil(room.max(1));
        least(self.copies * self.build / 2 + self.tables, room)
            .max(least(self.build + self.tables, room - self.passing))
    }
}

impl Sizes<'_> {
    /// Returns the number of revolutions, and the memory that each host then needs.
    pub(super) fn revolutions(&self) -> Result<(usize, u64), ClusterError> {
        let options = self.options;
        let needs = Needs::new(self, options.memory_bytes);
        let limit = options.memory_bytes.unwrap_or(u64::MAX);
        let revolutions = match options.revolutions {
            Revolutions::Exactly(revolutions) => revolutions as u64,
            Revolutions::Auto => {
                let fits = |&revolutions: &u64| needs.each(revolutions) <= limit;
                (1..MOST_SENSIBLE).find(fits).unwrap_or(MOST_SENSIBLE)
            }
        };
        let each = needs.each(revolutions);
        if each <= limit {
            return Ok((revolutions as usize, each));
        }
        let needed = self.least_limit(revolutions);
        let without_rows = needs.base + needs.passing;
        if limit <= without_rows {
            let reason = format!(
                "must be at least {} for this join; allow more, or use fewer threads, or fewer or smaller buffers \
                 (`threads`, `buffers`, `fragment_size`)",
                mebibytes(needed)
            );
            return Err(ClusterError::Option { option: "memory_limit", reason });
        }
        let (hosts, enough) = (self.hosts as usize, needs.enough(revolutions, limit - needs.base));
        let more_revolutions = revolutions < MOST_SENSIBLE && options.revolutions != Revolutions::Auto;
        Err(ClusterError::Memory { hosts, needed, limit, enough, more_revolutions })
    }

    /// Returns the memory of a single host that runs a query. Rows for which its limit leaves no
    /// room go to disk.
    ///
    /// # Errors
    /// If the limit leaves no room for any rows.
    pub(super) fn of_query(&self) -> Result<u64, ClusterError> {
        let limit = self.options.memory_bytes.unwrap_or(u64::MAX);
        let least = query_bytes(threads_or_cores(self.options.threads));
        if limit < least {
            let reason = format!(
                "must be at least {} for this join; allow more, or use fewer threads (`threads`)",
                mebibytes(least)
            );
            return Err(ClusterError::Option { option: "memory_limit", reason });
        }
        Ok(Needs::new(self, self.options.memory_bytes).each(1).min(limit))
    }

    /// Returns the smallest limit that suffices. What hosts need grows with the limit, but by less
    /// than half as much.
    fn least_limit(&self, revolutions: u64) -> u64 {
        let mut limit = 0;
        loop {
            let needed = Needs::new(self, Some(limit)).each(revolutions);
            if needed <= limit {
                return limit;
            }
            limit = needed;
        }
    }
}

/// The largest number of revolutions that is chosen automatically: with more, parts have too few
/// rows.
const MOST_SENSIBLE: u64 = 1000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::LEAST_TIMEOUT;

    /// The memory for files is limited, however many threads there are.
    #[test]
    fn many_threads_need_no_gigabytes() {
        let options = JoinOptions {
            threads: Some(64),
            timeout: LEAST_TIMEOUT,
            memory_bytes: Some(1 << 30),
            revolutions: Revolutions::Auto,
            ..JoinOptions::default()
        };
        let stationary = Extent { rows: 100_000_000, bytes: 10 << 30 };
        let sizes = Sizes {
            options: &options,
            hosts: 1,
            stationary,
            copies: 4,
            has_tables: true,
            unit: 10 << 20,
            columns_out: 100,
        };
        let (revolutions, needed) = sizes.revolutions().unwrap();
        assert!((11..100).contains(&revolutions) && needed <= 1 << 30, "{revolutions} revolutions, {needed} bytes");
    }

    /// The limit in the error is enough, and one MiB less is not.
    #[test]
    fn the_suggested_limit_is_enough() {
        for revolutions in [Revolutions::Exactly(1), Revolutions::Exactly(3), Revolutions::Auto] {
            for rows in [10, 1_000_000, 100_000_000] {
                let plan = |limit| {
                    let options = JoinOptions {
                        threads: Some(2),
                        memory_bytes: Some(limit),
                        revolutions,
                        ..JoinOptions::default()
                    };
                    let sizes = Sizes {
                        options: &options,
                        hosts: 2,
                        stationary: Extent { rows, bytes: rows * 100 },
                        copies: 4,
                        has_tables: true,
                        unit: 1 << 20,
                        columns_out: 10,
                    };
                    sizes.revolutions().map_err(|error| error.to_string())
                };
                let suggested = |limit| {
                    let error = plan(limit).unwrap_err();
                    let (before, _) = error.split_once(" MiB").expect("a size");
                    before.rsplit(' ').next().unwrap().parse::<u64>().unwrap() << 20
                };
                let least = suggested(1 << 10);
                assert_eq!(suggested(least - (1 << 20)), least, "{rows} rows, {revolutions:?}");
                let (_, needed) = plan(least).unwrap();
                assert!(needed <= least, "{needed} bytes of {least}");
            }
        }
    }

    /// The number of hosts in the error is enough, and one less is not.
    #[test]
    fn the_suggested_number_of_hosts_is_enough() {
        let needs =
            |hosts| Needs { hosts, build: 10 << 30, copies: 5, tables: 1 << 30, passing: 300 << 20, base: 100 << 20 };
        for limit in [401 << 20, 500 << 20, 700 << 20, 1 << 30, 5 << 30] {
            for revolutions in [1, 3] {
                let enough = needs(1).enough(revolutions, limit - needs(1).base);
                assert!(needs(enough).each(revolutions) <= limit + 2, "{enough} hosts, {limit} bytes");
                assert!(enough == 1 || needs(enough - 1).each(revolutions) > limit, "{enough} hosts, {limit} bytes");
            }
        }
    }
}
