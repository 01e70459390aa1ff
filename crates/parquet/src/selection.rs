//! The rows of a window that have passed so far.

use std::ops::Range;

/// Rows of a window, in order.
#[derive(Debug, Default)]
pub(crate) struct Selection {
    /// The number of rows of the window.
    window: usize,
    /// Whether all rows are selected; `rows` does not count then.
    is_all: bool,
    rows: Vec<u32>,
}

impl Selection {
    /// Selects all rows of a window.
    pub fn reset(&mut self, window: usize) {
        self.window = window;
        self.is_all = true;
    }

    /// Returns the number of selected rows.
    pub fn len(&self) -> usize {
        if self.is_all { self.window } else { self.rows.len() }
    }

    /// Returns the selected rows, or `None` if all are.
    pub fn rows(&self) -> Option<&[u32]> {
        (!self.is_all).then_some(&self.rows)
    }

    /// Keeps those rows for which `keep` answers true, by their place among the selected ones.
    pub fn retain_nth(&mut self, keep: impl Fn(usize) -> bool) {
        if self.is_all {
            return self.retain_in([(0..self.window, ())], |(), row| keep(row));
        }
        let mut count = 0;
        for nth in 0..self.rows.len() {
            self.rows[count] = self.rows[nth];
            count += usize::from(keep(nth));
        }
        self.rows.truncate(count);
    }

    /// Keeps those rows for which `keep` answers true. `parts` are consecutive ranges of all rows of the
    /// window, each with what `keep` needs to know of it.
    pub fn retain_in<P>(
        &mut self,
        parts: impl IntoIterator<Item = (Range<usize>, P)>,
        keep: impl Fn(&P, usize) -> bool,
    ) {
        let mut count = 0;
        if self.is_all {
            self.rows.clear();
            self.rows.resize(self.window, 0);
            for (range, part) in parts {
                for row in range {
                    self.rows[count] = row as u32;
                    count += usize::from(keep(&part, row));
                }
            }
        } else {
            let mut next = 0;
            for (range, part) in parts {
                let end = next + self.rows[next..].partition_point(|&row| (row as usize) < range.end);
                for at in next..end {
                    let row = self.rows[at];
                    self.rows[count] = row;
                    count += usize::from(keep(&part, row as usize));
                }
                next = end;
            }
        }
        self.rows.truncate(count);
        self.is_all = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_kept_in_order() {
        let mut selection = Selection::default();
        selection.reset(10);
        assert_eq!((selection.len(), selection.rows()), (10, None));
        selection.retain_in([(0..4, 2), (4..10, 3)], |part, row| row % part == 0);
        assert_eq!(selection.rows(), Some(&[0, 2, 6, 9][..]));
        selection.retain_in([(0..6, true), (6..10, false)], |&part, row| part || row == 9);
        assert_eq!(selection.rows(), Some(&[0, 2, 9][..]));
        selection.retain_nth(|nth| nth != 1);
        assert_eq!(selection.rows(), Some(&[0, 9][..]));
        selection.reset(3);
        selection.retain_nth(|nth| nth == 2);
        assert_eq!(selection.rows(), Some(&[2][..]));
        selection.retain_nth(|_| false);
        assert_eq!(selection.len(), 0);
    }
}
