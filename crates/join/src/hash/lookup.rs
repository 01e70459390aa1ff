//! Looks rows up in the build side's table, a few thousand pairs at a time.
//!
//! A block of rows goes through three loops without hard-to-predict branches. They look up the
//! buckets, list all their entries, and keep those whose keys are equal. So the processor waits for
//! many cache misses at once. A row whose bucket is long ends its block, and its partners follow.
//! So pairs come in the order of the rows.

use std::ops::Range;

use arrow::buffer::NullBuffer;

use super::{
    dense::UniqueTable,
    memory::Plain,
    table::{Entry, LONG_BUCKET, Table},
};
use crate::{
    key::{Key, Values},
    matches::MatchBits,
};

/// The number of rows that go through the loops together.
const BLOCK: usize = 256;
/// The number of a bucket's entries that are always listed, even if the bucket has fewer.
const FEW: usize = 4;

/// The rows that are looked up, and their known properties.
pub(super) struct Rows<'a, K: Copy> {
    pub(super) table: Table<'a, K>,
    pub(super) keys: &'a [K],
    /// The rows with null keys, if there may be any.
    pub(super) nulls: Option<&'a NullBuffer>,
    /// The rows of the build side that null keys match.
    pub(super) null_partners: Range<u32>,
    /// What must be equal beside the numbers: of the build side, and of the rows.
    pub(super) compared: (&'a [Values], &'a [Values]),
    /// The rows of the build side that need no second match.
    pub(super) marked: Option<&'a MatchBits>,
    /// Whether most look-ups miss a core's caches.
    pub(super) is_far: bool,
}

/// The place that a look-up has reached, and the pairs that it has found.
pub(super) struct Lookup {
    /// The rows to look up.
    rows: Range<u32>,
    /// A row with many partners, and those that are not among the pairs yet.
    many: (u32, Partners),
    candidates: Candidates,
    build: Box<[u32]>,
    probe: Box<[u32]>,
    len: usize,
    /// The number of pairs of which all is compared already.
    checked: usize,
    /// The number of pairs whose keys were compared until now.
    compared: u64,
}

/// The partners of one row.
enum Partners {
    /// Entries of the table.
    Entries(Range<u32>),
    /// Rows of the build side.
    Rows(Range<u32>),
}

impl Lookup {
    /// Returns a look-up with room for this many pairs, at least those of a block.
    pub(super) fn new(room: usize) -> Self {
        let slots = || vec![0; room.max(Candidates::MOST)].into_boxed_slice();
        Self {
            rows: 0..0,
            many: (0, Partners::Rows(0..0)),
            candidates: Candidates::new(),
            build: slots(),
            probe: slots(),
            len: 0,
            checked: 0,
            compared: 0,
        }
    }

    /// Forgets all rows and pairs.
    pub(super) fn clear(&mut self) {
        (self.rows, self.many) = (0..0, (0, Partners::Rows(0..0)));
        self.take();
    }

    /// Looks up these rows next.
    pub(super) fn start(&mut self, rows: Range<u32>) {
        self.rows = rows;
    }

    /// Pairs one row with these rows of the build side next.
    pub(super) fn start_row(&mut self, probe: u32, build: Range<u32>) {
        self.compared += build.len() as u64;
        self.many = (probe, Partners::Rows(build));
    }

    /// Returns the pairs that were found, and forgets them.
    pub(super) fn take(&mut self) -> (&[u32], &[u32]) {
        let len = std::mem::take(&mut self.len);
        self.checked = 0;
        (&self.build[..len], &self.probe[..len])
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the number of pairs whose keys were compared.
    pub(super) fn compared(&self) -> u64 {
        self.compared
    }

    /// Finds pairs until there is no room for more, and returns true; or until all rows are looked
    /// up, and returns false.
    pub(super) fn run<K: Key>(&mut self, of: &Rows<'_, K>) -> bool
    where
        Entry<K>: Plain,
    {
        let is_full = self.find(of);
        for (build, probe) in of.compared.0.iter().zip(of.compared.1) {
            let pairs = (&mut self.build[..self.len], &mut self.probe[..self.len]);
            self.len = build.keep_equal(probe, pairs, self.checked);
        }
        self.checked = self.len;
        is_full
    }

    /// As [`run`](Self::run), in a table where each row has at most one partner.
    pub(super) fn run_unique<K: Key>(
        &mut self,
        table: &impl UniqueTable,
        keys: &[K],
        nulls: Option<&NullBuffer>,
    ) -> bool {
        let room = (self.build.len() - self.len) as u32;
        let now = self.rows.start..self.rows.end.min(self.rows.start.saturating_add(room));
        self.rows.start = now.end;
        self.compared += u64::from(now.end - now.start);
        let (before, is_far) = (self.len, table.misses_caches());
        for start in now.clone().step_by(BLOCK) {
            let rows = start..now.end.min(start + BLOCK as u32);
            let block = &keys[rows.start as usize..rows.end as usize];
            if is_far {
                block.iter().for_each(|&key| table.prefetch(key));
            }
            // Those of the block have room, as those of all rows do.
            let (build, probe) =
                (&mut self.build[self.len..][..block.len()], &mut self.probe[self.len..][..block.len()]);
            let mut len = 0;
            for (row, &key) in rows.zip(block) {
                let after = table.row_after(key);
                // Written in any case, kept if there is one: no branch to mispredict.
                (build[len], probe[len]) = (after.wrapping_sub(1), row);
                len += usize::from(after > 0);
            }
            self.len += len;
        }
        self.drop_nulls(before, nulls);
        !self.rows.is_empty()
    }

    /// Drops the pairs from this one on whose row of the probe side has a null key: what stands in
    /// the place of a null key also is a number.
    fn drop_nulls(&mut self, first: usize, nulls: Option<&NullBuffer>) {
        let Some(nulls) = nulls else { return };
        let mut kept = first;
        for pair in first..self.len {
            let probe = self.probe[pair];
            (self.build[kept], self.probe[kept]) = (self.build[pair], probe);
            kept += usize::from(nulls.is_valid(probe as usize));
        }
        self.len = kept;
    }

    fn find<K: Key>(&mut self, of: &Rows<'_, K>) -> bool
    where
        Entry<K>: Plain,
    {
        loop {
            if !self.push_many(&of.table) {
                return true;
            }
            if self.rows.is_empty() {
                return false;
            }
            let start = self.rows.start;
            let mut end = self.rows.end.min(start + BLOCK as u32);
            if let Some(nulls) = of.nulls.filter(|_| !of.null_partners.is_empty()) {
                if nulls.is_null(start as usize) {
                    self.rows.start += 1;
                    let partners = of.null_partners.clone();
                    self.start_row(start, of.few_if_marked(partners, |row| row));
                    continue;
                }
                end = (start..end).find(|&row| nulls.is_null(row as usize)).unwrap_or(end);
            }
            let block = &of.keys[start as usize..end as usize];
            // The processor would begin about ten look-ups at once by itself, and waits for two lines of each.
            if of.is_far {
                of.table.prefetch_buckets(block);
            }
            let listed = self.candidates.list(&of.table, block);
            if of.is_far {
                of.table.prefetch_entries(&self.candidates.entries[..self.candidates.len]);
            }
            if self.len + self.candidates.len > self.build.len() {
                return true;
            }
            self.keep_equal(of, block, start);
            self.rows.start += listed;
            if let Some(&key) = block.get(listed as usize) {
                let row = self.rows.start;
                self.rows.start += 1;
                if of.nulls.is_none_or(|nulls| nulls.is_valid(row as usize)) {
                    let equal = of.table.equal(key);
                    self.compared += equal.len() as u64;
                    let equal = of.few_if_marked(equal, |entry| of.table.entries(entry..entry + 1)[0].row);
                    self.many = (row, Partners::Entries(equal));
                }
            }
        }
    }

    /// Keeps the listed entries whose keys are equal to those of their rows. The block's first row
    /// is number `first`.
    fn keep_equal<K: Key>(&mut self, of: &Rows<'_, K>, block: &[K], first: u32) {
        let Candidates { entries, rows, len } = &self.candidates;
        self.compared += *len as u64;
        let before = self.len;
        for (&at, &row) in entries[..*len].iter().zip(&rows[..*len]) {
            // SAFETY: the entries come from buckets.
            let entry = unsafe { of.table.entry(at) };
            // Written in any case, kept if equal: no branch to mispredict.
            self.build[self.len] = entry.row;
            self.probe[self.len] = first + row;
            self.len += usize::from({ entry.key } == block[row as usize]);
        }
        self.drop_nulls(before, of.nulls);
    }

    /// Adds pairs of the row with many partners, and returns whether they all had room.
    fn push_many<K: Key>(&mut self, table: &Table<'_, K>) -> bool {
        let (probe, partners) = &mut self.many;
        let (Partners::Entries(rest) | Partners::Rows(rest)) = &*partners;
        if rest.is_empty() {
            return true;
        }
        let now = rest.start..rest.end.min(rest.start + (self.build.len() - self.len) as u32);
        let slots = &mut self.build[self.len..self.len + now.len()];
        match partners {
            Partners::Entries(rest) => {
                rest.start = now.end;
                slots.iter_mut().zip(table.entries(now.clone())).for_each(|(slot, entry)| *slot = entry.row);
            }
            Partners::Rows(rest) => {
                rest.start = now.end;
                slots.iter_mut().zip(now.clone()).for_each(|(slot, row)| *slot = row);
            }
        }
        self.probe[self.len..self.len + now.len()].fill(*probe);
        self.len += now.len();
        let (Partners::Entries(rest) | Partners::Rows(rest)) = &self.many.1;
        rest.is_empty()
    }
}

impl<K: Copy> Rows<'_, K> {
    /// Returns only the first of a key's partners if none of them needs a second match. All rows of
    /// a key are marked together, so the first one shows the state of all.
    pub(super) fn few_if_marked(&self, partners: Range<u32>, row: impl Fn(u32) -> u32) -> Range<u32> {
        let is_marked = |marked: &MatchBits| self.compared.0.is_empty() && marked.get(row(partners.start));
        if partners.len() > 1 && self.marked.is_some_and(is_marked) {
            return partners.start..partners.start + 1;
        }
        partners
    }
}

/// The entries of the buckets that a block of rows falls into.
struct Candidates {
    entries: Box<[u32; Self::MOST]>,
    /// The row's number in the block, for each entry.
    rows: Box<[u32; Self::MOST]>,
    len: usize,
}

impl Candidates {
    const MOST: usize = BLOCK * LONG_BUCKET + FEW;

    fn new() -> Self {
        Self { entries: Box::new([0; Self::MOST]), rows: Box::new([0; Self::MOST]), len: 0 }
    }

    /// Lists the entries of the buckets of the block's rows up to the first one with a long bucket.
    /// Returns the number of these rows.
    fn list<K: Key>(&mut self, table: &Table<'_, K>, block: &[K]) -> u32 {
        let (mut len, mut row) = (0, 0);
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
                    break;
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
        row
    }
}
