"""Writes the file of a cell with its writer."""

import shutil

import duckdb
import polars
import pyarrow
import pyarrow.parquet

import kinds
from layouts import DUCKDB, POLARS, PYARROW, RUST, WRITERS, Cell, Column

# Smaller groups are not what DuckDB writes.
DUCKDB_GROUP = 2048


class NotWritten(Exception):
    """The writer refuses a type or an option."""


def array(column):
    """The values of a column in memory."""
    kind = column.kind.arrow
    if isinstance(kind, pyarrow.BaseExtensionType):
        return pyarrow.ExtensionArray.from_storage(kind, pyarrow.array(column.values, kind.storage_type))
    if pyarrow.types.is_dictionary(kind):
        return pyarrow.array(column.values, kind.value_type).dictionary_encode().cast(kind)
    if pyarrow.types.is_nested(kind) or column.kind.family != kinds.TIME:
        return pyarrow.array(column.values, kind)
    base = pyarrow.int32() if kind.bit_width == 32 else pyarrow.int64()
    return pyarrow.array(column.values, base).view(kind)


def table(cell):
    return pyarrow.table([array(column) for column in cell.columns], [column.name for column in cell.columns])


def by_pyarrow(cell, path, encodings):
    options = {name: value for name, value in cell.options.items() if value is not None}
    has_empty_group, has_bloom = options.pop("has_empty_group", False), options.pop("bloom", False)
    options["column_encoding"] = {
        column.name: column.encoding.upper() for column in cell.columns if encodings and column.encoding and not column.has_dictionary} or None
    options["use_dictionary"] = [column.name for column in cell.columns if column.has_dictionary]
    rows = table(cell)
    if has_bloom:
        flat = [column.name for column in cell.columns if column.kind.family in (kinds.TEXT, kinds.NUMBER) and column.kind.name != "bool"]
        options["bloom_filter_options"] = {name: {"ndv": max(cell.rows, 1), "fpp": 0.1} for name in flat}
    if any(column.kind.name.startswith("timestamp[ns") for column in cell.columns):
        # Earlier versions have no nanoseconds. PyArrow refuses to cut them, or ends the process.
        options["version"] = "2.6"
    with pyarrow.parquet.ParquetWriter(path, rows.schema, compression=cell.codec, **options) as writer:
        if has_empty_group:
            writer.write_table(rows.slice(0, 0))
        writer.write_table(rows, row_group_size=cell.group_rows)
        if has_empty_group:
            writer.write_table(rows.slice(0, 0))


def by_duckdb(cell, path, encodings):
    options = {"FORMAT": "parquet", "COMPRESSION": cell.codec, "ROW_GROUP_SIZE": max(cell.group_rows or 0, DUCKDB_GROUP)} | cell.options
    said = ", ".join(f"{name} {value}" for name, value in options.items() if value is not None)
    columns = ", ".join(f"{column.kind.duckdb.format(column.name)} AS {column.name}" for column in cell.columns)
    with duckdb.connect() as connection:
        connection.execute("SET threads = 1")
        connection.register("t", table(cell))
        connection.execute(f"COPY (SELECT {columns} FROM t) TO '{path}' ({said})")


def by_polars(cell, path, encodings):
    options = {name: value for name, value in cell.options.items() if value is not None}
    polars.from_arrow(table(cell)).write_parquet(path, compression=cell.codec, row_group_size=cell.group_rows, **options)


def by_rust(cell, path, encodings, sessions):
    """Through COPY, from a plain file of the same values."""
    plain = path.parent.with_name("source.parquet")
    pyarrow.parquet.write_table(table(cell), plain, use_dictionary=False, write_statistics=False)
    options = {"compression": cell.codec, "max_row_group_size": cell.group_rows} | cell.options
    for column in cell.columns:
        if encodings and column.encoding and not column.has_dictionary:
            options[f"encoding::{column.name}"] = column.encoding
        if not column.has_dictionary:
            options[f"dictionary_enabled::{column.name}"] = "false"
    said = ", ".join(f"'{name}' '{value}'" for name, value in options.items() if value is not None)
    columns = ", ".join(cast(column) for column in cell.columns)
    sessions.answer(plain, f"COPY (SELECT {columns} FROM t) TO '{path}' STORED AS PARQUET OPTIONS ({said})", {})


def cast(column):
    name = column.name
    return f"arrow_cast({name}, '{column.kind.cast}') AS {name}" if column.kind.cast else name


def write_file(cell, path, sessions):
    """Writes a file. Encodings that a column cannot have are not asked for again.

    Returns whether the encodings are those that were asked for.
    """
    functions = {PYARROW: by_pyarrow, DUCKDB: by_duckdb, POLARS: by_polars}
    for encodings in (True, False):
        path.unlink(missing_ok=True)
        try:
            if cell.writer == RUST:
                by_rust(cell, path, encodings, sessions)
            else:
                functions[cell.writer](cell, path, encodings)
            return encodings
        # The errors of three programs have nothing in common; those of Polars are panics.
        except BaseException as error:
            if isinstance(error, (KeyboardInterrupt, SystemExit)):
                raise
            reason = str(error).splitlines()[0] if str(error) else repr(error)
    raise NotWritten(f"{cell.writer}: {reason}")


def write(cell, folder, sessions):
    """Writes the files of a cell to a folder, which has no others then. Returns whether all have the encodings asked for."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return all([write_file(part, folder / f"{number}.parquet", sessions) for number, part in enumerate(cell.files())])


def can_have(writer, name):
    """Whether a writer's files may have columns of a type. Polars panics at decimals of 256 bits, and DuckDB has intervals for
    durations, of which PyArrow has no arrays."""
    if writer == DUCKDB:
        return not name.startswith("duration")
    return name not in kinds.CONVERTED and (writer != POLARS or not name.startswith("decimal256"))


def writable(folder, sessions):
    """The types that each writer writes, found out by a file of each."""
    found, path = {writer: [] for writer in WRITERS}, folder / "trial" / "one.parquet"
    path.parent.mkdir()
    for writer in WRITERS:
        for name, kind in kinds.KINDS.items():
            if not can_have(writer, name):
                continue
            values = [kind.value(Cell(0, 0, writer, 3, "", None, [], {}).source(name)) for _ in range(3)]
            one = Column("c0", kind, values, [None, *values], None, True)
            codec = "none" if writer == PYARROW else "uncompressed"
            try:
                write_file(Cell(0, 0, writer, 4, codec, None, [one], {}), path, sessions)
                found[writer].append(name)
            except NotWritten:
                pass
    return found
