//! Which parts of a build side leave memory. Pure.

/// Returns the numbers of the parts to spill, the largest first, so that at least `need` bytes
/// become free; all parts that take memory if they are too small. Few large files are read and
/// written faster than many small ones.
pub(super) fn victims(bytes: &[usize], need: usize) -> Vec<usize> {
    let mut parts: Vec<usize> = (0..bytes.len()).filter(|&part| bytes[part] > 0).collect();
    parts.sort_by_key(|&part| std::cmp::Reverse(bytes[part]));
    let mut freed = 0_usize;
    let enough = parts.iter().position(|&part| {
        freed = freed.saturating_add(bytes[part]);
        freed >= need
    });
    parts.truncate(enough.map_or(parts.len(), |last| last + 1));
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_parts_go_until_there_is_enough() {
        let bytes = [5, 0, 30, 7, 30];
        assert_eq!(victims(&bytes, 1), [2]);
        assert_eq!(victims(&bytes, 31), [2, 4]);
        assert_eq!(victims(&bytes, 67), [2, 4, 3]);
        assert_eq!(victims(&bytes, 1000), [2, 4, 3, 0]);
        assert!(victims(&[0, 0], 1).is_empty() && victims(&[], 1).is_empty());
    }
}
