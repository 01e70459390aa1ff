//! How a part that is joined by itself is cut, if it is too large. Pure.

use std::ops::Range;

use super::files::Piece;

/// The bytes of a row in a table, and while the table is made.
pub(super) const TABLE_ROW_BYTES: usize = 24;
/// The most blocks for which the probe side is read again. To divide rows once more costs two more
/// passes over both sides.
const FEW_BLOCKS: usize = 3;
/// The most divisions of a row. Only many rows with one key are still together then.
const MOST_LEVELS: u32 = 8;
/// The bounds of the number of parts into which a part is divided.
const PARTS: std::ops::RangeInclusive<usize> = 4..=16;
/// A part that has at least this share of the rows of the one that it was divided from is skewed:
/// most of its rows have one key.
const SKEWED: (usize, usize) = (3, 4);

/// Returns the memory to make a table: the rows, a copy of them, and the table.
pub(super) fn build_bytes(bytes: usize, rows: usize) -> usize {
    bytes.saturating_mul(2).saturating_add(rows.saturating_mul(TABLE_ROW_BYTES))
}

/// Cuts the pieces of a part into blocks whose tables take at most `most_bytes` to make, but have a
/// piece at least. A part without rows has one block.
pub(super) fn blocks(pieces: &[Piece], most_bytes: usize) -> Vec<Range<usize>> {
    let (mut blocks, mut start, mut bytes, mut rows) = (Vec::new(), 0, 0, 0);
    for (at, piece) in pieces.iter().enumerate() {
        if at > start && build_bytes(bytes + piece.bytes, rows + piece.rows) > most_bytes {
            blocks.push(start..at);
            (start, bytes, rows) = (at, 0, 0);
        }
        (bytes, rows) = (bytes + piece.bytes, rows + piece.rows);
    }
    blocks.push(start..pieces.len());
    blocks
}

/// Returns the number of parts into which a part of this many blocks is divided, or nothing if it
/// is joined block by block.
pub(super) fn division(blocks: usize, level: u32, is_whole: bool) -> Option<usize> {
    let is_divided = blocks > FEW_BLOCKS && level < MOST_LEVELS && !is_whole;
    is_divided.then(|| (2 * blocks).next_power_of_two().clamp(*PARTS.start(), *PARTS.end()))
}

/// Returns whether a part with `rows` rows has most of the rows of the part above it.
pub(super) fn is_skewed(rows: usize, of: usize) -> bool {
    rows > of / SKEWED.1 * SKEWED.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(bytes: &[usize]) -> Vec<Piece> {
        bytes.iter().map(|&bytes| Piece { rows: 0, bytes }).collect()
    }

    #[test]
    fn blocks_are_as_large_as_they_may_be() {
        assert_eq!(blocks(&pieces(&[10, 10, 10, 10, 10]), 40), [0..2, 2..4, 4..5]);
        assert_eq!(blocks(&pieces(&[10, 10]), 40), std::slice::from_ref(&(0..2)));
        // A piece that is too large has a block of its own.
        assert_eq!(blocks(&pieces(&[100, 10, 100]), 40), [0..1, 1..2, 2..3]);
        assert_eq!(blocks(&[], 40), std::slice::from_ref(&(0..0)));
        let rows = [Piece { rows: 1000, bytes: 0 }; 2];
        assert_eq!(blocks(&rows, 1000 * TABLE_ROW_BYTES).len(), 2);
    }

    #[test]
    fn parts_are_divided_if_that_helps() {
        assert_eq!(division(1, 1, false), None);
        assert_eq!(division(4, 1, false), Some(8));
        assert_eq!(division(1000, 1, false), Some(16));
        assert_eq!(division(1000, 1, true), None);
        assert_eq!(division(1000, MOST_LEVELS, false), None);
        assert!(is_skewed(76, 100) && !is_skewed(75, 100) && !is_skewed(0, 0));
    }
}
