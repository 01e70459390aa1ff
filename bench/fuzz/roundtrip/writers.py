"""What writes the files of a case: PyArrow, DuckDB, Polars, fastavro, and Python itself. Annulus writes from a file of PyArrow."""

import csv
import json

import duckdb
import fastavro
import polars
import pyarrow
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet

import evolve
import model
import spelling
from model import types

ENDINGS = {"parquet": "parquet", "arrow": "arrow", "stream": "arrows", "csv": "csv", "json": "jsonl", "avro": "avro"}
PYARROW, DUCKDB, POLARS, FASTAVRO, PYTHON, ANNULUS = "pyarrow", "duckdb", "polars", "fastavro", "python", "annulus"
FORMATS = {
    PYARROW: ("parquet", "parquet", "arrow", "stream", "csv"),
    DUCKDB: ("parquet", "parquet", "csv", "json"),
    POLARS: ("parquet", "parquet", "arrow", "stream", "csv", "json", "avro"),
    FASTAVRO: ("avro",),
    PYTHON: ("csv", "json"),
    ANNULUS: ("parquet", "parquet", "arrow", "csv", "json"),
}


def inner(kind):
    """A type and all types within it."""
    yield kind
    if types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        yield from inner(kind.value_type)
    elif types.is_struct(kind):
        for place in range(kind.num_fields):
            yield from inner(kind.field(place).type)
    elif types.is_map(kind):
        yield from inner(kind.key_type)
        yield from inner(kind.item_type)
    elif types.is_nested(kind):
        yield from inner(kind.value_type)


def plain(kind, nested):
    """Whether texts of CSV, or with `nested` JSON, have a usual form for the values of a type."""
    if nested and (model.is_list(kind) or types.is_struct(kind)):
        return all(plain(one, nested) for one in list(inner(kind))[1:])
    number = types.is_integer(kind) or types.is_floating(kind) and kind.bit_width > 16 or types.is_decimal128(kind)
    time = types.is_date32(kind) or types.is_timestamp(kind) or types.is_time64(kind)
    return number or time or model.is_text(kind) or types.is_boolean(kind)


def polars_knows(one):
    """Whether Polars has a type: it has no zones that are offsets."""
    has_offset = types.is_timestamp(one) and one.tz and one.tz[0] in "+-"
    missing = types.is_decimal256(one) or types.is_interval(one) or types.is_run_end_encoded(one) or model.is_view(one)
    return not has_offset and not missing


def polars_takes(one):
    return polars_knows(one) and not (types.is_dictionary(one) and not model.is_text(one.value_type))


def duckdb_takes(one):
    # DuckDB 2.0.1 takes other texts from dictionaries with null values in lists of a fixed size.
    if types.is_fixed_size_list(one) and types.is_dictionary(one.value_type):
        return False
    return not (types.is_decimal256(one) or types.is_float16(one) or types.is_run_end_encoded(one) or model.is_view(one))


def parquet_has(one):
    return not (types.is_interval(one) or types.is_run_end_encoded(one))


def avro_has(one):
    return (types.is_null(one) or types.is_boolean(one) or types.is_integer(one) and one.bit_width < 64 or types.is_int64(one)
            or types.is_floating(one) and one.bit_width > 16 or types.is_string(one) or types.is_binary(one) or types.is_date32(one)
            or types.is_timestamp(one) and one.unit in ("ms", "us") or types.is_time(one) and one.unit in ("ms", "us")
            or types.is_decimal128(one) or types.is_list(one) or types.is_struct(one))


def polars_avro_has(one):
    return not (types.is_decimal(one) or types.is_null(one) or types.is_time(one) or types.is_timestamp(one) and one.tz
                or types.is_integer(one) and one not in (pyarrow.int32(), pyarrow.int64()))


def takes(writer, form, kind):
    """Whether a writer is given columns of a type."""
    if form in ("csv", "json") and not plain(kind, form == "json"):
        return False
    every = list(inner(kind))
    if form == "parquet" and not all(map(parquet_has, every)) or form == "avro" and not all(map(avro_has, every)):
        return False
    # DuckDB writes intervals of 12 bytes, which PyArrow does not read from Arrow.
    if writer == DUCKDB and any(map(types.is_duration, every)):
        return False
    if form == "avro" and writer == POLARS and not all(map(polars_avro_has, every)):
        return False
    rule = {POLARS: polars_takes, DUCKDB: duckdb_takes}.get(writer)
    return rule is None or all(map(rule, every))


def settings(random, writer, form):
    """Random settings of a writer, as it names them."""
    def some(**choices):
        return {name: random.choice(values) for name, values in choices.items() if random.random() < 0.5}

    if (writer, form) == (PYARROW, "parquet"):
        return some(row_group_size=(1, 2, 7), version=("1.0", "2.4", "2.6"), use_dictionary=(False,), write_statistics=(False,),
                    compression=("none", "zstd", "lz4", "gzip"), data_page_version=("2.0",), store_schema=(False,), write_page_index=(True,),
                    write_batch_size=(1, 3), data_page_size=(1, 64), use_byte_stream_split=(False,), store_decimal_as_integer=(True,),
                    bloom_filter_options=(True,), use_deprecated_int96_timestamps=(False, False, True))
    if writer == PYARROW and form in ("arrow", "stream"):
        return some(compression=("lz4", "zstd"), batch=(1, 3, 7), metadata_version=("V5",))
    if (writer, form) == (PYARROW, "csv"):
        return some(quoting_style=("needed", "all_valid"), delimiter=(";", "\t"), batch_size=(1, 2))
    if (writer, form) == (DUCKDB, "parquet"):
        return some(ROW_GROUP_SIZE=(2048,), COMPRESSION=("zstd", "snappy", "gzip", "uncompressed"), PARQUET_VERSION=("V1", "V2"),
                    DICTIONARY_SIZE_LIMIT=(0, 1, 1000))
    if (writer, form) == (DUCKDB, "csv"):
        return some(FORCE_QUOTE=("*",), DELIMITER=(";", "|"))
    if (writer, form) == (POLARS, "parquet"):
        return some(compression=("zstd", "snappy", "uncompressed", "lz4"), statistics=(False, True, "full"), row_group_size=(1, 3, 100),
                    data_page_size=(1, 64))
    if writer == POLARS and form in ("arrow", "stream"):
        return some(compression=("lz4", "zstd"), compat_level=("oldest", "newest"))
    if (writer, form) == (POLARS, "csv"):
        return some(quote_style=("necessary", "always", "non_numeric"), separator=(";", "\t"))
    if form == "avro":
        return some(**({"compression": ("snappy", "deflate")} if writer == POLARS else {"codec": ("deflate",), "sync_interval": (1,)}))
    if (writer, form) == (PYTHON, "csv"):
        return some(quoting=("all",), lineterminator=("\r\n",), delimiter=(";", "\t"))
    if writer == PYTHON:
        return some(omit_nulls=(True,), ensure_ascii=(True, False))
    return annulus_settings(some, form)


def annulus_settings(some, form):
    if form != "parquet":
        return {}
    return some(**{"max_row_group_size": (1, 3, 100), "dictionary_enabled": (False,), "statistics_enabled": ("none", "chunk", "page"),
                   "compression": ("uncompressed", "snappy", "zstd(3)", "lz4_raw"), "bloom_filter_on_write": (True,),
                   "writer_version": ("1.0", "2.0"), "data_page_row_count_limit": (1, 5)})


def write_pyarrow(rows, form, path, given):
    given = dict(given)
    if form == "parquet":
        if given.pop("bloom_filter_options", False):
            flat = [field.name for field in rows.schema if not types.is_nested(field.type) and not types.is_boolean(field.type)]
            given["bloom_filter_options"] = {name: {"ndv": 16} for name in flat}
        pyarrow.parquet.write_table(rows, path, **given)
    elif form == "csv":
        batch = given.pop("batch_size", 1024)
        pyarrow.csv.write_csv(rows, path, pyarrow.csv.WriteOptions(batch_size=batch, **given))
    else:
        batch = given.pop("batch", None)
        given.pop("metadata_version", None)
        options = pyarrow.ipc.IpcWriteOptions(emit_dictionary_deltas=False, unify_dictionaries=form == "arrow", **given)
        writer = pyarrow.ipc.new_file if form == "arrow" else pyarrow.ipc.new_stream
        with writer(path, rows.schema, options=options) as opened:
            opened.write_table(rows, max_chunksize=batch)


def option(value):
    return value if value == "*" or isinstance(value, int) else f"'{value}'"


def write_duckdb(connection, rows, form, path, given, more=""):
    connection.register("rows", rows)
    try:
        options = "".join(f", {name} {option(value)}" for name, value in given.items())
        connection.execute(f"COPY (FROM rows) TO '{path}' (FORMAT {form}{', HEADER' if form == 'csv' else ''}{options}{more})")
    finally:
        connection.unregister("rows")


def write_polars(rows, form, path, given):
    frame, given = polars.from_arrow(rows), dict(given)
    if "compat_level" in given:
        given["compat_level"] = getattr(polars.CompatLevel, given["compat_level"])()
    {"parquet": frame.write_parquet, "arrow": frame.write_ipc, "stream": frame.write_ipc_stream, "csv": frame.write_csv,
     "json": frame.write_ndjson, "avro": frame.write_avro}[form](path, **given)


def avro_type(kind, name):
    if types.is_struct(kind):
        inner_fields = [kind.field(place) for place in range(kind.num_fields)]
        fields = [{"name": one.name, "type": avro_type(one.type, f"{name}{place}")} for place, one in enumerate(inner_fields)]
        return ["null", {"type": "record", "name": name, "fields": fields}]
    if types.is_list(kind):
        return ["null", {"type": "array", "items": avro_type(kind.value_type, f"{name}l")}]
    if types.is_null(kind):
        return "null"
    if types.is_decimal(kind):
        return ["null", {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}]
    if types.is_timestamp(kind):
        local = "" if kind.tz else "local-"
        return ["null", {"type": "long", "logicalType": f"{local}timestamp-{'millis' if kind.unit == 'ms' else 'micros'}"}]
    if types.is_time(kind):
        stored, logical = ("int", "time-millis") if kind.unit == "ms" else ("long", "time-micros")
        return ["null", {"type": stored, "logicalType": logical}]
    if types.is_date(kind):
        return ["null", {"type": "int", "logicalType": "date"}]
    small = types.is_integer(kind) and kind.bit_width <= 32 and not types.is_uint32(kind)
    names = {"bool": "boolean", "float": "float", "double": "double", "string": "string", "binary": "bytes"}
    return ["null", names.get(str(kind), "int" if small else "long")]


def avro_value(kind, value):
    """A value as fastavro takes it: logical types as the integers that they are, where it takes them."""
    if value is None:
        return None
    if types.is_struct(kind):
        return {name: avro_value(kind.field(name).type, item) for name, item in value[1:]}
    if types.is_list(kind):
        return [avro_value(kind.value_type, item) for item in value[1:]]
    stored = model.whole(kind)
    if stored:
        return value[1] // stored[2]
    if types.is_floating(kind):
        return model.build(kind, [value]).to_pylist()[0]
    return value[1] if types.is_boolean(kind) else value


def write_fastavro(rows, path, given):
    fields = [{"name": field.name, "type": avro_type(field.type, f"r{place}")} for place, field in enumerate(rows.schema)]
    schema = fastavro.parse_schema({"type": "record", "name": "rows", "fields": fields})
    columns = [[avro_value(field.type, value) for value in model.read(column)] for field, column in zip(rows.schema, rows.columns)]
    with open(path, "wb") as file:
        fastavro.writer(file, schema, [dict(zip(rows.column_names, row)) for row in zip(*columns)], **given)


def write_python(rows, form, path, given):
    columns, given = [model.read(column) for column in rows.columns], dict(given)
    kinds = [field.type for field in rows.schema]
    with open(path, "w", newline="", encoding="utf-8") as file:
        if form == "csv":
            quoting = csv.QUOTE_ALL if given.pop("quoting", None) else csv.QUOTE_MINIMAL
            writer = csv.writer(file, quoting=quoting, **{"lineterminator": "\n"} | given)
            writer.writerow(rows.column_names)
            for row in zip(*columns):
                writer.writerow(["" if value is None else spelling.spell(kind, value) for kind, value in zip(kinds, row)])
            return
        omit = given.pop("omit_nulls", False)
        for row in zip(*columns):
            made = {name: spelling.python(kind, value) for name, kind, value in zip(rows.column_names, kinds, row)}
            made = {name: value for name, value in made.items() if value is not None or not omit}
            file.write(json.dumps(made, **given) + "\n")


def slices(rows, count):
    """The rows in `count` parts of nearly equal sizes."""
    ends = [rows.num_rows * place // count for place in range(count + 1)]
    return [rows.slice(start, end - start) for start, end in zip(ends, ends[1:])]


class Writer:
    """The writers other than Annulus. One thread uses it."""

    def __init__(self):
        self.duckdb = duckdb.connect()
        self.duckdb.execute("SET threads = 1; SET enable_progress_bar = false; SET TimeZone = 'UTC'")

    def one(self, writer, rows, form, path, given):
        if writer == PYARROW:
            write_pyarrow(rows, form, path, given)
        elif writer == DUCKDB:
            write_duckdb(self.duckdb, rows, form, path, given)
        elif writer == POLARS:
            write_polars(rows, form, path, given)
        elif writer == FASTAVRO:
            write_fastavro(rows, path, given)
        else:
            write_python(rows, form, path, given)

    def folders(self, writer, rows, key, path, given):
        """Writes a folder for each value of a column."""
        if writer == PYARROW:
            form = pyarrow.dataset.ParquetFileFormat()
            pyarrow.dataset.write_dataset(rows, path, format=form, partitioning=[key], partitioning_flavor="hive")
        elif writer == DUCKDB:
            write_duckdb(self.duckdb, rows, "parquet", path, given, f', PARTITION_BY ("{key}")')
        else:
            polars.from_arrow(rows).write_parquet(f"{path}/", partition_by=key, mkdir=True)

    def write(self, case, rows, folder):
        """Writes the rows of a case, and returns the file or folder."""
        ending = ENDINGS[case.form]
        if case.layout == "folders":
            path = folder / "folders"
            path.mkdir()
            self.folders(case.writer, rows, case.key, path, case.settings)
            return path
        if case.layout == "one":
            path = folder / f"one.{ending}"
            self.one(case.writer, rows, case.form, path, case.settings)
            return path
        path = folder / "several"
        path.mkdir()
        for place, part in enumerate(slices(rows, case.files)):
            part = evolve.evolved(part, place, case.luck) if case.layout == "evolved" else part
            self.one(case.writer, part, case.form, path / f"part-{place}.{ending}", case.settings)
        return path


