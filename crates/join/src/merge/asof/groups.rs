//! The groups of rows with equal keys, numbered from 0.

use xxhash_rust::xxh3::xxh3_64;

use super::{EncodedKeys, EqualKeys};
use crate::{
    key::{Data, hash_of},
    merge::keys::Column,
};

/// The number of a row without a group: its key is null, or no group has it.
pub(super) const NONE: u32 = u32::MAX;

/// The slots of a table for each of its keys, at least.
const SLOTS_PER_KEY: usize = 2;

/// The keys of the groups, and a table to find them.
#[derive(Debug)]
pub(super) enum Groups {
    /// One group: there are no equal keys.
    One,
    Words(KeyTable<Numbers<u64>>),
    Wide(KeyTable<Numbers<u128>>),
    Bytes(KeyTable<Bytes>),
}

/// Different keys in the order of their groups.
pub(super) trait KeyList: Default {
    type Key<'a>: Copy
    where
        Self: 'a;

    fn hash(key: Self::Key<'_>) -> u64;
    fn key(&self, group: u32) -> Self::Key<'_>;
    fn is_equal(&self, group: u32, key: Self::Key<'_>) -> bool;
    fn push(&mut self, key: Self::Key<'_>);
    fn len(&self) -> usize;
    fn memory_bytes(&self) -> usize;
}

#[derive(Debug, Default)]
pub(super) struct Numbers<N>(Vec<N>);

#[derive(Debug, Default)]
pub(super) struct Bytes {
    bytes: Vec<u8>,
    /// The end of each key; it starts where the one before ends.
    ends: Vec<usize>,
}

/// A table of keys, with linear probing.
#[derive(Debug)]
pub(super) struct KeyTable<L> {
    keys: L,
    /// The upper half of a key's hash, and its group plus one; 0 if the slot is free. A power of two.
    slots: Vec<(u32, u32)>,
}

macro_rules! numbers {
    ($number:ty, $hash:expr) => {
        impl KeyList for Numbers<$number> {
            type Key<'a> = $number;

            #[inline]
            fn hash(key: $number) -> u64 {
                $hash(key)
            }

            fn key(&self, group: u32) -> $number {
                self.0[group as usize]
            }

            #[inline]
            fn is_equal(&self, group: u32, key: $number) -> bool {
                self.0[group as usize] == key
            }

            fn push(&mut self, key: $number) {
                self.0.push(key);
            }

            fn len(&self) -> usize {
                self.0.len()
            }

            fn memory_bytes(&self) -> usize {
                size_of_val(&self.0[..])
            }
        }
    };
}

numbers!(u64, hash_of);
numbers!(u128, |key: u128| hash_of(key as u64 ^ hash_of((key >> 64) as u64)));

impl KeyList for Bytes {
    type Key<'a> = &'a [u8];

    #[inline]
    fn hash(key: &[u8]) -> u64 {
        xxh3_64(key)
    }

    #[inline]
    fn key(&self, group: u32) -> &[u8] {
        let group = group as usize;
        let start = if group == 0 { 0 } else { self.ends[group - 1] };
        &self.bytes[start..self.ends[group]]
    }

    #[inline]
    fn is_equal(&self, group: u32, key: &[u8]) -> bool {
        self.key(group) == key
    }

    fn push(&mut self, key: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
    }

    fn len(&self) -> usize {
        self.ends.len()
    }

    fn memory_bytes(&self) -> usize {
        self.bytes.len() + size_of_val(&self.ends[..])
    }
}

impl<L: KeyList> KeyTable<L> {
    fn new() -> Self {
        Self { keys: L::default(), slots: vec![(0, 0); 64] }
    }

    /// Returns the group of a key.
    #[inline]
    fn find(&self, key: L::Key<'_>) -> u32 {
        let slot = self.slot(L::hash(key), key);
        self.slots[slot].1.wrapping_sub(1)
    }

    /// Returns the group of a key, which is a new one if it has none.
    #[inline]
    fn insert(&mut self, key: L::Key<'_>) -> u32 {
        let hash = L::hash(key);
        let slot = self.slot(hash, key);
        match self.slots[slot].1 {
            0 => self.insert_at(slot, hash, key),
            group => group - 1,
        }
    }

    /// Returns the slot of a key, or the free one in its place.
    #[inline]
    fn slot(&self, hash: u64, key: L::Key<'_>) -> usize {
        let (tag, mask) = ((hash >> 32) as u32, self.slots.len() - 1);
        let mut slot = hash as usize & mask;
        loop {
            match self.slots[slot] {
                (_, 0) => return slot,
                (found, group) if found == tag && self.keys.is_equal(group - 1, key) => return slot,
                _ => slot = (slot + 1) & mask,
            }
        }
    }

    #[cold]
    fn insert_at(&mut self, slot: usize, hash: u64, key: L::Key<'_>) -> u32 {
        self.keys.push(key);
        let groups = self.keys.len() as u32;
        self.slots[slot] = ((hash >> 32) as u32, groups);
        if self.keys.len() * SLOTS_PER_KEY > self.slots.len() {
            self.grow();
        }
        groups - 1
    }

    fn grow(&mut self) {
        let mask = 2 * self.slots.len() - 1;
        let mut slots = vec![(0, 0); mask + 1];
        for group in 0..self.keys.len() as u32 {
            let hash = L::hash(self.keys.key(group));
            let mut slot = hash as usize & mask;
            while slots[slot].1 != 0 {
                slot = (slot + 1) & mask;
            }
            slots[slot] = ((hash >> 32) as u32, group + 1);
        }
        self.slots = slots;
    }

    /// Inserts all keys of another table, and returns their groups here.
    fn insert_all(&mut self, other: &Self) -> Vec<u32> {
        (0..other.keys.len() as u32).map(|group| self.insert(other.keys.key(group))).collect()
    }

    fn memory_bytes(&self) -> usize {
        self.keys.memory_bytes() + size_of_val(&self.slots[..])
    }
}

/// Calls a function with each row's key and returns its results, [`NONE`] for null rows.
macro_rules! groups_of {
    ($keys:expr, $rows:expr, $key:expr, $group:expr) => {
        (0..$rows).map(|row| if $keys.is_valid(row) { $group($key(row)) } else { NONE }).collect()
    };
}

/// The groups of all rows, by the function `$method` of the key table.
macro_rules! by_key {
    ($groups:expr, $keys:expr, $rows:expr, $method:ident) => {
        match ($groups, &$keys.equal) {
            (Groups::Words(table), EqualKeys::Encoded(Column::Words(words))) => {
                groups_of!($keys, $rows, |row: usize| words[row], |key| table.$method(key))
            }
            (Groups::Wide(table), EqualKeys::Encoded(Column::Wide(words))) => {
                groups_of!($keys, $rows, |row: usize| words[row], |key| table.$method(key))
            }
            (Groups::Bytes(table), EqualKeys::Encoded(Column::Rows(bytes))) => {
                groups_of!($keys, $rows, |row: usize| bytes.row(row), |key: arrow::row::Row<'_>| table
                    .$method(key.data()))
            }
            (Groups::Bytes(table), EqualKeys::InPlace(Data::Bytes(bytes))) => {
                groups_of!($keys, $rows, |row: usize| bytes.value(row), |key| table.$method(key))
            }
            (Groups::Bytes(table), EqualKeys::InPlace(Data::LargeBytes(bytes))) => {
                groups_of!($keys, $rows, |row: usize| bytes.value(row), |key| table.$method(key))
            }
            (Groups::Bytes(table), EqualKeys::InPlace(Data::Views(bytes))) => {
                groups_of!($keys, $rows, |row: usize| bytes.value(row), |key| table.$method(key))
            }
            // Without equal keys; the types of both sides are the same.
            _ => groups_of!($keys, $rows, |_| (), |()| 0),
        }
    };
}

impl Groups {
    /// Returns no groups, for keys like these.
    pub(super) fn for_keys(keys: &EncodedKeys) -> Self {
        match &keys.equal {
            EqualKeys::Encoded(Column::Nothing) => Self::One,
            EqualKeys::Encoded(Column::Words(_)) => Self::Words(KeyTable::new()),
            EqualKeys::Encoded(Column::Wide(_)) => Self::Wide(KeyTable::new()),
            _ => Self::Bytes(KeyTable::new()),
        }
    }

    /// Returns the group of each row, after adding those of new keys.
    pub(super) fn insert(&mut self, keys: &EncodedKeys, rows: usize) -> Vec<u32> {
        by_key!(self, keys, rows, insert)
    }

    /// Returns the group of each row.
    pub(super) fn find(&self, keys: &EncodedKeys, rows: usize) -> Vec<u32> {
        by_key!(self, keys, rows, find)
    }

    /// Adds the groups of another one with the same types, and returns their numbers here.
    pub(super) fn insert_all(&mut self, other: &Self) -> Vec<u32> {
        match (self, other) {
            (Self::Words(table), Self::Words(other)) => table.insert_all(other),
            (Self::Wide(table), Self::Wide(other)) => table.insert_all(other),
            (Self::Bytes(table), Self::Bytes(other)) => table.insert_all(other),
            _ => vec![0],
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::One => 1,
            Self::Words(table) => table.keys.len(),
            Self::Wide(table) => table.keys.len(),
            Self::Bytes(table) => table.keys.len(),
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        match self {
            Self::One => 0,
            Self::Words(table) => table.memory_bytes(),
            Self::Wide(table) => table.memory_bytes(),
            Self::Bytes(table) => table.memory_bytes(),
        }
    }
}
