//! Sealing a page before it leaves the process.

use xxhash_rust::xxh3::Xxh3;

use super::{HEADER_BYTES, Header, Page, PageError, PageReader};

/// The offset of the checksum in the header.
const CHECKSUM_AT: usize = 48;

/// Seals a page. It writes the id of its schema, zeroes the bytes between slots and data, which are
/// left from another page, and writes the checksum. A sealed page can be sealed again. Sealing
/// takes one pass over the page, at about the speed of memory.
///
/// # Errors
/// Those of [`PageReader::new`], if the page's writer broke the rules.
pub fn seal(page: &mut Page, schema_id: u64) -> Result<(), PageError> {
    let free = {
        // An earlier checksum may be outdated.
        let bytes = page.bytes_mut();
        bytes[CHECKSUM_AT..CHECKSUM_AT + 8].fill(0);
        let reader = PageReader::new(bytes)?;
        HEADER_BYTES + reader.slots().len()..bytes.len() - reader.header().payload_bytes as usize
    };
    let header = Header { schema_id, checksum: 0, ..page.header() };
    let bytes = page.bytes_mut();
    bytes[free].fill(0);
    bytes[..HEADER_BYTES].copy_from_slice(&header.to_bytes());
    let checksum = checksum(&header, &bytes[HEADER_BYTES..]);
    bytes[CHECKSUM_AT..CHECKSUM_AT + 8].copy_from_slice(&checksum.to_le_bytes());
    Ok(())
}

/// Returns the XXH3 hash (64 bits) of the page with 0 in place of the checksum. The result is never
/// 0, which means that there is no checksum.
pub(super) fn checksum(header: &Header, rest: &[u8]) -> u64 {
    let mut hasher = Xxh3::new();
    hasher.update(&Header { checksum: 0, ..*header }.to_bytes());
    hasher.update(rest);
    hasher.digest().max(1)
}
