"""How rows that were read differ from those that were written."""

from dataclasses import dataclass

import pyarrow

import model
import spelling
from model import types
from writers import ANNULUS, PYTHON


@dataclass(frozen=True)
class Difference:
    """A value that is not as it was written, or an answer that is wrong."""

    # Who read it: the name of a reader, or a way in which Annulus reads or answers.
    reader: str
    column: str
    # Of the value, which may be within others.
    kind: object
    written: object
    found: object

    def __str__(self):
        return f"{self.reader}: {self.column} ({self.kind}) was {self.written!r}, found {self.found!r}"


def pairs(kind, written, found, same):
    """The innermost values that differ, with their type."""
    if types.is_dictionary(kind):
        kind = kind.value_type
    if written is not None and found is not None and isinstance(found, tuple):
        if types.is_struct(kind) and found[0] in "sm":
            # A reader of JSON may take an object for a map.
            got = dict(found[1:])
            for name, value in written[1:]:
                yield from pairs(kind.field(name).type, value, got.get(name), same)
            return
        if types.is_map(kind) and found[0] == "m" and len(found) == len(written):
            for (key, value), (other_key, other) in zip(written[1:], found[1:]):
                yield from pairs(kind.key_type, key, other_key, same)
                yield from pairs(kind.item_type, value, other, same)
            return
        if types.is_nested(kind) and found[0] == "l" and len(found) == len(written) and written[0] == "l":
            for value, other in zip(written[1:], found[1:]):
                yield from pairs(kind.value_type, value, other, same)
            return
    if not same(kind, written, found):
        yield kind, written, found


def exactly(kind, written, found):
    return written == found


def in_order(table):
    """The columns of a table as values, in the order of the column `id`."""
    columns = {name: model.read(table.column(place)) for place, name in enumerate(table.column_names)}
    ids = columns.get("id")
    if ids is None:
        return columns
    ids = [int(value) if isinstance(value, str) else value for value in ids]
    if ids != sorted(ids, key=lambda value: (value is None, value)):
        places = sorted(range(len(ids)), key=lambda place: (ids[place] is None, ids[place]))
        columns = {name: [values[place] for place in places] for name, values in columns.items()}
        ids = [ids[place] for place in places]
    return columns | {"id": ids}


def has_one_empty(case):
    """Whether the writer of a CSV file spells nulls and empty texts alike."""
    return case.writer == PYTHON or case.settings.get("quote_style") in ("always", "non_numeric")


def as_text(case, are_texts):
    """How values that came through texts are compared. A column of numbers has no empty texts, and JSON no NaN."""
    def same(kind, written, found):
        if case.form == "csv" and (not are_texts or has_one_empty(case)) and written in (None, "") and found in (None, ""):
            return True
        if case.form == "json" and found is None and written is not None and types.is_floating(kind):
            return model.is_nan(written) or written in (float("inf"), float("-inf"))
        return spelling.same_read(kind, written, found)

    return same


def rule(case, name, reader, found):
    """How a column is compared. Types of folders are guessed from their names, unless Annulus has recorded them."""
    if case.form in ("csv", "json"):
        return as_text(case, any(isinstance(value, str) for value in found))
    has_types = case.writer == ANNULUS and reader.startswith("annulus") and (case.layout == "value" or reader.startswith("annulus partition"))
    return exactly if name != case.key or has_types else spelling.same_read


def differences(case, reader, table):
    """The differences between a table and the rows of a case, at most some of each column."""
    columns, made = in_order(table), []
    if columns.get("id", []) != case.values["id"]:
        return [Difference(reader, "id", pyarrow.int64(), case.values["id"], columns.get("id"))]
    for name, written in case.values.items():
        found = columns.get(name)
        if found is None:
            if any(value is not None for value in written) or case.form != "json":
                made.append(Difference(reader, name, case.kinds[name], "a column", "none"))
            continue
        if found == written:
            continue
        same = rule(case, name, reader, found)
        for value, other in zip(written, found):
            made += [Difference(reader, name, *pair) for pair in pairs(case.kinds[name], value, other, same)]
            if len(made) > 60:
                return made
    return made
