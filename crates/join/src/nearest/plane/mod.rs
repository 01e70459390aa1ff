//! The nearest points of the plane.
//!
//! Finite points are in a tree whose leaves have a few neighbouring points each. Its nodes halve the number
//! of points, so that neither clusters nor outliers make it deeper. A search goes to the nearest leaf first
//! and leaves out each node whose rectangle is too far. The other points are infinitely far, or at no number:
//! how far, depends only on which coordinates are infinite or NaN. Each such class of points has a list.

mod formula;
mod search;
mod tree;

use arrow::{
    array::{Array, Float64Array},
    buffer::NullBuffer,
    error::ArrowError,
};

pub use formula::PlaneFormula;
use formula::{INFINITE, squared};
use search::Search;
use tree::{Point, PointTree};

use super::{
    NearestLists,
    line::{check_lists, check_rows},
    ties::Tie,
};
use crate::{error::JoinError, pace::Pace};

/// The right rows of a nearest-rows join whose distance is that of points of the plane. Any number of
/// threads may search it.
///
/// A distance is computed as a [`PlaneFormula`] says. The word of a distance, as
/// [`Neighbour::distance`](crate::Neighbour::distance) has it, is the bits of the float. A distance that is
/// not a number is farther than all numbers, and its word is that of a NaN without a sign.
///
/// ```
/// use annulus_join::{NearestLists, PlaneFormula, PlaneIndex};
/// use arrow::array::Float64Array;
///
/// let (xs, ys) = (Float64Array::from(vec![0.0, 3.0, 9.0]), Float64Array::from(vec![0.0, 4.0, 9.0]));
/// let index = PlaneIndex::try_new(&xs, &ys, PlaneFormula::Euclidean, &[0; 3], 0, 1)?;
/// let mut lists = NearestLists::new(1, 2);
/// let (xs, ys) = (Float64Array::from(vec![0.0]), Float64Array::from(vec![0.0]));
/// index.nearest(&xs, &ys, &mut lists, &mut || Ok(()))?;
/// let rows: Vec<_> = lists.sort(0).iter().map(|near| (near.row, f64::from_bits(near.distance))).collect();
/// assert_eq!(rows, [(0, 0.0), (1, 5.0)]);
/// # Ok::<(), annulus_join::JoinError>(())
/// ```
#[derive(Debug)]
pub struct PlaneIndex {
    formula: PlaneFormula,
    tree: PointTree,
    classes: Vec<PointClass>,
}

/// Points that have the same distance from a point each, as a coordinate is infinite or NaN.
#[derive(Debug)]
struct PointClass {
    /// A point of the class; a finite coordinate is 0.
    at: [f64; 2],
    /// The ties of the rows, in ascending order.
    ties: Vec<Tie>,
}

impl PlaneIndex {
    /// Prepares right rows, which have the numbers from `first_row` on. A row with a null coordinate is not
    /// a candidate. `ties` has a number for each row, which decides between rows of equal distance.
    ///
    /// O(rows * log(rows)) on `threads` threads. Takes 28 bytes a row and at most 12 more, and up to 60 a row
    /// while it runs.
    ///
    /// # Errors
    /// [`JoinError::Arrow`] if there are not as many `ys` and ties as `xs`; [`JoinError::TooManyRows`] if a
    /// row's number takes more than 32 bits.
    pub fn try_new(
        xs: &Float64Array,
        ys: &Float64Array,
        formula: PlaneFormula,
        ties: &[u64],
        first_row: u32,
        threads: usize,
    ) -> Result<Self, JoinError> {
        check_coordinates(xs, ys)?;
        check_rows(xs.len(), ties, first_row)?;
        let nulls = NullBuffer::union(xs.nulls(), ys.nulls());
        let (mut points, mut classes) = (Vec::with_capacity(xs.len()), Vec::<PointClass>::new());
        let coordinates = xs.values().iter().zip(ys.values());
        for (row, ((&x, &y), &tie)) in coordinates.zip(ties).enumerate() {
            if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
                continue;
            }
            let (at, tie) = ([x, y], Tie { tie, row: first_row + row as u32 });
            if is_finite(at) {
                points.push(Point { at, tie });
                continue;
            }
            let class = at.map(class_of);
            let same = |other: &&mut PointClass| other.at.map(f64::to_bits) == class.map(f64::to_bits);
            match classes.iter_mut().find(same) {
                Some(found) => found.ties.push(tie),
                None => classes.push(PointClass { at: class, ties: vec![tie] }),
            }
        }
        classes.iter_mut().for_each(|class| class.ties.sort_unstable());
        Ok(Self { formula, tree: PointTree::new(points, threads), classes })
    }

    /// Returns the memory that the index takes, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.tree.memory_bytes() + self.classes.iter().map(|class| size_of_val(&class.ties[..])).sum::<usize>()
    }

    /// Offers right rows to the lists of left rows, one list for each point. The lists end up as if all
    /// rows of this index had been offered. They may have rows of other indexes, and get none of this one
    /// that are farther. The list of a row with a null coordinate stays as it is.
    ///
    /// O(log(rows) + k * log(k)) or so for a left row. Where far more than `k` points are nearly as near as
    /// the nearest, such as on a circle around the left row's, each of them takes time. Calls `check` first,
    /// and then every few milliseconds.
    ///
    /// # Errors
    /// [`JoinError::Arrow`] if there are not as many `ys` and lists as `xs`; any error of `check`, after
    /// which the lists lack rows.
    pub fn nearest(
        &self,
        xs: &Float64Array,
        ys: &Float64Array,
        lists: &mut NearestLists<u64>,
        check: &mut dyn FnMut() -> Result<(), JoinError>,
    ) -> Result<(), JoinError> {
        check_coordinates(xs, ys)?;
        check_lists(xs.len(), lists)?;
        let pace = &mut Pace::new(check);
        let nulls = NullBuffer::union(xs.nulls(), ys.nulls());
        let is_valid = |row: usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
        // Rows that are near each other are searched one after the other: they need the same nodes.
        let mut order = Vec::with_capacity(xs.len());
        for (row, (&x, &y)) in xs.values().iter().zip(ys.values()).enumerate().filter(|(row, _)| is_valid(*row)) {
            pace.step(1)?;
            order.push((self.tree.place_on_curve([x, y]), row));
        }
        order.sort_unstable();
        for (_, row) in order {
            pace.step(1)?;
            self.nearest_to([xs.value(row), ys.value(row)], row, lists, pace)?;
        }
        Ok(())
    }

    fn nearest_to(
        &self,
        at: [f64; 2],
        row: usize,
        lists: &mut NearestLists<u64>,
        pace: &mut Pace<'_>,
    ) -> Result<(), JoinError> {
        if is_finite(at) {
            Search { tree: &self.tree, formula: self.formula, at, row }.run(lists, pace)?;
            if lists.farthest(row).is_some_and(|farthest| farthest.distance < INFINITE) {
                return Ok(());
            }
        } else {
            // All finite points are at the same distance.
            let distance = self.formula.word(squared(at, [0.0; 2]));
            self.tree.ties.offer_equal(0..self.tree.ties.len(), distance, row, lists, pace)?;
        }
        for class in &self.classes {
            let distance = self.formula.word(squared(at, class.at));
            let entered = class.ties.iter().take_while(|tie| lists.offer(row, tie.with_distance(distance))).count();
            pace.step(entered + 1)?;
        }
        Ok(())
    }
}

fn is_finite(at: [f64; 2]) -> bool {
    at[0].is_finite() && at[1].is_finite()
}

/// Returns a coordinate that has the same distance from all others, if it is infinite or NaN; else 0.
fn class_of(coordinate: f64) -> f64 {
    if coordinate.is_nan() {
        f64::NAN
    } else if coordinate.is_infinite() {
        coordinate
    } else {
        0.0
    }
}

/// Checks that each point has both coordinates.
fn check_coordinates(xs: &Float64Array, ys: &Float64Array) -> Result<(), JoinError> {
    if xs.len() != ys.len() {
        let message = format!("{} x coordinates but {} y coordinates; each point needs both", xs.len(), ys.len());
        return Err(ArrowError::InvalidArgumentError(message).into());
    }
    Ok(())
}
