//! A hash table from values to their codes, which are kept elsewhere.

/// A slot without a code. Codes are less than `u32::MAX`.
const EMPTY: u64 = u64::MAX;
const LEAST_SLOTS: usize = 16;

/// The codes of values that are found by their hashes. Codes are numbered in the order in which they are added.
#[derive(Debug, Default)]
pub(crate) struct CodeTable {
    /// The hash of a value, above its code. At least half of them are empty.
    slots: Vec<u64>,
    len: usize,
}

impl CodeTable {
    /// Returns the code of a value; `is_equal` tells whether a code is the one of the value.
    #[inline]
    pub fn find(&self, hash: u32, is_equal: impl Fn(u32) -> bool) -> Option<u32> {
        let mask = self.slots.len().checked_sub(1)?;
        let mut place = hash as usize & mask;
        loop {
            let slot = self.slots[place];
            if slot == EMPTY {
                return None;
            }
            if (slot >> 32) as u32 == hash && is_equal(slot as u32) {
                return Some(slot as u32);
            }
            place = (place + 1) & mask;
        }
    }

    /// Adds a value that is new, and returns its code.
    pub fn add(&mut self, hash: u32) -> u32 {
        if 2 * (self.len + 1) > self.slots.len() {
            let more = vec![EMPTY; (2 * self.slots.len()).max(LEAST_SLOTS)];
            let slots = std::mem::replace(&mut self.slots, more);
            slots.into_iter().filter(|&slot| slot != EMPTY).for_each(|slot| self.put(slot));
        }
        let code = self.len as u32;
        self.len += 1;
        self.put(u64::from(hash) << 32 | u64::from(code));
        code
    }

    fn put(&mut self, slot: u64) {
        let mask = self.slots.len() - 1;
        let mut place = (slot >> 32) as usize & mask;
        while self.slots[place] != EMPTY {
            place = (place + 1) & mask;
        }
        self.slots[place] = slot;
    }

    /// Returns the number of values.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns the memory in use, in bytes.
    pub fn memory(&self) -> usize {
        self.slots.capacity() * size_of::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_hashes_are_told_apart() {
        let mut table = CodeTable::default();
        assert_eq!(table.find(7, |_| true), None);
        for code in 0..100 {
            assert_eq!(table.add(code % 3), code);
        }
        assert_eq!(table.find(2, |code| code == 98), Some(98));
        assert_eq!(table.find(2, |code| code == 99), None);
        assert_eq!(table.find(5, |_| true), None);
        assert_eq!(table.len(), 100);
    }
}
