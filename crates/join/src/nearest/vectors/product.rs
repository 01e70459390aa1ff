//! Products of packed matrices of 32-bit floats, by one thread.
//!
//! Rows lie in panels: the first elements of [`LEFT_LANES`] or [`RIGHT_LANES`] rows, then their second
//! elements, and so on. The product of two panels keeps its sums in registers. Long rows are cut into
//! blocks of elements, such that a right panel stays in the first-level cache.

use std::ops::Range;

/// The rows of a left and of a right panel. The sums take 12 of the 16 registers of AVX2.
pub(super) const LEFT_LANES: usize = 6;
pub(super) const RIGHT_LANES: usize = 16;

/// The largest number of elements in a block of a row.
const BLOCK_ELEMENTS: usize = 448;

/// Rows of 32-bit floats in panels.
#[derive(Default)]
pub(super) struct Panels<const LANES: usize> {
    values: Vec<f32>,
    rows: usize,
    length: usize,
    /// The number of elements in all blocks of a row except the last.
    block: usize,
}

impl<const LANES: usize> Panels<LANES> {
    /// Makes room for rows of zeros.
    pub(super) fn reset(&mut self, rows: usize, length: usize) {
        self.rows = rows.next_multiple_of(LANES);
        self.length = length;
        self.block = length.div_ceil(length.div_ceil(BLOCK_ELEMENTS).max(1)).max(1);
        self.values.clear();
        self.values.resize(self.rows * length, 0.0);
    }

    /// Returns the number of rows with the zero rows of the last panel.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Writes the first elements of a row.
    #[inline]
    pub(super) fn put(&mut self, row: usize, elements: impl Iterator<Item = f32>) {
        let (mut elements, mut first) = (elements, 0);
        while first < self.length {
            let count = self.block.min(self.length - first);
            let panel = &mut self.values[first * self.rows + row / LANES * count * LANES..][..count * LANES];
            for (place, element) in panel.as_chunks_mut::<LANES>().0.iter_mut().zip(&mut elements) {
                place[row % LANES] = element;
            }
            first += count;
        }
    }

    /// Writes the last element of a row.
    pub(super) fn put_last(&mut self, row: usize, element: f32) {
        let first = (self.length - 1) / self.block * self.block;
        let count = self.length - first;
        self.values[first * self.rows + row / LANES * count * LANES + (count - 1) * LANES + row % LANES] = element;
    }

    /// Returns a block of a panel.
    #[inline(always)]
    fn panel(&self, panel: usize, block: &Range<usize>) -> &[[f32; LANES]] {
        let elements = block.len() * LANES;
        self.values[block.start * self.rows + panel * elements..][..elements].as_chunks::<LANES>().0
    }

    fn blocks(&self) -> impl Iterator<Item = Range<usize>> + use<LANES> {
        let (block, length) = (self.block, self.length);
        (0..length).step_by(block).map(move |first| first..length.min(first + block))
    }
}

/// Writes the product of each row of some left panels with each right row: those of a left row one
/// after the other, [`rows`](Panels::rows) of `right` in number.
pub(super) fn multiply(
    left: &Panels<LEFT_LANES>,
    panels: Range<usize>,
    right: &Panels<RIGHT_LANES>,
    scores: &mut Vec<f32>,
) {
    scores.resize(panels.len() * LEFT_LANES * right.rows, 0.0);
    if left.length == 0 {
        scores.fill(0.0);
    }
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
        // SAFETY: the processor has both features.
        unsafe { multiply_avx2(left, panels, right, scores) };
        return;
    }
    multiply_panels::<{ cfg!(target_feature = "fma") || cfg!(target_arch = "aarch64") }>(left, panels, right, scores);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn multiply_avx2(left: &Panels<LEFT_LANES>, panels: Range<usize>, right: &Panels<RIGHT_LANES>, scores: &mut [f32]) {
    multiply_panels::<true>(left, panels, right, scores);
}

/// Computes the product of each left panel with each right panel. Without `FUSED` products are rounded
/// before they are added: the fused operation is slow where the processor has none.
#[inline(always)]
fn multiply_panels<const FUSED: bool>(
    left: &Panels<LEFT_LANES>,
    panels: Range<usize>,
    right: &Panels<RIGHT_LANES>,
    scores: &mut [f32],
) {
    for block in left.blocks() {
        for right_panel in 0..right.rows / RIGHT_LANES {
            let b = right.panel(right_panel, &block);
            for left_panel in panels.clone() {
                let a = left.panel(left_panel, &block);
                let first = (left_panel - panels.start) * LEFT_LANES * right.rows + right_panel * RIGHT_LANES;
                add_product::<FUSED>(a, b, block.start > 0, &mut scores[first..], right.rows);
            }
        }
    }
}

/// Writes the product of two panels to the scores, or adds it to what they have.
#[inline(always)]
fn add_product<const FUSED: bool>(
    a: &[[f32; LEFT_LANES]],
    b: &[[f32; RIGHT_LANES]],
    to_scores: bool,
    scores: &mut [f32],
    stride: usize,
) {
    let mut sums = [[0.0; RIGHT_LANES]; LEFT_LANES];
    for (a, b) in a.iter().zip(b) {
        for (sums, &a) in sums.iter_mut().zip(a) {
            for (sum, &b) in sums.iter_mut().zip(b) {
                *sum = if FUSED { a.mul_add(b, *sum) } else { a * b + *sum };
            }
        }
    }
    for (row, sums) in sums.iter().enumerate() {
        let scores = &mut scores[row * stride..][..RIGHT_LANES];
        if to_scores {
            scores.iter_mut().zip(sums).for_each(|(score, sum)| *score += sum);
        } else {
            scores.copy_from_slice(sums);
        }
    }
}
