"""Random tables: keys of one kind in several types, intervals, nulls, skew and duplicates.

All tables of a case have the columns `id` (unique), `k0` and `k1` (keys), `x` and `y` (the ends of an interval), `v` (a small
number) and `s` (a text). A column's values come from numbers of one range, so that tables meet though their types differ.
"""

import datetime
from dataclasses import dataclass, field
from decimal import Decimal

import pyarrow
import pyarrow.parquet

COLUMNS = ("id", "k0", "k1", "x", "y", "v", "s")
DAY = datetime.date(2020, 1, 25)
INSTANT = datetime.datetime(2020, 1, 31, 18)
UTC = datetime.timezone.utc


def integer(number, kind):
    return number if not pyarrow.types.is_decimal(kind) else Decimal(number)


def fraction(number, kind):
    return Decimal(number) / 4


def floating(number, kind):
    """Quarters, whose sums are exact, and the values that are special."""
    return float("nan") if number == 5 else ordered(number, kind)


def ordered(number, kind):
    """Without NaN. It is greater than all numbers, but some of DuckDB's joins on inequalities leave it out."""
    return {2: -0.0, 3: float("inf"), 4: float("-inf")}.get(number, number / 4)


def text(number, kind):
    special = {0: "", 1: "é", 2: "e\u0301"}
    return special.get(number, f"k{number}" if number % 3 else f"a key longer than twelve bytes {number}")


def blob(number, kind):
    if pyarrow.types.is_fixed_size_binary(kind):
        return number.to_bytes(4, "big")
    return number.to_bytes(1 + number // 256, "little") * (number % 5)


def date(number, kind):
    return DAY + datetime.timedelta(days=number)


def instant(number, kind):
    made = INSTANT + datetime.timedelta(hours=6 * number)
    return made.replace(tzinfo=UTC) if kind.tz else made


def clock(number, kind):
    return datetime.time(number // 60 % 24, number % 60)


def truth(number, kind):
    return number % 2 == 1


@dataclass(frozen=True)
class Family:
    """Types whose values can be compared."""

    name: str
    types: tuple
    value: object
    most: int = 10_000
    # What is added to an end of a band, by number.
    offset: object = None


WHOLE = [pyarrow.int16(), pyarrow.int32(), pyarrow.int64(), pyarrow.uint16(), pyarrow.uint32(), pyarrow.uint64()]
DECIMALS = (pyarrow.decimal128(9, 2), pyarrow.decimal128(18, 4), pyarrow.decimal128(38, 6))
FLOATS = (pyarrow.float32(), pyarrow.float64())
DATES = (pyarrow.date32(), pyarrow.date64())
TEXTS = (pyarrow.string(), pyarrow.large_string(), pyarrow.dictionary(pyarrow.int32(), pyarrow.string()))
ZONED = tuple(pyarrow.timestamp(unit, zone) for unit in ("ms", "us") for zone in ("UTC", "Europe/Berlin"))
INSTANTS = tuple(pyarrow.timestamp(unit) for unit in ("s", "ms", "us", "ns"))


def days(number):
    return f"INTERVAL '{number}' DAY"


def hours(number):
    return f"INTERVAL '{5 * number}' HOUR"


FAMILIES = (
    Family("integer", (*WHOLE, pyarrow.decimal128(12, 0)), integer, offset=str),
    Family("byte", (pyarrow.int8(), pyarrow.uint8(), pyarrow.int64()), integer, 100, offset=str),
    Family("decimal", DECIMALS, fraction, offset=lambda number: f"{number}.25"),
    Family("float", FLOATS, floating),
    Family("text", TEXTS, text),
    Family("binary", (pyarrow.binary(), pyarrow.large_binary()), blob),
    Family("fixed", (pyarrow.binary(4),), blob),
    Family("date", DATES, date, offset=days),
    Family("instant", INSTANTS, instant, offset=hours),
    Family("zoned", ZONED, instant, offset=hours),
    # DataFusion does not compare times of different units.
    Family("time", (pyarrow.time32("ms"),), clock),
    Family("finer time", (pyarrow.time64("us"),), clock),
    Family("truth", (pyarrow.bool_(),), truth),
)
BANDS = (
    *(family for family in FAMILIES if family.offset),
    Family("float", FLOATS, ordered, offset=lambda number: f"{number}.5"),
)


@dataclass
class Table:
    """A table, and how a session reads it."""

    rows: pyarrow.Table
    # In memory, the rows of each batch, by partition; none is a Parquet file.
    batches: list | None
    row_group: int
    # A column by which the rows are sorted, ascending and with nulls last, and which the session declares as the order.
    order: str | None = None

    def write(self, path):
        pyarrow.parquet.write_table(self.rows, path, row_group_size=self.row_group)

    def with_rows(self, rows):
        """The same with other rows, in one batch."""
        return Table(rows, None if self.batches is None else [[rows.num_rows]], self.row_group, self.order)


# How many rows tables have. Those of large tables are joined by `k0` alone, of which there are few duplicates.
SMALL, SPARSE, LARGE = "small", "sparse", "large"
SHAPES = ("uniform", "uniform", "zipf", "hot", "one", "distinct")
EVEN = ("uniform", "distinct")
WIDE = tuple(family for family in FAMILIES if family.name in ("integer", "decimal", "text", "date", "instant"))


@dataclass
class Schema:
    """What the tables of a case have in common."""

    size: str
    families: dict = field(default_factory=dict)
    ranges: dict = field(default_factory=dict)


def schema(random, size):
    """Families and ranges of the numbers for all tables of a case. Sparse and large tables have keys with few duplicates."""
    made = Schema(size)
    for name in ("k0", "k1", "x"):
        choices = BANDS if name == "x" else WIDE if size == LARGE and name == "k0" else FAMILIES
        family = random.choice(choices)
        least = {SMALL: 0, SPARSE: 2000, LARGE: 10_000}[size] if name != "k1" else 0
        made.families[name], made.ranges[name] = family, min(family.most, least or random.choice((2, 8, 40, 400)))
    return made


def numbers(random, count, most, shapes=SHAPES):
    """Numbers below `most`: of any distribution, some with one hot key."""
    shape = random.choice(shapes)
    if shape == "one":
        return [random.randrange(most)] * count
    if shape == "distinct":
        return [number % most for number in random.sample(range(count), count)]
    if shape == "zipf":
        return [min(most - 1, int(random.paretovariate(0.7)) - 1) for _ in range(count)]
    hot = random.randrange(most) if shape == "hot" else None
    return [hot if hot is not None and random.random() < 0.7 else random.randrange(most) for _ in range(count)]


def with_nulls(random, values):
    rate = random.choice((0, 0, 0.1, 0.5, 1 if random.random() < 0.2 else 0.02))
    return [None if random.random() < rate else value for value in values]


def column(random, family, chosen):
    kind = random.choice(family.types)
    values = [None if number is None else family.value(number, kind) for number in with_nulls(random, chosen)]
    if pyarrow.types.is_dictionary(kind):
        return pyarrow.array(values, kind.value_type).dictionary_encode()
    return pyarrow.array(values, kind)


def table(random, schema, count):
    """A table of `count` rows."""
    made = {"id": pyarrow.array(random.sample(range(count), count), pyarrow.int64())}
    for name in ("k0", "k1"):
        shapes = EVEN if schema.size == LARGE and name == "k0" else SHAPES
        made[name] = column(random, schema.families[name], numbers(random, count, schema.ranges[name], shapes))
    first = numbers(random, count, schema.ranges["x"])
    width = random.choice((1, 3, 20))
    made["x"] = column(random, schema.families["x"], first)
    most = schema.families["x"].most
    made["y"] = column(random, schema.families["x"], [min(most, low + random.randrange(width)) for low in first])
    kind = random.choice((pyarrow.int32(), pyarrow.int64()))
    made["v"] = pyarrow.array(with_nulls(random, [random.randrange(20) for _ in range(count)]), kind)
    made["s"] = pyarrow.array(with_nulls(random, [text(random.randrange(30), None) for _ in range(count)]))
    rows, order = pyarrow.table(made), random.choice((None, None, "id", "v"))
    if order:
        rows = rows.sort_by(order)
    return Table(rows, batches(random, count), random.choice((1, 7, 100, 10_000)), order)


def batches(random, count):
    """How a session reads `count` rows: not at all from memory, or in batches of these lengths by partition."""
    if random.random() < 0.3:
        return None
    made = [[] for _ in range(random.choice((1, 1, 2, 3, 5)))]
    most = random.choice((1, 3, 20, 8192)) if count < 300 else 8192
    while count:
        taken = min(count, random.randint(0, most))
        random.choice(made).append(taken)
        count -= taken
    return made
