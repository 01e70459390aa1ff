//! Vectors that are prepared once.

use arrow::array::Array;

use super::{elements::Elements, exact::squares, metric::VectorMetric};
use crate::error::JoinError;

/// The sums of squares with which 64-bit floats neither overflow nor lose digits in a product.
const PLAIN_SQUARES: std::ops::RangeInclusive<f64> = 1e-280..=1e300;

/// The largest number of rows whose mean is the centre.
const CENTRE_ROWS: usize = 1024;

/// The longest vectors whose products have useful error bounds.
const MOST_PLAIN_ELEMENTS: usize = 1 << 20;

/// Vectors of one side, prepared once: for use on either side, by several threads, and with any number
/// of blocks of the other side.
///
/// The elements stay in the memory of their array. Preparing takes about as long as reading them once,
/// and 8 to 12 bytes a row.
///
/// ```
/// use annulus_join::{NearestLists, RightVectors, VectorBlock, VectorMetric, nearest_vectors};
/// use arrow::{array::FixedSizeListArray, datatypes::Float32Type};
///
/// let vectors = |rows: &[[f32; 2]]| {
///     let rows = rows.iter().map(|row| Some(row.map(Some)));
///     VectorBlock::try_new(
///         &FixedSizeListArray::from_iter_primitive::<Float32Type, _, _>(rows, 2),
///         VectorMetric::Euclidean,
///     )
/// };
/// let (left, right) = (vectors(&[[0.0, 1.0]])?, vectors(&[[3.0, 5.0], [0.0, 2.0], [9.0, 9.0]])?);
/// let mut lists = NearestLists::new(1, 2);
/// let right = RightVectors { block: &right, ties: &[0; 3], first_row: 0 };
/// nearest_vectors(&left, 0..1, right, &mut lists, &mut || Ok(()))?;
/// let nearest = lists.sort(0).iter();
/// let nearest: Vec<_> = nearest.map(|it| (it.row, VectorMetric::Euclidean.result(it.distance))).collect();
/// assert_eq!(nearest, [(1, 1.0), (0, 5.0)]);
/// # Ok::<(), annulus_join::JoinError>(())
/// ```
#[derive(Debug)]
pub struct VectorBlock {
    pub(super) metric: VectorMetric,
    pub(super) elements: Elements,
    /// The sum of the squares of each row's elements: for Euclidean distances less `centre`, else as
    /// the scalar function adds them up. It is meaningless for rows without results.
    pub(super) squares: Vec<f64>,
    /// A point amid the vectors, for Euclidean distances; else empty. Products of vectors far from
    /// the origin would have large errors.
    pub(super) centre: Vec<f64>,
    /// The rows that take part in products: none that are null, and no `special` ones.
    pub(super) plain: RowNumbers,
    /// The rows that are always evaluated exactly: with elements that are infinite, NaN, or too large or
    /// too small for products.
    pub(super) special: Vec<u32>,
    /// The largest norm of a plain row.
    pub(super) norm_max: f64,
    /// The lengths of the shortest and the longest vector among those that the scalar function compares.
    lengths: Option<[usize; 2]>,
}

/// Ascending numbers of rows.
#[derive(Debug)]
pub(super) enum RowNumbers {
    /// The rows from 0.
    All(u32),
    Listed(Vec<u32>),
}

impl RowNumbers {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::All(rows) => *rows as usize,
            Self::Listed(rows) => rows.len(),
        }
    }

    #[inline]
    pub(super) fn row(&self, place: usize) -> u32 {
        match self {
            Self::All(_) => place as u32,
            Self::Listed(rows) => rows[place],
        }
    }

    /// Leaves a row out, while rows are looked at in ascending order.
    fn skip(&mut self, row: usize) {
        if let Self::All(_) = self {
            *self = Self::Listed((0..row as u32).collect());
        }
    }

    /// Adds a row, while rows are looked at in ascending order.
    fn add(&mut self, row: usize) {
        if let Self::Listed(rows) = self {
            rows.push(row as u32);
        }
    }
}

impl VectorBlock {
    /// Prepares vectors: a `FixedSizeList`, `List` or `LargeList` of `Float16`, `Float32`, `Float64` or
    /// `Int8`. The two sides may have different types.
    ///
    /// # Errors
    /// [`JoinError::VectorsUnsupported`] if the array has another type, and [`JoinError::TooManyRows`] if
    /// its rows cannot be numbered with 32 bits.
    pub fn try_new(vectors: &dyn Array, metric: VectorMetric) -> Result<Self, JoinError> {
        let elements = Elements::try_new(vectors)?;
        let rows = u32::try_from(elements.rows).map_err(|_| JoinError::TooManyRows { rows: elements.rows })?;
        let mut block = Self {
            metric,
            elements,
            squares: Vec::with_capacity(rows as usize),
            centre: Vec::new(),
            plain: RowNumbers::All(rows),
            special: Vec::new(),
            norm_max: 0.0,
            lengths: None,
        };
        block.lengths = block.find_lengths();
        if metric == VectorMetric::Euclidean {
            block.centre = block.find_centre();
        }
        block.sort_rows();
        Ok(block)
    }

    /// Returns the number of vectors.
    pub fn rows(&self) -> usize {
        self.elements.rows
    }

    /// Returns the metric that the vectors are prepared for.
    pub fn metric(&self) -> VectorMetric {
        self.metric
    }

    /// Returns the bytes that the vectors take, including those of the array.
    pub fn memory_bytes(&self) -> usize {
        let listed = match &self.plain {
            RowNumbers::All(_) => 0,
            RowNumbers::Listed(rows) => 4 * rows.capacity(),
        };
        let words = self.squares.capacity() + self.centre.capacity();
        8 * words + 4 * self.special.capacity() + listed + self.elements.memory_bytes() + size_of::<Self>()
    }

    /// Returns the length of the vectors that both sides have, or none if no pair has a result.
    ///
    /// # Errors
    /// [`JoinError::VectorLengths`] if the scalar function would compare vectors of different lengths.
    pub(super) fn common_length(&self, right: &Self) -> Result<Option<usize>, JoinError> {
        let (Some(left), Some(right)) = (self.lengths, right.lengths) else { return Ok(None) };
        let differing = left.iter().flat_map(|&left| right.map(|right| (left, right))).find(|(a, b)| a != b);
        match differing {
            Some((left, right)) => Err(JoinError::VectorLengths { left, right }),
            None => Ok(Some(left[0])),
        }
    }

    /// Returns whether a sum of squares, and whether all elements are zero, are those of a plain row.
    pub(super) fn is_plain(squares: f64, is_zero: bool, length: usize) -> bool {
        length <= MOST_PLAIN_ELEMENTS && (is_zero || PLAIN_SQUARES.contains(&squares))
    }

    fn has_result(&self, row: usize) -> bool {
        !self.elements.is_null(row) && !self.elements.has_null_element(row)
    }

    /// Returns whether a row may have results with others.
    pub(super) fn is_candidate(&self, row: usize) -> bool {
        self.has_result(row) && !(self.metric.is_cosine() && self.squares[row] == 0.0)
    }

    fn find_lengths(&self) -> Option<[usize; 2]> {
        // The distance looks for null elements before it compares lengths, and the others after that.
        let compares = |row: &usize| match self.metric {
            VectorMetric::Euclidean => self.has_result(*row),
            _ => !self.elements.is_null(*row),
        };
        let lengths = (0..self.rows()).filter(compares).map(|row| self.elements.range(row).len());
        lengths.fold(None, |found: Option<[usize; 2]>, length| {
            let [least, most] = found.unwrap_or([length; 2]);
            Some([least.min(length), most.max(length)])
        })
    }

    /// Returns the mean of some rows: empty if it is unknown.
    fn find_centre(&self) -> Vec<f64> {
        let Some([length, most]) = self.lengths else { return Vec::new() };
        if length != most {
            return Vec::new();
        }
        let (mut sums, mut row_values, mut count) = (vec![0.0; length], Vec::new(), 0.0);
        for row in (0..self.rows()).step_by(self.rows().div_ceil(CENTRE_ROWS)).filter(|&row| self.has_result(row)) {
            self.elements.widen_row(row, &mut row_values);
            if PLAIN_SQUARES.contains(&squares(&row_values, &[])) {
                sums.iter_mut().zip(&row_values).for_each(|(sum, value)| *sum += value);
                count += 1.0;
            }
        }
        if count > 0.0 {
            sums.iter_mut().for_each(|sum| *sum /= count);
        }
        sums
    }

    /// Adds up squares, and sorts the rows into plain, special and those without results.
    fn sort_rows(&mut self) {
        let mut row_values = Vec::new();
        for row in 0..self.rows() {
            self.squares.push(0.0);
            if !self.has_result(row) {
                self.plain.skip(row);
                continue;
            }
            self.elements.widen_row(row, &mut row_values);
            let sum = squares(&row_values, if self.centre.len() == row_values.len() { &self.centre } else { &[] });
            self.squares[row] = sum;
            let is_zero = sum == 0.0 && is_zero(&row_values, &self.centre);
            if self.metric.is_cosine() && sum == 0.0 {
                self.plain.skip(row);
            } else if !Self::is_plain(sum, is_zero, row_values.len()) {
                self.plain.skip(row);
                self.special.push(row as u32);
            } else {
                self.norm_max = self.norm_max.max(sum.sqrt());
                self.plain.add(row);
            }
        }
    }
}

/// Returns whether a row has no elements other than zero, or than those of the centre.
pub(super) fn is_zero(row: &[f64], centre: &[f64]) -> bool {
    if centre.is_empty() { row.iter().all(|&a| a == 0.0) } else { row == centre }
}
