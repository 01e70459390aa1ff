"""Answers as bags of rows, bit by bit."""

import struct
from collections import Counter

import pyarrow

BITS = {16: pyarrow.uint16(), 32: pyarrow.uint32(), 64: pyarrow.uint64()}


def is_nested(kind):
    types = pyarrow.types
    return types.is_nested(kind) or types.is_dictionary(kind)


def bits(column):
    """A column with the bits of floats in their place: zeros have signs, and NaN is equal to itself."""
    if pyarrow.types.is_floating(column.type):
        return column.combine_chunks().view(BITS[column.type.bit_width])
    return column


def exact(value):
    """A value that is equal to another one if they have the same bits."""
    if isinstance(value, float):
        return struct.pack("<d", value)
    if isinstance(value, dict):
        return tuple((name, exact(part)) for name, part in value.items())
    if isinstance(value, (list, tuple)):
        return tuple(exact(part) for part in value)
    return value


def numbers(column):
    """The values of a column as Python has them exactly: times are integers."""
    types, kind = pyarrow.types, column.type
    if types.is_temporal(kind):
        column = column.combine_chunks()
        return column.view(pyarrow.int32() if kind.bit_width == 32 else pyarrow.int64()).to_pylist()
    return [exact(value) for value in bits(column).to_pylist()]


def rows(table):
    columns = [numbers(column) for column in table.columns]
    return list(zip(*columns)) if columns else [()] * table.num_rows


def in_the_same_order(one, other):
    """Whether two answers are equal, rows in the same order. Where that is not known, False."""
    if one.num_rows != other.num_rows or any(is_nested(column.type) for column in one.columns):
        return False
    return all(bits(mine).equals(bits(theirs)) for mine, theirs in zip(one.columns, other.columns))


def shown(counted, most=3):
    listed = [f"{row}" + (f" x{count}" if count > 1 else "") for row, count in counted.most_common(most)]
    return ", ".join(listed) + (f" and {len(counted) - most} more" if len(counted) > most else "")


def schemas(one, other):
    """How two schemas differ, or None."""
    if one.equals(other, check_metadata=True):
        return None
    pairs = [f"{mine} and {theirs}" for mine, theirs in zip(one, other) if not mine.equals(theirs, check_metadata=True)]
    return f"schemas differ: {'; '.join(pairs) or 'metadata'}"


def difference(expected, found):
    """How two answers differ as bags, or None."""
    schema = schemas(expected.schema, found.schema)
    if schema or in_the_same_order(expected, found):
        return schema
    theirs, ours = Counter(rows(expected)), Counter(rows(found))
    less, more = theirs - ours, ours - theirs
    if not less and not more:
        return None
    return f"{theirs.total()} rows and {ours.total()} rows; only in the first: {shown(less)}; only in the second: {shown(more)}"


def of_limit(expected, found, everything):
    """How an answer with a limit is not one of those that there may be, or None."""
    schema = schemas(expected.schema, found.schema)
    if schema or in_the_same_order(expected, found):
        return schema
    if expected.num_rows != found.num_rows:
        return f"{expected.num_rows} rows and {found.num_rows} rows"
    more = Counter(rows(found)) - Counter(rows(everything))
    return f"not among all rows: {shown(more)}" if more else None
