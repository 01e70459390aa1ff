//! Grouping for few consumers: a pass over the targets for each of them, without counters in
//! memory.

use super::Target;

/// The most consumers for which a pass for each of them beats a counting sort.
pub(super) const MAX_CONSUMERS: usize = 4;
/// The most rows that a pass may write after those that it keeps.
const SLACK: usize = 16;

/// Writes the rows, grouped by consumer, to `rows`, which gets the length of `targets`. Writes N +
/// 1 `offsets`.
pub(super) fn group(targets: &[Target], consumers: usize, rows: &mut Vec<u32>, offsets: &mut Vec<u32>) {
    offsets.clear();
    rows.resize(targets.len() + SLACK, 0);
    let mut kept = 0;
    for consumer in 0..consumers {
        offsets.push(kept as u32);
        kept += select(targets, consumer as Target, &mut rows[kept..]);
    }
    offsets.push(kept as u32);
    rows.truncate(targets.len());
}

/// Writes the numbers of the rows whose target is `wanted`, in order, and returns their count.
/// `out` has `SLACK` more places than there are such rows.
fn select(targets: &[Target], wanted: Target, out: &mut [u32]) -> usize {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx512f")
        && std::arch::is_x86_feature_detected!("avx512bw")
        && std::arch::is_x86_feature_detected!("avx512vl")
    {
        // SAFETY: the machine has the features.
        return unsafe { select_avx512(targets, wanted, out) };
    }
    select_from(0, targets, wanted, 0, out)
}

/// Does the work of `select` for the rows from `first` on, after `kept` rows were written.
fn select_from(first: usize, targets: &[Target], wanted: Target, mut kept: usize, out: &mut [u32]) -> usize {
    for (row, target) in (first as u32..).zip(&targets[first..]) {
        // Written in any case, and kept if wanted: there is no branch to mispredict.
        out[kept] = row;
        kept += usize::from(*target == wanted);
    }
    kept
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn select_avx512(targets: &[Target], wanted: Target, out: &mut [u32]) -> usize {
    use std::arch::x86_64::*;
    const LANES: usize = 16;
    let wanted_lanes = _mm256_set1_epi16(wanted as i16);
    let mut rows = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    let mut kept = 0;
    let (whole, _) = targets.as_chunks::<LANES>();
    for chunk in whole {
        assert!(kept + LANES <= out.len());
        // SAFETY: the chunk has 32 bytes, and `out` has 16 places from `kept` on.
        unsafe {
            let lanes = _mm256_loadu_si256(chunk.as_ptr().cast());
            let mask = _mm256_cmpeq_epi16_mask(lanes, wanted_lanes);
            _mm512_storeu_si512(out.as_mut_ptr().add(kept).cast(), _mm512_maskz_compress_epi32(mask, rows));
            kept += mask.count_ones() as usize;
        }
        rows = _mm512_add_epi32(rows, _mm512_set1_epi32(LANES as i32));
    }
    select_from(whole.len() * LANES, targets, wanted, kept, out)
}
