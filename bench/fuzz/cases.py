"""A random case: tables, a query, and the session that answers it."""

import dataclasses
import json
import random as randoms
from dataclasses import dataclass

import pyarrow

from grammar import Grammar
from tables import LARGE, SMALL, SPARSE, schema, table

# The most combinations of rows that a query without sparse keys may have.
MOST_PAIRS = 20_000
QUERIES_OF_TABLES = 5


@dataclass
class Session:
    """Options, and the memory pool: its bytes, and whether shares of it are equal."""

    settings: dict
    memory: tuple | None = None

    def request(self, stock, limited):
        given = {key: value for key, value in self.settings.items() if not (stock and key.startswith("annulus."))}
        memory = {"bytes": self.memory[0], "is_fair": self.memory[1]} if self.memory and limited else None
        return {"settings": given, "stock": stock, "memory": memory}


@dataclass
class Case:
    name: str
    tables: dict
    query: object
    session: Session

    def copy(self, **changes):
        return dataclasses.replace(self, **changes)


def session(random, memory, size):
    lengths = (100, 8192) if size == LARGE else (1, 2, 3, 7, 16, 100, 1000, 8192, 8192)
    settings = {
        "annulus.joins": random.choices(("always", "auto"), (5, 2))[0],
        "annulus.keyed_bands": random.choice(("auto", "always", "never")),
        "annulus.strategy": random.choice(("auto", "auto", "ring", "channel", "stock")),
        "datafusion.execution.target_partitions": random.choice((1, 2, 3, 4, 8, 8, 16) if random.random() < 0.9 else (64,)),
        "datafusion.execution.batch_size": random.choice(lengths),
        "datafusion.optimizer.repartition_file_min_size": 0,
        "datafusion.execution.time_zone": "UTC",
    }
    others = {
        "datafusion.optimizer.prefer_hash_join": "false",
        "datafusion.optimizer.repartition_joins": "false",
        "datafusion.optimizer.join_reordering": "false",
        "datafusion.optimizer.enable_dynamic_filter_pushdown": "false",
        "datafusion.execution.parquet.pushdown_filters": "true",
        "datafusion.execution.collect_statistics": "false",
        "datafusion.optimizer.hash_join_single_partition_threshold_rows": "1",
        "datafusion.execution.parquet.schema_force_view_types": "false",
    }
    settings |= {key: value for key, value in others.items() if random.random() < 0.12}
    settings = {key: str(value) for key, value in settings.items()}
    # Its default is more than these pools have.
    settings["datafusion.execution.sort_spill_reservation_bytes"] = "4096"
    pool = (int(60_000 * 2 ** random.uniform(0, 6)), random.random() < 0.5) if random.random() < memory else None
    return Session(settings, pool)


def group(seed, number, memory):
    """The cases that share the tables of a number. The same arguments give the same cases."""
    random = randoms.Random(f"{seed}/{number}")
    size = random.choices((SMALL, SPARSE, LARGE), (84, 13, 3))[0]
    common, joins = schema(random, size), random.choices((0, 1, 2, 3, 4), (20, 50, 18, 8, 4))[0]
    relations = max(2, joins + 1)
    most = int(MOST_PAIRS ** (1 / relations))
    tables = {}
    for place in range(random.randint(1, 3)):
        sizes = {SMALL: (0, 1, most // 10, most // 2, most, most), SPARSE: (200, 400, 800), LARGE: (4000, 12_000)}
        rows = random.choice(sizes[size])
        tables[f"t{place}"] = table(random, common, rows)
    grammar, joins = Grammar(random, common, len(tables)), joins if size == SMALL else min(joins, 1)
    for place in range(QUERIES_OF_TABLES):
        query = grammar.query(joins)
        yield Case(f"{number}.{place}", tables, query, session(random, memory, size))


def literal(value, kind):
    """A value as an expression of DataFusion's SQL."""
    types = pyarrow.types
    if value is None:
        return "NULL"
    if types.is_boolean(kind):
        return str(value).lower()
    if types.is_integer(kind) or types.is_decimal(kind):
        return f"'{value}'" if types.is_decimal(kind) else str(value)
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        return f"X'{value.hex()}'"
    if types.is_timestamp(kind):
        return f"'{value.isoformat()}'"
    return "'" + str(value).replace("'", "''") + "'"


def arrow_name(kind):
    """The name of a type in DataFusion's arrow_cast."""
    types = pyarrow.types
    if types.is_dictionary(kind):
        return "Dictionary(Int32, Utf8)"
    if types.is_timestamp(kind):
        unit = {"s": "s", "ms": "ms", "us": "µs", "ns": "ns"}[kind.unit]
        return f'Timestamp({unit}, "{kind.tz}")' if kind.tz else f"Timestamp({unit})"
    if types.is_time(kind):
        return {"ms": "Time32(ms)", "us": "Time64(µs)"}[kind.unit]
    if types.is_decimal(kind):
        return f"Decimal128({kind.precision}, {kind.scale})"
    if types.is_fixed_size_binary(kind):
        return f"FixedSizeBinary({kind.byte_width})"
    names = {"string": "Utf8", "large_string": "LargeUtf8", "binary": "Binary", "large_binary": "LargeBinary", "bool": "Boolean",
             "float": "Float32", "double": "Float64", "date32[day]": "Date32", "date64[ms]": "Date64", "null": "Null"}
    return names.get(str(kind)) or str(kind).title().replace("Uint", "UInt")


def script(case):
    """The case as statements that `annulus sql` runs."""
    lines = [f"SET {key} = '{value}';" for key, value in case.session.settings.items()]
    for name, made in case.tables.items():
        fields = made.rows.schema
        columns = enumerate(fields, 1)
        casts = ", ".join(f"arrow_cast(column{place}, '{arrow_name(one.type)}') AS {one.name}" for place, one in columns)
        rows = [", ".join(literal(value, one.type) for value, one in zip(row.values(), fields)) for row in made.rows.to_pylist()]
        values = ", ".join(f"({row})" for row in rows) or f"({', '.join(['NULL'] * len(fields))})"
        none = "" if rows else " WHERE false"
        lines.append(f"CREATE TABLE {name} AS SELECT {casts} FROM (VALUES {values}){none};")
    return "\n".join([*lines, case.query.sql() + ";"])


def describe(case):
    """What the statements do not say."""
    pool = case.session.memory
    memory = pool and f"{pool[0]} bytes, {'fair' if pool[1] else 'greedy'}"
    tables = {name: "Parquet" if made.batches is None else made.batches for name, made in case.tables.items()}
    orders = {name: made.order for name, made in case.tables.items() if made.order}
    return json.dumps({"case": case.name, "memory": memory, "tables": tables, "sorted by": orders})
