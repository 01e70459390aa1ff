"""A random case: a table, what writes it and how, and how Annulus reads it. The same numbers give the same case."""

import dataclasses
import random as randoms
from dataclasses import dataclass

import pyarrow

import kinds
import model
import writers
from model import types
from writers import ANNULUS, DUCKDB, ENDINGS, FASTAVRO, POLARS, PYARROW, PYTHON

NAMES = ("c0", "c1", "c2")
HARD_NAMES = ("Name", "a b", "select", "c.d", "c0")


@dataclass(frozen=True)
class Case:
    name: str
    writer: str
    form: str
    # "one" file, "several" in a folder, "evolved" ones with other types, or "folders" named by the values of `key`; or a dataset of `annulus partition`,
    # "split" by hash or by "value".
    layout: str
    files: int
    key: str | None
    settings: dict
    # By column. The first one is `id`, which is distinct.
    kinds: dict
    values: dict
    # How Annulus reads it.
    ways: tuple
    # What decides the details of ways and checks.
    luck: int

    @property
    def ending(self):
        return ENDINGS[self.form]

    @property
    def has_folders(self):
        """Whether the values of `key` are names of folders."""
        return self.layout in ("folders", "value")

    def copy(self, **changes):
        return dataclasses.replace(self, **changes)

    def table(self):
        """The rows as a table of Arrow."""
        return pyarrow.table({name: model.build(kind, self.values[name]) for name, kind in self.kinds.items()})

    def describe(self):
        rows = len(self.values["id"])
        columns = ", ".join(f"{name} {kind}" for name, kind in self.kinds.items() if name != "id")
        given = "".join(f" {name}={value}" for name, value in self.settings.items())
        key = f" by {self.key}" if self.key else ""
        return f"{rows} rows of {columns}; {self.writer} {self.form}, {self.layout}{key}{given}; Annulus: {', '.join(self.ways)}"


def key_type(random):
    """A type whose values can name folders."""
    return random.choice((pyarrow.int32(), pyarrow.int64(), pyarrow.string(), pyarrow.string(), pyarrow.date32(), pyarrow.bool_(),
                          pyarrow.uint64(), pyarrow.decimal128(9, 2), pyarrow.timestamp("us"), pyarrow.timestamp("ms", "UTC"),
                          pyarrow.dictionary(pyarrow.int32(), pyarrow.string())))


def partition(random, made):
    """A way through a dataset of `annulus partition`, of CSV or JSON if all columns have texts."""
    texts = [form for form in ("csv", "json") if all(writers.plain(kind, form == "json") for kind in made.values())]
    placement = random.choice(("hash", "hash", "value", "ranges", "groups"))
    return f"partition {placement} {random.choice(('parquet', 'parquet', 'arrow', 'pages', *texts))}"


def ways(random, writer, form, layout, made):
    """How Annulus reads the files. The ways with a process of their own are rare, as they take long."""
    if form == "stream":
        return ("partition stdin",) if random.random() < 0.2 else ()
    chosen = ["from"]
    # DataFusion's tables have the types of one file.
    if random.random() < 0.25 and layout != "evolved":
        chosen.append("external")
    if layout in ("several", "evolved") and random.random() < 0.3:
        chosen.append("glob")
    if random.random() < 0.5:
        chosen.append("checks")
    if random.random() < 0.3:
        chosen.append("pairs")
    if form in ("csv", "json") and random.random() < 0.08 and not any(types.is_nested(kind) for kind in made.values()):
        chosen.append(random.choice(("types", "types", "texts")))
    if random.random() < 0.06:
        pipe = "stdin" if layout == "one" else "table"
        chosen.append(random.choice(("table", "output", "join", "join", pipe, *[partition(random, made)] * 5)))
    return tuple(chosen)


def case(seed, number):
    random = randoms.Random(f"{seed}/{number}")
    writer = random.choices((PYARROW, DUCKDB, POLARS, FASTAVRO, PYTHON, ANNULUS), (30, 12, 15, 4, 12, 27))[0]
    form = random.choice(writers.FORMATS[writer])
    layout = random.choices(("one", "several", "folders"), (70, 18, 12))[0]
    if layout == "folders" and (form != "parquet" or writer in (FASTAVRO, PYTHON)) or form == "stream":
        layout = "one"
    if writer == PYARROW and form in ("parquet", "arrow") and random.random() < 0.08:
        layout = "evolved"
    if writer == ANNULUS and form in ("parquet", "arrow") and random.random() < 0.08:
        layout = random.choice(("split", "value", "value"))
    count = random.choice((0, 1, 2, 5, 5, 12, 12, 30, 50))
    made = {"id": pyarrow.int64()}
    # DataFusion 55.2 takes the quotes of a name in PARTITIONED BY for a part of it.
    plain = random.random() < 0.9 or layout in ("folders", "value")
    names = list(NAMES if plain else random.sample(HARD_NAMES, 3))[:random.choice((1, 1, 2, 3))]
    key = names[0] if layout in ("folders", "value") else None
    for name in names:
        kind = key_type(random) if name == key else kinds.any_type(random)
        while not writers.takes(writer, form, kind):
            kind = kinds.any_type(random)
        made[name] = kind
    values = {name: kinds.column(random, kind, count) for name, kind in made.items() if name != "id"}
    values = {"id": list(range(count)), **values}
    given = {} if layout in ("split", "value") else writers.settings(random, writer, form)
    return Case(str(number), writer, form, layout, random.choice((1, 2, 3)), key, given, made, values,
                ways(random, writer, form, layout, made), random.randrange(1 << 30))
