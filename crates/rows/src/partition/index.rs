//! The index of rows by consumer, made by a counting sort.

use std::ops::Range;

use super::{MAX_CONSUMERS, Modulo, Target, few};
use crate::error::RowsError;

/// The most consumers for which the input is cut into [`STRIPES`] stripes, which are processed in
/// turn and have separate counters. With few consumers, neighbouring rows often have the same one.
/// Each increment of a counter then waits for the store before it.
const STRIPED_MAX_CONSUMERS: usize = 64;
const STRIPES: usize = 4;

/// The rows of one batch, grouped by consumer. Rows of a consumer keep their order.
///
/// It is made to be reused: after the longest batch it allocates nothing more.
///
/// ```
/// use annulus_rows::{Modulo, RowIndex};
///
/// let mut index = RowIndex::new();
/// index.fill_from_hashes(&[7, 8, 10], &Modulo::new(3))?;
/// assert_eq!(index.targets(), [1, 2, 1]);
/// assert_eq!(index.rows_of(1).as_slice(), [0, 2]);
/// assert_eq!(index.offsets(), [0, 0, 2, 3]);
/// # Ok::<(), annulus_rows::RowsError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct RowIndex {
    targets: Vec<Target>,
    offsets: Vec<u32>,
    rows: Vec<u32>,
    positions: Vec<u32>,
    gap: u32,
    /// The bound below which all added targets are.
    consumers: usize,
    /// The counters, which become write positions: `cursors[stripe * consumers + consumer]`.
    cursors: Vec<u32>,
}

impl RowIndex {
    /// Creates an index without rows.
    pub fn new() -> Self {
        Self::default()
    }

    /// Groups rows by `hash % N`. O(rows + N).
    ///
    /// # Errors
    /// If there are 2^32 rows or more. The index is then empty.
    pub fn fill_from_hashes(&mut self, hashes: &[u64], modulo: &Modulo) -> Result<(), RowsError> {
        self.clear();
        self.add_hashes(hashes, modulo);
        self.group()
    }

    /// Removes all rows.
    #[inline]
    pub fn clear(&mut self) {
        self.targets.clear();
        self.consumers = 0;
    }

    /// Appends rows. [`group`](Self::group) or [`place`](Self::place) must follow.
    pub fn add_hashes(&mut self, hashes: &[u64], modulo: &Modulo) {
        self.consumers = self.consumers.max(modulo.consumers());
        modulo.append_targets(hashes, &mut self.targets);
    }

    /// Computes the inverse of [`group`](Self::group): fills [`positions`](Self::positions) instead
    /// of [`rows`](Self::rows). Leaves `gap` positions free after those of each consumer. O(rows +
    /// N).
    ///
    /// # Errors
    /// If the positions do not fit in 32 bits. The index is then empty.
    pub fn place(&mut self, gap: u32) -> Result<(), RowsError> {
        let consumers = self.consumers;
        self.rows.clear();
        self.check_len(consumers, gap)?;
        self.positions.resize(self.targets.len(), 0);
        let stripes = self.count(consumers, gap);
        let positions = &mut self.positions;
        let put = |position: u32, row: u32| positions[row as usize] = position;
        place(stripes, &self.targets, consumers, &mut self.cursors, put);
        Ok(())
    }

    /// Groups rows whose targets `fill` writes. O(rows + N).
    ///
    /// # Errors
    /// If `fill` fails, a target is not below `consumers`, or there are 2^32 rows or more. The
    /// index is then empty.
    pub fn fill_from_targets<E: Into<RowsError>>(
        &mut self,
        consumers: usize,
        fill: impl FnOnce(&mut Vec<Target>) -> Result<(), E>,
    ) -> Result<(), RowsError> {
        let filled = fill(&mut self.targets).map_err(Into::into).and_then(|()| match self.targets.iter().max() {
            Some(&max) if usize::from(max) >= consumers => Err(RowsError::Argument {
                argument: "target",
                value: max.to_string(),
                remedy: "choose a number below that of consumers",
            }),
            _ => Ok(()),
        });
        if filled.is_err() {
            self.targets.clear();
        }
        self.consumers = consumers.clamp(1, MAX_CONSUMERS);
        let grouped = self.group();
        filled.and(grouped)
    }

    /// Returns the consumer of each row, in the order of the batch.
    #[inline]
    pub fn targets(&self) -> &[Target] {
        &self.targets
    }

    /// Returns the position of each consumer's first row in the grouped order, and the end of that
    /// order: N + 1 values.
    #[inline]
    pub fn offsets(&self) -> &[u32] {
        &self.offsets
    }

    /// Returns the position of each row of the batch in the grouped order, after
    /// [`place`](Self::place).
    #[inline]
    pub fn positions(&self) -> &[u32] {
        &self.positions
    }

    /// Returns the positions of a consumer's rows in the grouped order.
    #[inline]
    pub fn range(&self, consumer: usize) -> Range<u32> {
        self.offsets[consumer]..self.offsets[consumer + 1] - self.gap
    }

    /// Returns all rows, grouped by consumer.
    #[inline]
    pub fn rows(&self) -> Rows<'_> {
        Rows { rows: &self.rows, bound: self.rows.len(), distinct: true }
    }

    /// Returns the rows of one consumer, in the order of the batch. A consumer that does not exist
    /// has none.
    #[inline]
    pub fn rows_of(&self, consumer: usize) -> Rows<'_> {
        if consumer + 1 >= self.offsets.len() {
            return self.rows().slice(0..0);
        }
        let Range { start, end } = self.range(consumer);
        self.rows().slice(start as usize..end as usize)
    }

    /// Returns the bytes that this index has allocated.
    pub fn allocated_bytes(&self) -> usize {
        self.targets.capacity() * size_of::<Target>()
            + (self.offsets.capacity() + self.rows.capacity() + self.positions.capacity() + self.cursors.capacity())
                * size_of::<u32>()
    }

    /// Groups the added rows by a counting sort. O(rows + N).
    ///
    /// # Errors
    /// If there are 2^32 rows or more. The index is then empty.
    pub fn group(&mut self) -> Result<(), RowsError> {
        let consumers = self.consumers;
        self.positions.clear();
        self.check_len(consumers, 0)?;
        if consumers <= few::MAX_CONSUMERS {
            self.gap = 0;
            few::group(&self.targets, consumers, &mut self.rows, &mut self.offsets);
            return Ok(());
        }
        self.rows.resize(self.targets.len(), 0);
        let stripes = self.count(consumers, 0);
        let rows = &mut self.rows;
        let put = |position: u32, row: u32| rows[position as usize] = row;
        place(stripes, &self.targets, consumers, &mut self.cursors, put);
        Ok(())
    }

    /// Checks that positions fit in 32 bits. If they do not, empties the index and fails.
    fn check_len(&mut self, consumers: usize, gap: u32) -> Result<(), RowsError> {
        let rows = self.targets.len();
        if positions_fit(rows, consumers, gap) {
            return Ok(());
        }
        self.targets.clear();
        self.rows.clear();
        self.offsets.clear();
        let remedy = "give fewer than 4294967296 rows at a time, and 8 less for each consumer";
        Err(RowsError::Argument { argument: "number of rows", value: rows.to_string(), remedy })
    }

    /// Counts the targets, and turns the counts into offsets and cursors. Returns the number of
    /// stripes.
    fn count(&mut self, consumers: usize, gap: u32) -> usize {
        let stripes = if consumers <= STRIPED_MAX_CONSUMERS { STRIPES } else { 1 };
        self.cursors.clear();
        self.cursors.resize(stripes * consumers, 0);
        if stripes == STRIPES {
            count_striped(&self.targets, consumers, &mut self.cursors);
        } else {
            count(&self.targets, &mut self.cursors);
        }
        self.gap = gap;
        prefix_sums(consumers, gap, &mut self.cursors, &mut self.offsets);
        stripes
    }
}

/// Row numbers of a batch that are all below a known bound, so that a copy checks the batch's
/// length only once.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a> {
    rows: &'a [u32],
    bound: usize,
    /// Whether no row occurs twice.
    distinct: bool,
}

impl<'a> Rows<'a> {
    /// Wraps any row numbers, in any order, also repeated. Reads each one.
    pub fn new(rows: &'a [u32]) -> Self {
        Self { rows, bound: rows.iter().max().map_or(0, |&max| max as usize + 1), distinct: false }
    }

    /// Returns the row numbers, each below [`bound`](Self::bound).
    #[inline]
    pub fn as_slice(&self) -> &'a [u32] {
        self.rows
    }

    /// Returns a bound below which all row numbers are.
    #[inline]
    pub fn bound(&self) -> usize {
        self.bound
    }

    /// Returns the most times that a row occurs.
    #[inline]
    pub(crate) fn max_repeats(&self) -> usize {
        if self.distinct { 1 } else { self.rows.len() }
    }

    /// Returns the number of rows.
    #[inline]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns whether there are no rows.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the first `at` rows and the rest. If there are fewer, returns all and none.
    #[inline]
    pub fn split_at(self, at: usize) -> (Self, Self) {
        let (head, tail) = self.rows.split_at(at.min(self.rows.len()));
        (Self { rows: head, ..self }, Self { rows: tail, ..self })
    }

    #[inline]
    fn slice(self, range: Range<usize>) -> Self {
        Self { rows: self.rows.get(range).unwrap_or_default(), ..self }
    }
}

/// Returns whether the positions of `rows` rows, with a gap after those of each consumer, fit in 32
/// bits, their end included.
pub(super) fn positions_fit(rows: usize, consumers: usize, gap: u32) -> bool {
    let gaps = consumers.checked_mul(gap as usize);
    let end = gaps.and_then(|gaps| gaps.checked_add(rows));
    end.is_some_and(|end| u32::try_from(end).is_ok())
}

/// Returns the length of all stripes except the last one.
fn stripe_len(rows: usize) -> usize {
    rows / STRIPES
}

fn count(targets: &[Target], counts: &mut [u32]) {
    for &target in targets {
        counts[usize::from(target)] += 1;
    }
}

fn count_striped(targets: &[Target], consumers: usize, counts: &mut [u32]) {
    let len = stripe_len(targets.len());
    let (ta, tb, tc, td) = cut(targets, len);
    let (ca, rest) = counts.split_at_mut(consumers);
    let (cb, rest) = rest.split_at_mut(consumers);
    let (cc, cd) = rest.split_at_mut(consumers);
    for (((&a, &b), &c), &d) in ta.iter().zip(tb).zip(tc).zip(td) {
        ca[usize::from(a)] += 1;
        cb[usize::from(b)] += 1;
        cc[usize::from(c)] += 1;
        cd[usize::from(d)] += 1;
    }
    count(&td[len..], cd);
}

/// Turns counts into the position of each consumer's first row in each stripe, and writes the
/// consumers' offsets.
fn prefix_sums(consumers: usize, gap: u32, cursors: &mut [u32], offsets: &mut Vec<u32>) {
    offsets.clear();
    let mut position = 0;
    for consumer in 0..consumers {
        offsets.push(position);
        for cursor in cursors.iter_mut().skip(consumer).step_by(consumers) {
            position += std::mem::replace(cursor, position);
        }
        position += gap;
    }
    offsets.push(position);
}

/// Calls `put(position, row)` for each row with its position in the grouped order.
fn place(stripes: usize, targets: &[Target], consumers: usize, cursors: &mut [u32], mut put: impl FnMut(u32, u32)) {
    let mut step = |cursors: &mut [u32], target: Target, row: u32| {
        let cursor = &mut cursors[usize::from(target)];
        put(*cursor, row);
        *cursor += 1;
    };
    if stripes == 1 {
        (0..).zip(targets).for_each(|(row, &target)| step(cursors, target, row));
        return;
    }
    let len = stripe_len(targets.len());
    let (ta, tb, tc, td) = cut(targets, len);
    let (ca, rest) = cursors.split_at_mut(consumers);
    let (cb, rest) = rest.split_at_mut(consumers);
    let (cc, cd) = rest.split_at_mut(consumers);
    let stride = len as u32;
    for (row, (((&a, &b), &c), &d)) in (0..).zip(ta.iter().zip(tb).zip(tc).zip(td)) {
        step(ca, a, row);
        step(cb, b, row + stride);
        step(cc, c, row + 2 * stride);
        step(cd, d, row + 3 * stride);
    }
    (4 * stride..).zip(&td[len..]).for_each(|(row, &target)| step(cd, target, row));
}

/// Cuts the targets into four stripes. The last has up to three rows more than `len`.
fn cut(targets: &[Target], len: usize) -> (&[Target], &[Target], &[Target], &[Target]) {
    let (a, rest) = targets.split_at(len);
    let (b, rest) = rest.split_at(len);
    let (c, d) = rest.split_at(len);
    (a, b, c, d)
}
