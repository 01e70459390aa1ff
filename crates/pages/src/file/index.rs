//! The last bytes of a page file: the index of its pages, and the end.

use xxhash_rust::xxh3::xxh3_64;

use super::FileError;

/// The bytes of a page's entry.
pub(super) const ENTRY_BYTES: usize = 12;
/// The bytes of the end.
pub(super) const END_BYTES: usize = 32;
/// The last eight bytes.
const MAGIC: [u8; 8] = *b"AnPgDone";

/// The entry of a page in the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub partition: u32,
    pub sequence: u32,
    pub tuples: u32,
}

/// Returns the bytes of index and end.
pub(super) fn to_bytes(entries: &[Entry]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(entries.len() * ENTRY_BYTES + END_BYTES);
    for entry in entries {
        [entry.partition, entry.sequence, entry.tuples].iter().for_each(|word| bytes.extend(word.to_le_bytes()));
    }
    let tuples: u64 = entries.iter().map(|entry| u64::from(entry.tuples)).sum();
    bytes.extend((entries.len() as u64).to_le_bytes());
    bytes.extend(tuples.to_le_bytes());
    let checksum = xxh3_64(&bytes);
    bytes.extend(checksum.to_le_bytes());
    bytes.extend(MAGIC);
    bytes
}

/// Returns the number of pages, from a file's last bytes.
pub(super) fn pages(end: &[u8; END_BYTES]) -> Result<u64, FileError> {
    if end[24..] != MAGIC {
        return Err(FileError::Incomplete);
    }
    Ok(long(end, 0))
}

/// Reads index and end. Returns the entries and the number of all tuples.
pub(super) fn from_bytes(bytes: &[u8]) -> Result<(Vec<Entry>, u64), FileError> {
    let (entries, end) = bytes.split_last_chunk::<END_BYTES>().ok_or(FileError::Incomplete)?;
    if xxh3_64(&bytes[..bytes.len() - 16]) != long(end, 16) {
        return Err(FileError::Damaged("the checksum of the index is wrong"));
    }
    let (entries, _) = entries.as_chunks::<ENTRY_BYTES>();
    let word = |entry: &[u8; ENTRY_BYTES], at: usize| u32::from_le_bytes(std::array::from_fn(|i| entry[at + i]));
    let entry = |entry| Entry { partition: word(entry, 0), sequence: word(entry, 4), tuples: word(entry, 8) };
    let entries: Vec<Entry> = entries.iter().map(entry).collect();
    let tuples: u64 = entries.iter().map(|entry| u64::from(entry.tuples)).sum();
    if tuples != long(end, 8) {
        return Err(FileError::Damaged("the number of tuples at its end is not that of its pages"));
    }
    Ok((entries, tuples))
}

fn long(end: &[u8; END_BYTES], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|i| end[at + i]))
}
