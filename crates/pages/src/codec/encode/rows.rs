//! The rows of an array that are encoded.

use std::sync::Arc;

/// The number for an absent row: null, zeros, no bytes.
pub(super) const ABSENT: u32 = u32::MAX;

/// Rows of an array, in the order in which they are encoded.
#[derive(Clone, Debug)]
pub(in crate::codec) enum Rows<'a> {
    /// The first rows; the value is their number.
    All(usize),
    /// These rows.
    Some(&'a [u32]),
    /// These rows, of which some may be [`ABSENT`].
    Masked(Arc<[u32]>),
}

/// A mapping of positions to the array's rows.
pub(super) trait Pick: Copy {
    fn pick(self, position: usize) -> Option<usize>;
}

/// The rows from this one on.
#[derive(Clone, Copy)]
pub(super) struct RowsFrom(pub usize);

/// These rows.
#[derive(Clone, Copy)]
pub(super) struct ListedRows<'a>(pub &'a [u32]);

/// These rows, of which some may be [`ABSENT`].
#[derive(Clone, Copy)]
pub(super) struct MaskedRows<'a>(pub &'a [u32]);

impl Pick for RowsFrom {
    #[inline(always)]
    fn pick(self, position: usize) -> Option<usize> {
        Some(self.0 + position)
    }
}

impl Pick for ListedRows<'_> {
    #[inline(always)]
    fn pick(self, position: usize) -> Option<usize> {
        Some(self.0[position] as usize)
    }
}

impl Pick for MaskedRows<'_> {
    #[inline(always)]
    fn pick(self, position: usize) -> Option<usize> {
        let row = self.0[position];
        (row != ABSENT).then_some(row as usize)
    }
}

/// Runs an expression for the rows of a range of positions, with their concrete type.
macro_rules! with_rows {
    ($rows:expr, $range:expr, |$pick:ident| $body:expr) => {
        match $rows {
            $crate::codec::encode::rows::Rows::All(_) => {
                let $pick = $crate::codec::encode::rows::RowsFrom($range.start);
                $body
            }
            $crate::codec::encode::rows::Rows::Some(rows) => {
                let $pick = $crate::codec::encode::rows::ListedRows(&rows[$range]);
                $body
            }
            $crate::codec::encode::rows::Rows::Masked(rows) => {
                let $pick = $crate::codec::encode::rows::MaskedRows(&rows[$range]);
                $body
            }
        }
    };
}
pub(super) use with_rows;

impl Rows<'_> {
    pub fn len(&self) -> usize {
        match self {
            Self::All(rows) => *rows,
            Self::Some(rows) => rows.len(),
            Self::Masked(rows) => rows.len(),
        }
    }

    /// Replaces each of these rows by the one that `row` names.
    pub fn map(&self, row: impl Fn(usize) -> u32) -> Rows<'static> {
        let len = self.len();
        let mapped = with_rows!(self, 0..len, |rows| {
            (0..len).map(|position| rows.pick(position).map_or(ABSENT, &row)).collect()
        });
        Rows::Masked(mapped)
    }

    /// Calls `each` with every row.
    pub fn for_each(&self, mut each: impl FnMut(Option<usize>)) {
        let len = self.len();
        with_rows!(self, 0..len, |rows| (0..len).for_each(|position| each(rows.pick(position))));
    }
}
