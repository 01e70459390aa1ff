//! Probes the build side's tables: with the morsels of a clustered fragment, or with the rows of a
//! batch as they come.

use arrow::{array::RecordBatch, buffer::NullBuffer};

use super::{
    build::{BuildSide, KeyTables},
    dense::UniqueTable,
    fragment::{Fragment, Morsel},
    lookup::{Lookup, Rows},
    memory::Plain,
    table::{Entry, Tables},
};
use crate::{
    error::JoinError,
    key::{Key, KeyValues, KeyedBatch, Keys, Values},
    matches::MatchBits,
    sink::{MOST_PAIRS, PairSink},
};

impl BuildSide {
    /// Finds the pairs of rows whose keys are equal, for the rows of `morsel`, a morsel of this
    /// fragment. Gives them to `sink` in no particular order. Any number of threads may do so at
    /// once, each with other morsels. O(rows + pairs), and logarithmic in the rows of a build side
    /// whose keys fall into few buckets.
    ///
    /// Returns the number of pairs of rows that it compared: those that share a bucket, or a key if
    /// the bucket is long. The number does not depend on the machine.
    ///
    /// # Errors
    /// If the fragment was prepared with other keys or partitions, the morsel does not exist, or
    /// the sink fails.
    pub fn probe(&self, fragment: &Fragment, morsel: &Morsel, sink: &mut impl PairSink) -> Result<u64, JoinError> {
        self.probe_morsel(fragment, morsel, None, sink)
    }

    /// Marks the rows that have a match: in `build` for this side, and in [`Fragment::matched`] for
    /// the rows of `morsel`. For joins that output no [`pairs`](crate::types::Emission::pairs) and
    /// whose whole condition is the keys. Works as [`probe`](Self::probe), but is faster if keys
    /// are very frequent on both sides.
    ///
    /// # Errors
    /// As for [`probe`](Self::probe), or if the number of bits in `build` is not this side's number
    /// of rows.
    pub fn mark(&self, fragment: &Fragment, morsel: &Morsel, build: &MatchBits) -> Result<(), JoinError> {
        if build.rows() != self.batch().num_rows() {
            return Err(JoinError::Fragment { what: "the match bits belong to another build side" });
        }
        self.probe_morsel(fragment, morsel, Some(build), &mut Mark { build, probe: fragment.matched() }).map(drop)
    }

    fn probe_morsel(
        &self,
        fragment: &Fragment,
        morsel: &Morsel,
        marked: Option<&MatchBits>,
        sink: &mut impl PairSink,
    ) -> Result<u64, JoinError> {
        if fragment.format().partitions() != self.partitions() {
            return Err(JoinError::Fragment { what: "its number of partitions is not that of the build side" });
        }
        if self.keys().layout().is_some() {
            return Err(JoinError::Fragment {
                what: "the keys of the build side are packed, and only a finder packs others",
            });
        }
        self.keys().check(fragment.format().keys())?;
        if morsel.rows.end as usize > fragment.batch().num_rows() {
            return Err(JoinError::Fragment { what: "the morsel belongs to another fragment" });
        }
        let compared = fragment.format().keys().compared(&fragment.columns);
        let sides = ComparedColumns { compared: &compared, nulls: None, marked };
        match (self.tables(), fragment.format().keys().values(&fragment.columns)) {
            (KeyTables::Narrow(tables), KeyValues::Narrow(keys)) => {
                self.probe_keys(tables, &keys, &sides, fragment, morsel, sink)
            }
            (KeyTables::Wide(tables), KeyValues::Wide(keys)) => {
                self.probe_keys(tables, &keys, &sides, fragment, morsel, sink)
            }
            (KeyTables::Dense(table), KeyValues::Narrow(keys)) => probe_unique(table, &keys, fragment, morsel, sink),
            (KeyTables::Dense(table), KeyValues::Wide(keys)) => probe_unique(table, &keys, fragment, morsel, sink),
            (KeyTables::Ordered(table), KeyValues::Narrow(keys)) => probe_unique(table, &keys, fragment, morsel, sink),
            (KeyTables::Ordered(table), KeyValues::Wide(keys)) => probe_unique(table, &keys, fragment, morsel, sink),
            (KeyTables::Ranked(table), KeyValues::Narrow(keys)) => probe_unique(table, &keys, fragment, morsel, sink),
            (KeyTables::Ranked(table), KeyValues::Wide(keys)) => probe_unique(table, &keys, fragment, morsel, sink),
            _ => Err(OTHER_WIDTH),
        }
    }

    fn probe_keys<K: Key>(
        &self,
        tables: &Tables<K>,
        keys: &[K],
        sides: &ComparedColumns<'_>,
        fragment: &Fragment,
        morsel: &Morsel,
        sink: &mut impl PairSink,
    ) -> Result<u64, JoinError>
    where
        Entry<K>: Plain,
    {
        // Each partition is brought into the cache as a whole.
        let of = Rows { is_far: false, ..self.rows(tables, keys, sides) };
        let mut lookup = Lookup::new(MOST_PAIRS);
        for (group, bounds) in (fragment.first..).zip(fragment.starts.windows(2)) {
            let mut rows = bounds[0].max(morsel.rows.start)..bounds[1].min(morsel.rows.end);
            if rows.is_empty() {
                continue;
            }
            if group < self.partitions().count() {
                of.table.fetch(group, rows.len());
                lookup.start(rows);
                drain(&mut lookup, &of, sink)?;
            } else if !of.null_partners.is_empty() {
                // The rows with null keys, which match each other.
                rows.try_for_each(|row| {
                    lookup.start_row(row, of.few_if_marked(of.null_partners.clone(), |row| row));
                    drain(&mut lookup, &of, sink)
                })?;
            }
        }
        let (build, probe) = lookup.take();
        if !build.is_empty() {
            sink.pairs(build, probe)?;
        }
        Ok(lookup.compared())
    }

    fn rows<'a, K>(&'a self, tables: &'a Tables<K>, keys: &'a [K], sides: &ComparedColumns<'a>) -> Rows<'a, K>
    where
        K: Key,
        Entry<K>: Plain,
    {
        let null_partners = if self.keys().null_rows_match() { self.nulls() } else { 0..0 };
        let ComparedColumns { compared, nulls, marked } = *sides;
        let (table, compared) = (tables.table(), (self.compared(), compared));
        Rows { is_far: table.misses_caches(), table, keys, nulls, null_partners, compared, marked }
    }
}

const OTHER_WIDTH: JoinError = JoinError::Fragment { what: "the width of its keys is not that of the build side" };

/// The values to compare beside the numbers.
struct ComparedColumns<'a> {
    /// The values of the probe side that must be equal to those of the build side.
    compared: &'a [Values],
    /// The rows of the probe side with null keys.
    nulls: Option<&'a NullBuffer>,
    /// The rows of the build side that need no second match.
    marked: Option<&'a MatchBits>,
}

/// Finds the pairs of a morsel's rows in a table of keys that differ.
fn probe_unique<K: Key>(
    table: &impl UniqueTable,
    keys: &[K],
    fragment: &Fragment,
    morsel: &Morsel,
    sink: &mut impl PairSink,
) -> Result<u64, JoinError> {
    // The rows with null keys come last. They have no partner here.
    let nulls = fragment.format().partitions().count().checked_sub(fragment.first);
    let end = nulls.and_then(|group| fragment.starts.get(group)).copied().unwrap_or(u32::MAX);
    let mut lookup = Lookup::new(MOST_PAIRS);
    lookup.start(morsel.rows.start.min(end)..morsel.rows.end.min(end));
    loop {
        let is_full = lookup.run_unique(table, keys, None);
        let (build, probe) = lookup.take();
        if !build.is_empty() {
            sink.pairs(build, probe)?;
        }
        if !is_full {
            return Ok(lookup.compared());
        }
    }
}

/// Looks up all rows. Pairs that leave room for more stay in the look-up.
fn drain<K: Key>(lookup: &mut Lookup, of: &Rows<'_, K>, sink: &mut impl PairSink) -> Result<(), JoinError>
where
    Entry<K>: Plain,
{
    while lookup.run(of) {
        let (build, probe) = lookup.take();
        if !build.is_empty() {
            sink.pairs(build, probe)?;
        }
    }
    Ok(())
}

/// Row numbers of pairs: the build side's, and those of a batch of the probe side.
pub type PairSlices<'a> = (&'a [u32], &'a [u32]);

/// Finds the partners of a batch's rows in the build side, in the order of the rows and a few
/// thousand pairs at a time. So one row with a million partners takes no more memory than others.
///
/// ```
/// use std::sync::Arc;
///
/// use annulus_join::{BuildSide, Finder, HashConfig, Keys, Partitions};
/// use arrow::array::{ArrayRef, Int64Array, RecordBatch};
///
/// let ids = |ids: Vec<i64>| RecordBatch::try_from_iter([("id", Arc::new(Int64Array::from(ids)) as ArrayRef)]);
/// let (build, probe) = (ids(vec![3, 5, 5])?, ids(vec![4, 5, 3])?);
/// let keys = || Keys::new(&build.schema(), &[0], false);
/// let build = BuildSide::prepare(keys()?, vec![build.clone()], &HashConfig::new(Partitions::at_least(1)))?;
///
/// let mut finder = Finder::new(keys()?);
/// finder.start(&build, &probe)?;
/// let (mut rows, mut pairs) = (Vec::new(), 0);
/// while let Some((build, probe)) = finder.next(&build, None)? {
///     pairs += build.len();
///     rows.extend_from_slice(probe);
/// }
/// assert_eq!((pairs, rows), (3, vec![1, 1, 2]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Finder {
    keys: Keys,
    rows: Option<KeyedBatch>,
    /// The values that must be equal beside the numbers.
    compared: Vec<Values>,
    lookup: Lookup,
}

impl Finder {
    /// Returns a finder for a probe side with these keys. Takes about 160 KiB.
    pub fn new(keys: Keys) -> Self {
        Self { keys, rows: None, compared: Vec::new(), lookup: Lookup::new(2 * MOST_PAIRS) }
    }

    /// Starts with the rows of a batch. O(rows).
    ///
    /// # Errors
    /// If the batch has other columns than the keys, or the keys cannot be compared with those of
    /// `build`.
    pub fn start(&mut self, build: &BuildSide, batch: &RecordBatch) -> Result<(), JoinError> {
        build.keys().check(&self.keys)?;
        let rows = batch.num_rows();
        let end = u32::try_from(rows).map_err(|_| JoinError::TooManyRows { rows })?;
        let layout = build.keys().layout();
        let keyed = self.keys.extend_packed(layout, batch)?;
        self.compared = if layout.is_some() { Vec::new() } else { self.keys.compared(&keyed.columns) };
        self.rows = Some(keyed);
        self.lookup.clear();
        self.lookup.start(0..end);
        Ok(())
    }

    /// Returns the next pairs: row `build[i]` of [`BuildSide::batch`] and row `probe[i]` of the batch
    /// have equal keys. At most twice [`MOST_PAIRS`](crate::MOST_PAIRS), and none at the end. With
    /// `marked`, a row with many partners is paired with only one of them if this one is marked:
    /// for joins that only mark rows of the build side, as these are marked together.
    ///
    /// # Errors
    /// If `build` is another build side, with other keys.
    pub fn next(&mut self, build: &BuildSide, marked: Option<&MatchBits>) -> Result<Option<PairSlices<'_>>, JoinError> {
        let Some(KeyedBatch { values, nulls, .. }) = &self.rows else { return Ok(None) };
        let sides = ComparedColumns { compared: &self.compared, nulls: nulls.as_ref(), marked };
        loop {
            let is_full = match (build.tables(), values) {
                (KeyTables::Narrow(tables), KeyValues::Narrow(keys)) => {
                    self.lookup.run(&build.rows(tables, keys, &sides))
                }
                (KeyTables::Wide(tables), KeyValues::Wide(keys)) => self.lookup.run(&build.rows(tables, keys, &sides)),
                (KeyTables::Dense(table), KeyValues::Narrow(keys)) => self.lookup.run_unique(table, keys, sides.nulls),
                (KeyTables::Dense(table), KeyValues::Wide(keys)) => self.lookup.run_unique(table, keys, sides.nulls),
                (KeyTables::Ordered(table), KeyValues::Narrow(keys)) => {
                    self.lookup.run_unique(table, keys, sides.nulls)
                }
                (KeyTables::Ordered(table), KeyValues::Wide(keys)) => self.lookup.run_unique(table, keys, sides.nulls),
                (KeyTables::Ranked(table), KeyValues::Narrow(keys)) => self.lookup.run_unique(table, keys, sides.nulls),
                (KeyTables::Ranked(table), KeyValues::Wide(keys)) => self.lookup.run_unique(table, keys, sides.nulls),
                _ => return Err(OTHER_WIDTH),
            };
            if !self.lookup.is_empty() {
                return Ok(Some(self.lookup.take()));
            }
            if !is_full {
                return Ok(None);
            }
        }
    }
}

/// A sink that marks the rows that have a match.
struct Mark<'a> {
    build: &'a MatchBits,
    probe: &'a MatchBits,
}

impl PairSink for Mark<'_> {
    fn pairs(&mut self, build: &[u32], probe: &[u32]) -> Result<(), JoinError> {
        build.iter().for_each(|&row| self.build.set(row));
        probe.iter().for_each(|&row| self.probe.set(row));
        Ok(())
    }
}
