"""Faults that are planted into the answers of the encoded scan, so that it is known that they would be found."""

import math

import pyarrow


def of_floats(change):
    """A fault that changes floats."""
    def alter(column):
        if column.type not in (pyarrow.float32(), pyarrow.float64()):
            return column
        return pyarrow.array([None if value is None else change(value) for value in column.to_pylist()], column.type)

    return alter


def fill_null(column):
    """Null as zero."""
    return column.fill_null(0) if pyarrow.types.is_integer(column.type) else column


def cut_text(column):
    """Texts of more than twelve bytes, which have their bytes elsewhere, without the last one."""
    if column.type != pyarrow.string_view():
        return column
    texts = [text[:-1] if text and len(text) > 12 else text for text in column.to_pylist()]
    return pyarrow.array(texts, column.type)


def add_unit(column):
    """Times that are one unit later."""
    if not pyarrow.types.is_timestamp(column.type):
        return column
    numbers = column.view(pyarrow.int64()).to_pylist()
    return pyarrow.array([None if number is None else number + 1 for number in numbers], pyarrow.int64()).view(column.type)


def each(change):
    """A fault of each column."""
    return lambda table: pyarrow.Table.from_arrays([change(column.combine_chunks()) for column in table.columns], schema=table.schema)


def lose_row(table):
    return table.slice(0, table.num_rows - 1) if table.num_rows > 20 else table


def repeat_row(table):
    return pyarrow.concat_tables([table.slice(0, table.num_rows - 1), table.slice(0, 1)]) if table.num_rows > 20 else table


def forget_nulls(table):
    """A schema whose columns are never null."""
    schema = pyarrow.schema([field.with_nullable(False) for field in table.schema])
    has_nulls = any(column.null_count for column in table.columns)
    return table if has_nulls else pyarrow.Table.from_arrays(table.columns, schema=schema)


FAULTS = {
    "zero": each(of_floats(lambda value: 0.0 if value == 0 else value)),
    "nan": each(of_floats(lambda value: math.nan if math.isnan(value) else value)),
    "infinity": each(of_floats(lambda value: math.nan if math.isinf(value) else value)),
    "null": each(fill_null), "text": each(cut_text), "time": each(add_unit),
    "row": lose_row, "repeated": repeat_row, "schema": forget_nulls,
}
