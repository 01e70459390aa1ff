//! Probes the build side's tables with fragments.
//!
//! A block of rows goes through three loops without hard-to-predict branches. They look up the
//! buckets, list all their entries, and keep those whose keys are equal. So the processor waits for
//! many cache misses at once.

use std::ops::Range;

use arrow::array::{AsArray, LargeBinaryArray};

use super::{
    build::{BuildSide, KeyTables},
    fragment::{Fragment, Morsel},
    memory::Plain,
    table::{Entry, LONG_BUCKET, Table, Tables},
};
use crate::{
    error::JoinError,
    key::{Key, KeyValues},
    matched::Matched,
    sink::{MOST_PAIRS, PairSink},
};

/// The number of rows that go through the loops together.
const BLOCK: usize = 256;
/// The number of a bucket's entries that are always listed, even if the bucket has fewer.
const FEW: usize = 4;

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
    /// the rows of `morsel`. For joins that output no [`pairs`](crate::types::Emits::pairs) and
    /// whose whole condition is the keys. Works as [`probe`](Self::probe), but is faster if keys
    /// are very frequent on both sides.
    ///
    /// # Errors
    /// As for [`probe`](Self::probe), or if the number of bits in `build` is not this side's number
    /// of rows.
    pub fn mark(&self, fragment: &Fragment, morsel: &Morsel, build: &Matched) -> Result<(), JoinError> {
        if build.rows() != self.batch().num_rows() {
            return Err(JoinError::Fragment { what: "the match bits belong to another build side" });
        }
        self.probe_morsel(fragment, morsel, Some(build), &mut Mark { build, probe: fragment.matched() }).map(drop)
    }

    fn probe_morsel(
        &self,
        fragment: &Fragment,
        morsel: &Morsel,
        marked: Option<&Matched>,
        sink: &mut impl PairSink,
    ) -> Result<u64, JoinError> {
        if fragment.format().partitions() != self.partitions() {
            return Err(JoinError::Fragment { what: "its number of partitions is not that of the build side" });
        }
        self.keys().check(fragment.format().keys())?;
        if morsel.rows.end as usize > fragment.batch().num_rows() {
            return Err(JoinError::Fragment { what: "the morsel belongs to another fragment" });
        }
        let bytes = fragment.format().keys().key_bytes().map(|column| fragment.columns[column].as_binary());
        let mut pairs = Pairs::new(sink, self.key_bytes().zip(bytes), marked);
        match (self.tables(), fragment.format().keys().values(&fragment.columns)) {
            (KeyTables::Narrow(tables), KeyValues::Narrow(keys)) => {
                self.probe_keys(tables, &keys, fragment, morsel, &mut pairs)?
            }
            (KeyTables::Wide(tables), KeyValues::Wide(keys)) => {
                self.probe_keys(tables, &keys, fragment, morsel, &mut pairs)?
            }
            _ => return Err(JoinError::Fragment { what: "the width of its keys is not that of the build side" }),
        }
        pairs.flush()?;
        Ok(pairs.compared)
    }

    fn probe_keys<K: Key>(
        &self,
        tables: &Tables<K>,
        keys: &[K],
        fragment: &Fragment,
        morsel: &Morsel,
        pairs: &mut Pairs<'_, impl PairSink>,
    ) -> Result<(), JoinError>
    where
        Entry<K>: Plain,
    {
        let mut candidates = Candidates::new();
        for (group, bounds) in (fragment.first..).zip(fragment.starts.windows(2)) {
            let rows = bounds[0].max(morsel.rows.start)..bounds[1].min(morsel.rows.end);
            if rows.is_empty() {
                continue;
            }
            if group == self.partitions().count() {
                self.pair_nulls(rows, pairs)?;
                continue;
            }
            let table = tables.partition(group);
            table.fetch(rows.len());
            for start in rows.clone().step_by(BLOCK) {
                let block = &keys[start as usize..rows.end.min(start + BLOCK as u32) as usize];
                candidates.list(&table, block);
                candidates.keep_equal(&table, block, start, pairs)?;
            }
        }
        Ok(())
    }

    /// Pairs the rows with null keys, which match each other or nothing.
    fn pair_nulls(&self, rows: Range<u32>, pairs: &mut Pairs<'_, impl PairSink>) -> Result<(), JoinError> {
        if !self.keys().null_rows_match() {
            return Ok(());
        }
        for probe in rows {
            let mut equal = self.nulls();
            if equal.len() > 1 && pairs.is_marked(equal.start) {
                equal.end = equal.start + 1;
            }
            equal.into_iter().try_for_each(|build| pairs.push(build, probe))?;
        }
        Ok(())
    }
}

/// The entries of the buckets that a block of rows falls into.
struct Candidates {
    entries: Box<[u32; Self::MOST]>,
    /// The row's number in the block, for each entry.
    rows: Box<[u32; Self::MOST]>,
    len: usize,
    /// The rows whose buckets are long.
    long: Vec<u32>,
}

impl Candidates {
    const MOST: usize = BLOCK * LONG_BUCKET + FEW;

    fn new() -> Self {
        Self { entries: Box::new([0; Self::MOST]), rows: Box::new([0; Self::MOST]), len: 0, long: Vec::new() }
    }

    /// Lists the entries of the block's buckets.
    fn list<K: Key>(&mut self, table: &Table<'_, K>, block: &[K]) {
        let (mut len, mut row) = (0, 0);
        self.long.clear();
        for &key in block {
            let bucket = table.bucket(key);
            let found = (bucket.end - bucket.start) as usize;
            let (entries, rows) = (&mut self.entries[len..][..FEW], &mut self.rows[len..][..FEW]);
            for place in 0..FEW {
                entries[place] = bucket.start.wrapping_add(place as u32);
                rows[place] = row;
            }
            if found > FEW {
                if found > LONG_BUCKET {
                    self.long.push(row);
                    row += 1;
                    continue;
                }
                for place in FEW..found {
                    self.entries[len + place] = bucket.start + place as u32;
                    self.rows[len + place] = row;
                }
            }
            len += found;
            row += 1;
        }
        self.len = len;
    }

    /// Passes on the entries whose keys are equal to those of their rows. The block's first row is
    /// number `first`.
    fn keep_equal<K: Key>(
        &self,
        table: &Table<'_, K>,
        block: &[K],
        first: u32,
        pairs: &mut Pairs<'_, impl PairSink>,
    ) -> Result<(), JoinError> {
        pairs.reserve(self.len)?;
        pairs.compared += self.len as u64;
        let mut len = pairs.len;
        for (&at, &row) in self.entries[..self.len].iter().zip(&self.rows[..self.len]) {
            // SAFETY: the entries come from buckets.
            let entry = unsafe { table.entry(at) };
            // Written in any case, kept if equal: no branch to mispredict.
            pairs.build[len] = entry.row;
            pairs.probe[len] = first + row;
            len += usize::from({ entry.key } == block[row as usize]);
        }
        pairs.len = len;
        for &row in &self.long {
            let key = block[row as usize];
            let mut equal = table.equal(key);
            // All rows of a key are marked together, so the first one shows the state of all.
            if let [entry, _, ..] = equal
                && pairs.is_marked(entry.row)
            {
                equal = &equal[..1];
            }
            pairs.push_all(equal, first + row)?;
        }
        Ok(())
    }
}

/// A sink that marks the rows that have a match.
struct Mark<'a> {
    build: &'a Matched,
    probe: &'a Matched,
}

impl PairSink for Mark<'_> {
    fn pairs(&mut self, build: &[u32], probe: &[u32]) -> Result<(), JoinError> {
        build.iter().for_each(|&row| self.build.set(row));
        probe.iter().for_each(|&row| self.probe.set(row));
        Ok(())
    }
}

/// Pairs on their way to the sink.
struct Pairs<'a, S> {
    build: Box<[u32; MOST_PAIRS]>,
    probe: Box<[u32; MOST_PAIRS]>,
    len: usize,
    /// The number of pairs compared until now.
    compared: u64,
    sink: &'a mut S,
    /// The keys of both sides as bytes, to compare if the numbers are only hashes.
    bytes: Option<(&'a LargeBinaryArray, &'a LargeBinaryArray)>,
    /// The rows of the build side that need no second match.
    marked: Option<&'a Matched>,
}

impl<'a, S: PairSink> Pairs<'a, S> {
    fn new(
        sink: &'a mut S,
        bytes: Option<(&'a LargeBinaryArray, &'a LargeBinaryArray)>,
        marked: Option<&'a Matched>,
    ) -> Self {
        let slots = || Box::new([0; MOST_PAIRS]);
        Self { build: slots(), probe: slots(), len: 0, compared: 0, sink, bytes, marked }
    }

    /// Returns whether the row, and with it all rows of its key, needs no second match.
    fn is_marked(&self, build: u32) -> bool {
        self.bytes.is_none() && self.marked.is_some_and(|marked| marked.get(build))
    }

    /// Makes room for `pairs` more, at most `MOST_PAIRS`.
    fn reserve(&mut self, pairs: usize) -> Result<(), JoinError> {
        if self.len + pairs > MOST_PAIRS { self.flush() } else { Ok(()) }
    }

    fn push(&mut self, build: u32, probe: u32) -> Result<(), JoinError> {
        self.reserve(1)?;
        self.build[self.len] = build;
        self.probe[self.len] = probe;
        self.len += 1;
        self.compared += 1;
        Ok(())
    }

    /// Adds a pair of each entry with row `probe`; all of them match.
    fn push_all<K: Copy>(&mut self, mut entries: &[Entry<K>], probe: u32) -> Result<(), JoinError> {
        self.compared += entries.len() as u64;
        while !entries.is_empty() {
            let (now, later) = entries.split_at(entries.len().min(MOST_PAIRS - self.len));
            let end = self.len + now.len();
            self.build[self.len..end].iter_mut().zip(now).for_each(|(build, entry)| *build = entry.row);
            self.probe[self.len..end].fill(probe);
            self.len = end;
            entries = later;
            self.reserve(1)?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), JoinError> {
        let mut len = std::mem::take(&mut self.len);
        if let Some((build, probe)) = self.bytes {
            let mut kept = 0;
            for pair in 0..len {
                let (b, p) = (self.build[pair], self.probe[pair]);
                (self.build[kept], self.probe[kept]) = (b, p);
                kept += usize::from(build.value(b as usize) == probe.value(p as usize));
            }
            len = kept;
        }
        if len > 0 { self.sink.pairs(&self.build[..len], &self.probe[..len]) } else { Ok(()) }
    }
}
