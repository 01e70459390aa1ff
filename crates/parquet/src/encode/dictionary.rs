//! The dictionary of a chunk, made of its values, and the least and the greatest of them.

use std::hash::BuildHasher;

use arrow::{array::GenericByteViewArray, datatypes::ByteViewType};

use super::bounds::{ByteBounds, Number, NumberBounds, Order};
use crate::codes::{CodeTable, Entries};

/// The distinct values of a column chunk.
pub(super) trait Dictionary<V: Copy> {
    /// Returns the code of a value; `None` if it is new, and the entries would have more than `most` bytes with it.
    fn code(&mut self, value: V, most: usize) -> Option<u32>;
    /// Returns the number of entries.
    fn len(&self) -> usize;
    /// Returns the bytes of an entry.
    fn length(&self, code: usize) -> usize;
    /// Calls a function with all entries, as the format writes them.
    fn with_entries<T>(&self, function: impl FnOnce(&[&[u8]]) -> T) -> T;
    /// Returns the bytes of a value in the format.
    fn stored_length(value: V) -> usize;
    /// Appends values of a page, of `bytes` bytes in the format, which do not become entries.
    fn append(&mut self, values: impl Iterator<Item = V>, bytes: usize, out: &mut Vec<u8>);
    /// Takes an entry for a value of a page.
    fn add_entry_to_page(&mut self, code: usize);
    /// Ends a page, and returns the least and the greatest of its values, as the format writes them.
    fn end_page(&mut self) -> Option<[Vec<u8>; 2]>;
    /// Calls a function with the least and the greatest of all pages, as the format writes them.
    fn with_bounds<T>(&self, function: impl FnOnce(&[&[u8]]) -> T) -> T;
    /// Removes all entries.
    fn clear(&mut self);
    /// Returns the memory in use, in bytes.
    fn memory(&self) -> usize;
}

/// Numbers, each of which is there once.
#[derive(Debug)]
pub(super) struct Numbers<K> {
    values: Vec<K>,
    near: NearCodes,
    table: CodeTable,
    /// Numbers that have one hash in one process have others in the next.
    seed: u64,
    /// Those of the present page, and of all before.
    page: NumberBounds<K>,
    bounds: NumberBounds<K>,
}

/// The codes of whole numbers that are near each other, as dates and small keys are: without a hash.
#[derive(Debug, Default)]
struct NearCodes {
    /// The number whose code is the first.
    first: u64,
    /// [`NONE`] for a number without an entry. A power of two, or none.
    codes: Vec<u32>,
    /// Whether a number was too far from the others. Then all are found by their hashes.
    is_far: bool,
}

/// No code.
const NONE: u32 = u32::MAX;
/// The most codes that are found without a hash.
const MOST_NEAR: usize = 1 << 16;

impl NearCodes {
    #[inline]
    fn find(&self, number: u64) -> Option<u32> {
        let place = usize::try_from(number.wrapping_sub(self.first)).ok()?;
        self.codes.get(place).copied().filter(|&code| code != NONE)
    }

    /// Adds a number, unless one is far from the others.
    fn add(&mut self, number: u64, code: u32) {
        if self.is_far {
            return;
        }
        if self.codes.is_empty() {
            (self.first, self.codes) = (number, vec![NONE]);
        }
        // As signed numbers, around zero as elsewhere.
        let before = (self.first as i64).saturating_sub(number as i64).max(0) as usize;
        let after = (number as i64).saturating_sub(self.first as i64).max(0) as usize;
        let needed = (before + self.codes.len()).max(after.saturating_add(1));
        if needed > MOST_NEAR {
            (self.codes, self.is_far) = (Vec::new(), true);
            return;
        }
        if needed > self.codes.len() {
            let mut codes = vec![NONE; needed.next_power_of_two()];
            // What is below the others has room there.
            let shift = if before > 0 { codes.len() - self.codes.len() } else { 0 };
            codes[shift..shift + self.codes.len()].copy_from_slice(&self.codes);
            self.first = self.first.wrapping_sub(shift as u64);
            self.codes = codes;
        }
        let place = number.wrapping_sub(self.first) as usize;
        if let Some(slot) = self.codes.get_mut(place) {
            *slot = code;
        }
    }
}

/// Texts or bytes, each of which is there once.
#[derive(Debug)]
pub(super) struct Texts {
    entries: Entries,
    /// The codes of the views that the present array had lately; a power of two.
    recent: Vec<(u128, u32)>,
    /// Those of the present page, and of all before.
    page: ByteBounds,
    bounds: ByteBounds,
}

/// The views that an array had lately, at most.
const MOST_RECENT: usize = 512;

/// A text, or bytes.
pub(super) trait Text<'a>: Copy {
    fn bytes(self) -> &'a [u8];
    /// Returns bits that others in the same array have only if they are equal, if there are such.
    fn bits(self) -> Option<u128>;
}

impl<'a> Text<'a> for &'a [u8] {
    #[inline]
    fn bytes(self) -> &'a [u8] {
        self
    }

    #[inline]
    fn bits(self) -> Option<u128> {
        None
    }
}

/// A row of an array of views.
#[derive(Debug)]
pub(super) struct ViewText<'a, T: ByteViewType> {
    pub array: &'a GenericByteViewArray<T>,
    pub row: usize,
}

impl<T: ByteViewType> Copy for ViewText<'_, T> {}

impl<T: ByteViewType> Clone for ViewText<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<'a, T: ByteViewType> Text<'a> for ViewText<'a, T> {
    #[inline]
    fn bytes(self) -> &'a [u8] {
        self.array.value(self.row).as_ref()
    }

    #[inline]
    fn bits(self) -> Option<u128> {
        Some(self.array.views()[self.row])
    }
}

impl<K: Number> Numbers<K> {
    pub fn new(order: Order) -> Self {
        let seed = std::hash::RandomState::new().hash_one(0);
        let (near, bounds) = (NearCodes::default(), NumberBounds::new(order));
        Self { values: Vec::new(), near, table: CodeTable::default(), seed, page: bounds, bounds }
    }
}

impl Texts {
    pub fn new() -> Self {
        let (page, bounds) = Default::default();
        Self { entries: Entries::new(None), recent: Vec::new(), page, bounds }
    }

    /// Begins an array of `rows` rows.
    pub fn begin_array(&mut self, rows: usize) {
        self.recent = vec![(0, NONE); rows.next_power_of_two().min(MOST_RECENT)];
    }

    /// Ends the array: its views have nothing to do with those of the next one.
    pub fn end_array(&mut self) {
        self.recent = Vec::new();
    }

    #[inline]
    fn code_of(&mut self, value: &[u8], most: usize) -> Option<u32> {
        let hash = self.entries.hash(value);
        let known = self.entries.find(hash, value);
        if known.is_some() || self.entries.plain_with(value) > most {
            return known;
        }
        Some(self.entries.add(hash, value))
    }
}

impl<K: Number> Dictionary<K> for Numbers<K> {
    #[inline]
    fn code(&mut self, value: K, most: usize) -> Option<u32> {
        let near = self.near.find(value.extended());
        if near.is_some() {
            return near;
        }
        let hash = mix(value.into() ^ self.seed);
        let known = self.table.find(hash, |code| self.values[code as usize] == value);
        if known.is_some() || (self.values.len() + 1) * size_of::<K>() > most {
            return known;
        }
        self.values.push(value);
        let code = self.table.add(hash);
        if self.bounds.order() != Order::Float {
            self.near.add(value.extended(), code);
        }
        Some(code)
    }

    fn len(&self) -> usize {
        self.values.len()
    }

    fn length(&self, _code: usize) -> usize {
        size_of::<K>()
    }

    fn with_entries<T>(&self, function: impl FnOnce(&[&[u8]]) -> T) -> T {
        with_stored(&self.values, function)
    }

    #[inline]
    fn stored_length(_value: K) -> usize {
        size_of::<K>()
    }

    fn append(&mut self, values: impl Iterator<Item = K>, bytes: usize, out: &mut Vec<u8>) {
        let start = out.len();
        out.resize(start + bytes, 0);
        let mut bounds = self.page;
        for (stored, value) in out[start..].chunks_exact_mut(size_of::<K>()).zip(values) {
            value.store(stored);
            bounds.add(value);
        }
        self.page = bounds;
    }

    #[inline]
    fn add_entry_to_page(&mut self, code: usize) {
        self.page.add(self.values[code]);
    }

    fn end_page(&mut self) -> Option<[Vec<u8>; 2]> {
        self.bounds.merge(&self.page);
        let page = std::mem::replace(&mut self.page, NumberBounds::new(self.bounds.order()));
        page.ends().map(|ends| with_stored(&ends, |ends| [ends[0].to_vec(), ends[1].to_vec()]))
    }

    fn with_bounds<T>(&self, function: impl FnOnce(&[&[u8]]) -> T) -> T {
        with_stored(self.bounds.ends().as_ref().map_or(&[], |ends| &ends[..]), function)
    }

    fn clear(&mut self) {
        (self.values, self.near, self.table) = (Vec::new(), NearCodes::default(), CodeTable::default());
    }

    fn memory(&self) -> usize {
        let near = self.near.codes.capacity() * size_of::<u32>();
        self.values.capacity() * size_of::<K>() + near + self.table.memory()
    }
}

impl<'a, V: Text<'a>> Dictionary<V> for Texts {
    #[inline]
    fn code(&mut self, value: V, most: usize) -> Option<u32> {
        let Some(bits) = value.bits() else { return self.code_of(value.bytes(), most) };
        let place = mix((bits >> 64) as u64 ^ bits as u64) as usize & (self.recent.len() - 1);
        let (recent, code) = self.recent[place];
        if recent == bits && code != NONE {
            return Some(code);
        }
        let code = self.code_of(value.bytes(), most)?;
        self.recent[place] = (bits, code);
        Some(code)
    }

    fn len(&self) -> usize {
        self.entries.len()
    }

    fn length(&self, code: usize) -> usize {
        self.entries.value(code as u32).len()
    }

    fn with_entries<T>(&self, function: impl FnOnce(&[&[u8]]) -> T) -> T {
        let codes = 0..self.entries.len() as u32;
        function(&codes.map(|code| self.entries.value(code)).collect::<Vec<_>>())
    }

    #[inline]
    fn stored_length(value: V) -> usize {
        4 + value.bytes().len()
    }

    fn append(&mut self, values: impl Iterator<Item = V>, bytes: usize, out: &mut Vec<u8>) {
        out.reserve(bytes);
        for value in values.map(V::bytes) {
            out.extend_from_slice(&(value.len() as u32).to_le_bytes());
            out.extend_from_slice(value);
            self.page.add(value);
        }
    }

    #[inline]
    fn add_entry_to_page(&mut self, code: usize) {
        self.page.add(self.entries.value(code as u32));
    }

    fn end_page(&mut self) -> Option<[Vec<u8>; 2]> {
        let ends = std::mem::take(&mut self.page).into_ends()?;
        ends.iter().for_each(|end| self.bounds.add(end));
        Some(ends)
    }

    fn with_bounds<T>(&self, function: impl FnOnce(&[&[u8]]) -> T) -> T {
        function(self.bounds.ends().as_ref().map_or(&[], |ends| &ends[..]))
    }

    fn clear(&mut self) {
        self.entries = Entries::new(None);
    }

    fn memory(&self) -> usize {
        self.entries.memory()
    }
}

/// Calls a function with numbers, as the format writes them.
fn with_stored<K: Number, T>(numbers: &[K], function: impl FnOnce(&[&[u8]]) -> T) -> T {
    let mut plain = vec![0; size_of_val(numbers)];
    plain.chunks_exact_mut(size_of::<K>()).zip(numbers).for_each(|(stored, number)| number.store(stored));
    function(&plain.chunks_exact(size_of::<K>()).collect::<Vec<_>>())
}

/// Returns the hash of a number: the high half of a product, folded on the low one.
#[inline]
fn mix(number: u64) -> u32 {
    let product = u128::from(number) * 0x9e37_79b9_7f4a_7c15;
    let folded = (product >> 64) as u64 ^ product as u64;
    (folded >> 32) as u32
}
