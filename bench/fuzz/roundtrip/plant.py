"""Faults that are planted into what Annulus returns, so that it is known that they would be found."""

import pyarrow
import pyarrow.compute

from model import is_text, types


def drop_nan(column):
    """NaN as another value of the column, as statistics without NaN say."""
    if not types.is_float32(column.type) and not types.is_float64(column.type):
        return column
    values = column.to_pylist()
    plain = [value for value in values if value is not None and value == value]
    values = [value if value is None or value == value else plain[0] if plain else 1.0 for value in values]
    return pyarrow.array(values, column.type)


def drop_zone(column):
    """Times with a zone as the same numbers without one."""
    if types.is_timestamp(column.type) and column.type.tz:
        return column.view(pyarrow.int64()).view(pyarrow.timestamp(column.type.unit))
    return column


def fill_null(column):
    return pyarrow.compute.fill_null(column, 0) if types.is_integer(column.type) else column


def drop_zero(column):
    """Texts of digits without their leading zeros."""
    if not is_text(column.type):
        return column
    texts = [str(int(text)) if text and text.isascii() and text.isdecimal() else text for text in column.to_pylist()]
    return pyarrow.array(texts, column.type)


def wrap(table, check):
    """A band that takes the differences that wrap beside those that do not."""
    if check is None or check.wrong is None:
        return table
    rows = sorted(check.wrong.elements())
    return pyarrow.table({"id": [row[0] for row in rows], "other": [row[1] for row in rows]})


COLUMNS = {"nan": drop_nan, "zone": drop_zone, "null": fill_null, "zero": drop_zero}
FAULTS = (*COLUMNS, "wrap")


def planted(name):
    """What alters the rows that Annulus returns, given the check that they answer, if any."""
    if name == "wrap":
        return wrap

    def alter(table, check):
        columns = [COLUMNS[name](column.combine_chunks()) for column in table.columns]
        return pyarrow.table(columns, table.column_names) if columns else table

    return alter
