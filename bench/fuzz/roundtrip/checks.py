"""Questions about the files of a case, and what Python answers."""

import random as randoms
from collections import Counter
from dataclasses import dataclass


import model
from model import types

UNITS = {"s": "s", "ms": "ms", "us": "µs", "ns": "ns"}
OPERATORS = {
    "=": lambda order: order == 0,
    "<>": lambda order: order != 0,
    "<": lambda order: order < 0,
    "<=": lambda order: order <= 0,
    ">": lambda order: order > 0,
    ">=": lambda order: order >= 0,
}


@dataclass(frozen=True)
class Check:
    """A query, whose answer is a bag of rows of one of `answers`."""

    name: str
    column: str
    query: str
    answers: tuple
    # A wrong answer that a fault can be planted as.
    wrong: object = None


def rank(value):
    """What values of one type are ordered by: NaN is the greatest, or with a sign the least, and zeros are equal."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes):
        return value
    if not isinstance(value, tuple):
        return (0, value)
    if value[0] == "f":
        sign = -1 if value[1] >> 63 else 1
        return (0, 0) if value == model.NEGATIVE_ZERO else (sign, sign * (value[1] & ~(1 << 63)))
    return (0, value[1])


def is_ordered(kind):
    """Whether there are checks of a type's values."""
    if types.is_dictionary(kind):
        kind = kind.value_type
    return not (types.is_nested(kind) or types.is_null(kind) or types.is_interval(kind) or types.is_run_end_encoded(kind)
                or types.is_duration(kind))


def arrow_name(kind):
    """The name of a type in DataFusion's arrow_cast."""
    if types.is_decimal(kind):
        return f"Decimal{kind.bit_width}({kind.precision}, {kind.scale})"
    if types.is_timestamp(kind):
        return f'Timestamp({UNITS[kind.unit]}, "{kind.tz}")' if kind.tz else f"Timestamp({UNITS[kind.unit]})"
    if types.is_time(kind):
        return f"Time{kind.bit_width}({UNITS[kind.unit]})"
    names = {"halffloat": "Float16", "float": "Float32", "double": "Float64", "date32[day]": "Date32", "date64[ms]": "Date64"}
    return names.get(str(kind)) or str(kind).title().replace("Uint", "UInt")


def literal(kind, value):
    """A value as an expression of SQL that has the column's type, or none."""
    if types.is_dictionary(kind):
        return literal(kind.value_type, value)
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if types.is_boolean(kind):
        return str(value[1]).lower()
    stored = model.whole(kind)
    if stored:
        integers, _, unit = stored
        number = value[1] // unit if unit else value[1] * model.DAY_MS
        return f"arrow_cast(arrow_cast('{number}', '{arrow_name(integers)}'), '{arrow_name(kind)}')"
    if isinstance(value, tuple):
        if model.is_nan(value) and value[1] != 0x7FF8 << 48:
            return None
        return f"arrow_cast('{'NaN' if model.is_nan(value) else '-0.0'}', '{arrow_name(kind)}')"
    text = f"{value:f}" if types.is_decimal(kind) else repr(value)
    return f"arrow_cast('{text}', '{arrow_name(kind)}')"


def of(values):
    return Counter(map(tuple, values))


class Questions:
    """Makes the checks of a case for a table, which is its name in SQL."""

    def __init__(self, case, table, other):
        self.case, self.table, self.other = case, table, other
        self.random = randoms.Random(case.luck)
        self.columns = [name for name, kind in case.kinds.items() if is_ordered(kind) and name not in ("id", case.key)]

    def pick(self):
        name = self.random.choice(self.columns)
        return name, '"' + name + '"', self.case.kinds[name], self.case.values[name]

    def checks(self, count=2):
        if not self.columns:
            return
        makers = (*[self.extremes] * 2, *[self.filter] * 3, self.groups, self.nulls, self.sort)
        for maker in self.random.sample(makers, count):
            made = maker()
            if made:
                yield made

    def pairs(self):
        """A join, and a band on differences where the type has them."""
        if not self.columns:
            return
        yield self.join()
        name, quoted, kind, values = self.pick()
        if types.is_integer(kind):
            yield self.band(name, quoted, kind, values)

    def extremes(self):
        name, quoted, _, values = self.pick()
        some = [value for value in values if value is not None]
        low, high = min(map(rank, some), default=None), max(map(rank, some), default=None)
        # Zeros of both signs are equal: either is right.
        least = dict.fromkeys(value for value in some if rank(value) == low) or [None]
        largest = dict.fromkeys(value for value in some if rank(value) == high) or [None]
        answers = tuple(of([(one, other, len(some), len(values))]) for one in least for other in largest)
        query = f"SELECT min({quoted}), max({quoted}), count({quoted}), count(*) FROM {self.table}"
        return Check("min, max, count", name, query, answers)

    def filter(self):
        name, quoted, kind, values = self.pick()
        some = [value for value in values if value is not None]
        if not some:
            return None
        chosen, word = self.random.choice(some), self.random.choice(tuple(OPERATORS))
        text = literal(kind, chosen)
        if text is None:
            return None
        right = [(row,) for row, value in enumerate(values) if value is not None
                 and OPERATORS[word]((rank(value) > rank(chosen)) - (rank(value) < rank(chosen)))]
        return Check(f"filter {word}", name, f"SELECT id FROM {self.table} WHERE {quoted} {word} {text}", (of(right),))

    def nulls(self):
        name, quoted, _, values = self.pick()
        right = of((row,) for row, value in enumerate(values) if value is None)
        return Check("is null", name, f"SELECT id FROM {self.table} WHERE {quoted} IS NULL", (right,))

    def groups(self):
        name, quoted, _, values = self.pick()
        counted = Counter(None if value is None else rank(value) for value in values)
        right = of((count,) for count in counted.values())
        return Check("groups", name, f"SELECT count(*) FROM {self.table} GROUP BY {quoted}", (right,))

    def sort(self):
        name, quoted, _, values = self.pick()
        some = [value for value in values if value is not None]
        if not some:
            return None
        low = min(map(rank, some))
        first = [row for row, value in enumerate(values) if value is not None and rank(value) == low]
        query = f"SELECT id FROM {self.table} ORDER BY {quoted}, id LIMIT {len(first)}"
        return Check("order", name, query, (of((row,) for row in first),))

    def join(self):
        name, quoted, _, values = self.pick()
        keyed = {}
        for row, value in enumerate(values):
            if value is not None:
                keyed.setdefault(rank(value), []).append(row)
        right = of((one, other) for rows in keyed.values() for one in rows for other in rows)
        on = f"a.{quoted} = b.{quoted}"
        other = self.random.choice((self.table, self.other))
        return Check("join", name, f"SELECT a.id, b.id AS other FROM {self.table} a JOIN {other} b ON {on}", (right,))

    def band(self, name, quoted, kind, values):
        """The difference of two integers in a band. In comparisons integers do not wrap (docs/sql.md)."""
        signed, bits = types.is_signed_integer(kind), kind.bit_width

        def wrapped(number):
            number &= (1 << bits) - 1
            return number - (1 << bits) if signed and number >> (bits - 1) else number

        def rows(difference):
            return of((one, other) for one, left in enumerate(values) for other, right in enumerate(values)
                      if left is not None and right is not None and -2 <= difference(left, right) <= 2)

        right, wrong = rows(lambda left, other: left - other), rows(lambda left, other: wrapped(left - other))
        query = f"SELECT a.id, b.id AS other FROM {self.table} a JOIN {self.table} b ON a.{quoted} - b.{quoted} BETWEEN -2 AND 2"
        return Check("band", name, query, (right,), right | wrong)


def answer(table):
    """The rows of an answer as a bag."""
    columns = [model.read(column) for column in table.columns]
    return of(zip(*columns))


