//! The nearest right rows of each left row so far.

use crate::merge::words::float_word;

/// A right row, and how near it is to a left row. The nearest is the smallest.
///
/// Rows of equal distance are ordered by `tie`, a number that depends on the values of the right row
/// alone. The rows that are kept then depend neither on the order of the right side nor on threads.
/// Rows that nothing else tells apart are ordered by their numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Neighbour<D> {
    /// The distance, or anything that is smaller for a nearer row.
    pub distance: D,
    /// Decides between rows of equal distance.
    pub tie: u64,
    /// The number of the right row.
    pub row: u32,
}

/// Returns a distance as a word of the same order, for [`Neighbour::distance`]. The words of -0.0 and 0.0 are equal.
/// All NaNs have the largest word: they are the farthest. A similarity is a distance with the other sign.
///
/// ```
/// use annulus_join::distance_word;
///
/// assert!(distance_word(-1.5) < distance_word(0.0) && distance_word(0.0) == distance_word(-0.0));
/// assert!(distance_word(f64::INFINITY) < distance_word(-f64::NAN));
/// ```
#[inline]
pub fn distance_word(distance: f64) -> u64 {
    if distance.is_nan() { u64::MAX } else { float_word(distance.to_bits(), 64) }
}

/// The nearest right rows of each of some left rows: at most `k` for each of them.
///
/// Takes `rows * k` [`Neighbour`]s of memory. Offering a row takes a comparison, and O(log k) if the
/// row is among the nearest so far.
///
/// ```
/// use annulus_join::{NearestLists, Neighbour};
///
/// let mut lists = NearestLists::new(1, 2);
/// for (row, distance) in [(0, 7), (1, 5), (2, 9), (3, 1)] {
///     lists.offer(0, Neighbour { distance, tie: 0, row });
/// }
/// let rows: Vec<_> = lists.sort(0).iter().map(|neighbour| neighbour.row).collect();
/// assert_eq!(rows, [3, 1]);
/// ```
#[derive(Debug)]
pub struct NearestLists<D> {
    k: usize,
    /// `k` places for each left row, of which the first `lengths[row]` are a heap with the farthest
    /// row on top.
    neighbours: Vec<Neighbour<D>>,
    lengths: Vec<u32>,
}

impl<D: Ord + Clone + Default> NearestLists<D> {
    /// Returns empty lists of at most `k` right rows for each of `rows` left rows.
    pub fn new(rows: usize, k: usize) -> Self {
        Self { k, neighbours: vec![Neighbour::default(); rows * k], lengths: vec![0; rows] }
    }

    /// Returns the number of left rows.
    pub fn rows(&self) -> usize {
        self.lengths.len()
    }

    /// Returns the largest number of right rows in a list.
    pub fn k(&self) -> usize {
        self.k
    }

    /// Returns the farthest right row in the list of a left row, if the list is full: only nearer rows
    /// still enter it.
    #[inline]
    pub fn farthest(&self, left: usize) -> Option<&Neighbour<D>> {
        if self.lengths[left] as usize == self.k { self.neighbours.get(left * self.k) } else { None }
    }

    /// Puts a right row into the list of a left row, if it is among the nearest. Returns whether it is.
    #[inline]
    pub fn offer(&mut self, left: usize, neighbour: Neighbour<D>) -> bool {
        let length = self.lengths[left] as usize;
        let heap = &mut self.neighbours[left * self.k..][..self.k];
        if length < self.k {
            heap[length] = neighbour;
            self.lengths[left] += 1;
            rise(&mut heap[..=length]);
            return true;
        }
        match heap.first_mut() {
            Some(farthest) if neighbour < *farthest => {
                *farthest = neighbour;
                sink(heap);
                true
            }
            _ => false,
        }
    }

    /// Returns the list of a left row.
    pub fn list(&self, left: usize) -> &[Neighbour<D>] {
        &self.neighbours[left * self.k..][..self.lengths[left] as usize]
    }

    /// Sorts the list of a left row, which takes no more rows then, and returns it: the nearest first.
    pub fn sort(&mut self, left: usize) -> &[Neighbour<D>] {
        let list = &mut self.neighbours[left * self.k..][..self.lengths[left] as usize];
        list.sort_unstable();
        list
    }
}

/// Moves the last row of a heap up to its place.
fn rise<D: Ord>(heap: &mut [Neighbour<D>]) {
    let mut place = heap.len() - 1;
    while place > 0 {
        let parent = (place - 1) / 2;
        if heap[place] <= heap[parent] {
            return;
        }
        heap.swap(place, parent);
        place = parent;
    }
}

/// Moves the first row of a heap down to its place.
fn sink<D: Ord>(heap: &mut [Neighbour<D>]) {
    let mut place = 0;
    loop {
        let mut child = 2 * place + 1;
        if child + 1 < heap.len() && heap[child] < heap[child + 1] {
            child += 1;
        }
        if child >= heap.len() || heap[child] <= heap[place] {
            return;
        }
        heap.swap(place, child);
        place = child;
    }
}
