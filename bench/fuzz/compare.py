"""Answers of both engines as bags of rows, and how they differ.

The values are exact: floats are quarters, and their sums are, too. Types may differ, so values are those of Python: numbers are
equal whatever their type, times are nanoseconds, and zeros of both signs are one.
"""

import math
from collections import Counter

import pyarrow
import pyarrow.compute


def values(column):
    """The values of a column."""
    types, kind = pyarrow.types, column.type
    if types.is_dictionary(kind):
        return values(column.cast(kind.value_type))
    if types.is_date(kind):
        return column.cast(pyarrow.date32()).cast(pyarrow.int32()).to_pylist()
    if types.is_timestamp(kind):
        return column.cast(pyarrow.timestamp("ns", kind.tz)).cast(pyarrow.int64()).to_pylist()
    if types.is_time(kind):
        return column.cast(pyarrow.time64("ns")).cast(pyarrow.int64()).to_pylist()
    if types.is_floating(kind):
        return ["NaN" if value is not None and math.isnan(value) else value for value in column.to_pylist()]
    return column.to_pylist()


def rows(table):
    """The rows of an answer, in their order."""
    columns = [values(column) for column in table.columns]
    return list(zip(*columns)) if columns else [()] * table.num_rows


def shown(counted, most=3):
    listed = [f"{row}" + (f" x{count}" if count > 1 else "") for row, count in counted.most_common(most)]
    return ", ".join(listed) + (f" and {len(counted) - most} more" if len(counted) > most else "")


def difference(query, expected, found):
    """How `found` is no answer to the query, or None. `expected` is the answer to its reference."""
    theirs, ours = rows(expected), rows(found)
    if query.order:
        if theirs == ours:
            return None
        place = next((at for at, pair in enumerate(zip(theirs, ours)) if pair[0] != pair[1]), min(len(theirs), len(ours)))
        pair = [repr(some[place]) if place < len(some) else "no row" for some in (theirs, ours)]
        return f"{len(theirs)} rows and {len(ours)} rows; row {place}: {pair[0]} and {pair[1]}"
    theirs, ours = Counter(theirs), Counter(ours)
    more = ours - theirs
    if query.limit is not None:
        wanted = min(query.limit, theirs.total())
        if not more and ours.total() == wanted:
            return None
        return f"{wanted} rows of {theirs.total()} wanted, {ours.total()} found; not among them: {shown(more)}"
    less = theirs - ours
    if not more and not less:
        return None
    return f"{theirs.total()} rows and {ours.total()} rows; only in the first: {shown(less)}; only in the second: {shown(more)}"


def same_rows(query, one, other):
    """Whether two answers have the same rows. Of a limit alone, the number must be the same."""
    if query.limit is not None and not query.order:
        return one.num_rows == other.num_rows
    return Counter(rows(one)) == Counter(rows(other))
