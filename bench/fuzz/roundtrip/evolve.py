"""Files of one folder whose columns have other types, or are missing: as those that were written at different times."""

import random as randoms

import pyarrow

import model
from model import UNITS, types

SIGNED = (pyarrow.int8(), pyarrow.int16(), pyarrow.int32(), pyarrow.int64())
UNSIGNED = (pyarrow.uint8(), pyarrow.uint16(), pyarrow.uint32(), pyarrow.uint64())


def fits(kind, values):
    """Whether a type has all of these values."""
    try:
        return model.read(model.build(kind, values)) == values
    except (pyarrow.ArrowException, OverflowError, ValueError):
        return False


def relatives(kind):
    """Types that a column of this one may have in another file."""
    if kind in SIGNED:
        return [one for one in SIGNED if one.bit_width < kind.bit_width]
    if kind in UNSIGNED:
        return [one for one in UNSIGNED if one.bit_width < kind.bit_width]
    if types.is_float64(kind):
        return [pyarrow.float32()]
    if types.is_decimal128(kind) and kind.precision - kind.scale > 1:
        return [pyarrow.decimal128(kind.precision - 1, kind.scale)]
    if types.is_timestamp(kind):
        return [pyarrow.timestamp(unit, kind.tz) for unit in UNITS if UNITS[unit] > UNITS[kind.unit]]
    if types.is_string(kind):
        return [pyarrow.large_string(), pyarrow.dictionary(pyarrow.int32(), pyarrow.string())]
    if types.is_large_string(kind):
        return [pyarrow.string()]
    return []


def evolved(rows, place, luck):
    """The rows of one file. Those of the first one are as they are."""
    random, columns = randoms.Random(luck + place), {}
    for field, column in zip(rows.schema, rows.columns):
        values, kind = model.read(column), field.type
        is_empty = all(value is None for value in values) and field.name != "id"
        if place and is_empty and random.random() < 0.7:
            if random.random() < 0.5:
                columns[field.name] = pyarrow.nulls(len(values))
            continue
        able = [one for one in relatives(kind) if fits(one, values)]
        if place and able and random.random() < 0.6:
            kind = random.choice(able)
        columns[field.name] = model.build(kind, values)
    return pyarrow.table(columns)
