//! The memory that hosts need for a join.

use annulus_dataset::{Dataset, Extent, Unit};

use crate::{
    error::{ClusterError, mebibytes},
    host::{wave_bytes, writers_bytes},
    job::{JoinOptions, Revolutions, threads_or_cores},
};

/// An entry of a hash table and its share of the directory.
const TABLE_BYTES: u64 = 24;
/// Rows that go around are read, prepared, and being sent.
const WAVES: u64 = 3;
/// What a host needs that does not depend on its rows.
const BASE_BYTES: u64 = 96 << 20;
/// A column of a Parquet file that is being written: a dictionary, a page, and the page compressed.
const WRITTEN_COLUMN_BYTES: u64 = 5 << 19;

/// Bytes of the largest unit of a side, which is read as a whole: a file may have but one.
pub(super) fn largest_unit(dataset: &Dataset, extent: Extent) -> u64 {
    let part = |of: u64, all: u64| (u128::from(extent.bytes) * u128::from(of) / u128::from(all.max(1))) as u64;
    let bytes = |unit: &Unit| match unit.rows() {
        Some(rows) => part(rows, extent.rows),
        None => part(unit.bytes(), dataset.total_bytes),
    };
    dataset.units.iter().map(bytes).max().unwrap_or(0)
}

/// What memory depends on.
pub(super) struct Sizes<'a> {
    pub(super) options: &'a JoinOptions,
    pub(super) hosts: u64,
    /// What stays, of all hosts.
    pub(super) stays: Extent,
    /// How often it is there while it is prepared, in halves.
    pub(super) copies: u64,
    /// Whether it is found by its keys.
    pub(super) has_tables: bool,
    /// The largest unit of what goes around, in bytes.
    pub(super) unit: u64,
    pub(super) columns_out: u64,
}

/// What hosts need memory for, in bytes.
pub(super) struct Needs {
    hosts: u64,
    /// Rows that stay, of all hosts.
    build: u64,
    /// How often they are there while they are prepared, in halves.
    copies: u64,
    /// What they are found by, of all hosts.
    tables: u64,
    /// Rows on their way through each host: read, sent around, and written.
    passing: u64,
    /// What else each host needs.
    base: u64,
}

impl Needs {
    pub(super) fn new(sizes: &Sizes<'_>) -> Self {
        let &Sizes { options, hosts, stays, copies, has_tables, unit, columns_out } = sizes;
        let (fragment_bytes, buffers) = (options.fragment_bytes, u64::from(options.buffers));
        // The last rows of a wave may be all but one of a unit too many.
        let waves = WAVES * (wave_bytes(fragment_bytes, options.memory_bytes) + unit);
        // Each thread has a file. Other machines may have other cores than this one.
        let threads = threads_or_cores(options.threads);
        let files = (threads as u64 * columns_out * WRITTEN_COLUMN_BYTES).min(writers_bytes(options.memory_bytes));
        Self {
            hosts,
            build: stays.bytes,
            copies,
            tables: if has_tables { stays.rows * TABLE_BYTES } else { 0 },
            // The allocator keeps some of what comes and goes.
            passing: (waves + files) / 2 * 3,
            base: buffers * u64::from(fragment_bytes) + BASE_BYTES,
        }
    }

    /// While what stays is prepared, its rows are there several times; then others come by.
    fn each(&self, revolutions: u64) -> u64 {
        let share = |bytes: u64| (bytes / revolutions).div_ceil(self.hosts);
        let build = share(self.build);
        self.base + share(self.tables) + (self.copies * build / 2).max(build + self.passing)
    }

    /// How many hosts would each need no more than this besides what does not depend on their rows.
    fn enough(&self, revolutions: u64, room: u64) -> u64 {
        let least = |bytes: u64, room: u64| (bytes / revolutions).div_ceil(room.max(1));
        least(self.copies * self.build / 2 + self.tables, room)
            .max(least(self.build + self.tables, room - self.passing))
    }

    /// How often the ring turns, and what each host then needs.
    pub(super) fn revolutions(&self, options: &JoinOptions) -> Result<(usize, u64), ClusterError> {
        let limit = options.memory_bytes.unwrap_or(u64::MAX);
        let without_rows = self.base + self.passing;
        if limit <= without_rows {
            let reason = format!(
                "is {}, and a host needs {} besides the rows that stay there; allow more, or have fewer threads, or fewer or \
                 smaller buffers (`threads`, `buffers`, `fragment_size`)",
                mebibytes(limit),
                mebibytes(without_rows)
            );
            return Err(ClusterError::Option { option: "memory_limit", reason });
        }
        let revolutions = match options.revolutions {
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
        let more_revolutions = revolutions < MOST_SENSIBLE && options.revolutions != Revolutions::Auto;
        Err(ClusterError::Memory { hosts, needed, limit, enough, more_revolutions })
    }
}

/// More parts would be of too few rows.
const MOST_SENSIBLE: u64 = 1000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{Inputs, LEAST_TIMEOUT};

    /// Many threads share what files may take.
    #[test]
    fn many_threads_need_no_gigabytes() {
        let options = JoinOptions {
            rotate: None,
            algorithm: None,
            threads: Some(64),
            fragment_bytes: 1 << 20,
            buffers: 16,
            timeout: LEAST_TIMEOUT,
            memory_bytes: Some(1 << 30),
            inputs: Inputs::Shared,
            revolutions: Revolutions::Auto,
        };
        let stays = Extent { rows: 100_000_000, bytes: 10 << 30 };
        let sizes =
            Sizes { options: &options, hosts: 1, stays, copies: 4, has_tables: true, unit: 10 << 20, columns_out: 100 };
        let (revolutions, needed) = Needs::new(&sizes).revolutions(&options).unwrap();
        assert!((11..100).contains(&revolutions) && needed <= 1 << 30, "{revolutions} revolutions, {needed} bytes");
    }

    /// What is told to those who allow too little is enough, and no more than that.
    #[test]
    fn hosts_that_are_said_to_be_enough_are() {
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
