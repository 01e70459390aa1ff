"""Compares answers to a query: Arrow files that different engines have written.

Numbers, texts and dates must be equal, with two exceptions. Two floats may differ by 1e-9 of their value: their sums depend on
the order of the terms. Where one engine computes a float and another a decimal, they may differ by 1e-6 of their value and by
one unit of the decimal's last digit: DuckDB divides decimals as floats, and DataFusion cuts their quotients to a few digits.
Types and names of columns may differ. Rows with equal values in the columns of ORDER BY may come in any order, and of those
that LIMIT may have cut, only these columns are compared.
"""

import math

import pyarrow
import pyarrow.ipc

# Of two floats, and of a float and a decimal.
TOLERANCE = 1e-9
MIXED_TOLERANCE = 1e-6


def load(path):
    """Reads an answer."""
    with pyarrow.ipc.open_file(path) as file:
        return file.read_all()


class Column:
    """The values of a column in both answers."""

    def __init__(self, left, right):
        self.sides = (left.to_pylist(), right.to_pylist())
        types = (left.type, right.type)
        self.is_float = any(map(pyarrow.types.is_floating, types))
        scales = [one.scale for one in types if pyarrow.types.is_decimal(one)]
        is_mixed = self.is_float and scales
        self.unit = 10.0 ** -scales[0] if is_mixed else 0.0
        self.tolerance = MIXED_TOLERANCE if is_mixed else TOLERANCE

    def same(self, left, right):
        """Whether a value of the left answer is equal to one of the right."""
        if left is None or right is None:
            return left is right
        if not self.is_float:
            return left == right
        left, right = float(left), float(right)
        if left == right or math.isnan(left) and math.isnan(right):
            return True
        return abs(left - right) <= self.unit + self.tolerance * max(abs(left), abs(right))

    def rank(self, side, row):
        """What rows are sorted by, on one side."""
        value = self.sides[side][row]
        if value is None:
            return (2, 0)
        if not self.is_float:
            return (0, value)
        return (1, 0) if math.isnan(value) else (0, float(value))


def difference(left, right, order):
    """The first difference, in words, or None. `order` has the columns `by` which rows are ordered, and the `cut`, if any."""
    if left.num_columns != right.num_columns:
        return f"{left.num_columns} columns and {right.num_columns} columns"
    if left.num_rows != right.num_rows:
        return f"{left.num_rows} rows and {right.num_rows} rows"
    columns = [Column(*pair) for pair in zip(left.columns, right.columns)]
    keys = [columns[place] for place in order["by"]]
    for row in range(left.num_rows):
        if not all(key.same(key.sides[0][row], key.sides[1][row]) for key in keys):
            found = [[key.sides[side][row] for key in keys] for side in (0, 1)]
            return f"the order differs: {found[0]} and {found[1]}"
    rows = determined(keys, left.num_rows, order["cut"])
    # Floats come last, so that a small difference does not change the order.
    ranked = sorted(columns, key=lambda column: column.is_float)
    orders = [sorted(rows, key=lambda row, side=side: [column.rank(side, row) for column in ranked]) for side in (0, 1)]
    for pair in zip(*orders):
        if not all(column.same(column.sides[0][pair[0]], column.sides[1][pair[1]]) for column in columns):
            found = [[column.sides[side][pair[side]] for column in columns] for side in (0, 1)]
            return f"{found[0]} and {found[1]}"
    return None


def determined(keys, count, cut):
    """The rows that every answer has: all but those that a cut chose among rows with equal keys."""
    first, last = 0, count
    if cut and count:
        def tied(row, other):
            return all(key.same(key.sides[0][row], key.sides[0][other]) for key in keys)

        if cut["offset"]:
            first = next((row for row in range(count) if not tied(0, row)), count)
        if count >= cut["limit"]:
            last = next((row + 1 for row in reversed(range(count)) if not tied(count - 1, row)), 0)
    return range(first, max(first, last))
