"""What reads the files of a case beside Annulus: PyArrow, DuckDB, Polars and fastavro."""

import fastavro
import polars
import pyarrow
import pyarrow.csv
import pyarrow.dataset
import pyarrow.ipc
import pyarrow.parquet

from writers import DUCKDB, FASTAVRO, POLARS, PYARROW, inner, polars_knows

READERS = {
    "parquet": (PYARROW, DUCKDB, POLARS),
    "arrow": (PYARROW, POLARS),
    "stream": (PYARROW, POLARS),
    "avro": (POLARS, FASTAVRO),
    # As texts: what these readers infer is theirs.
    "csv": (PYARROW, DUCKDB, POLARS),
    "json": (DUCKDB,),
}


def can_read(reader, form, kinds):
    """Whether a reader is asked for columns of these types: Polars panics at some, which this process would print."""
    if reader != POLARS:
        return True
    return all(polars_knows(one) for kind in kinds for one in inner(kind))


def delimiter(case):
    given = case.settings
    return given.get("delimiter") or given.get("DELIMITER") or given.get("separator") or ","


def files(path, ending):
    return sorted(path.rglob(f"*.{ending}")) if path.is_dir() else [path]


def read_pyarrow(case, path, names):
    if case.form == "parquet":
        if path.is_dir():
            return pyarrow.dataset.dataset(path, format="parquet", partitioning="hive").to_table()
        return pyarrow.parquet.read_table(path)
    if case.form == "csv":
        parse = pyarrow.csv.ParseOptions(delimiter=delimiter(case), newlines_in_values=True)
        convert = pyarrow.csv.ConvertOptions(column_types={name: pyarrow.string() for name in names}, strings_can_be_null=True,
                                             null_values=[""], quoted_strings_can_be_null=False)
        return pyarrow.concat_tables(pyarrow.csv.read_csv(one, parse_options=parse, convert_options=convert) for one in files(path, "csv"))
    opener = pyarrow.ipc.open_file if case.form == "arrow" else pyarrow.ipc.open_stream
    ending = "arrow" if case.form == "arrow" else "arrows"
    return pyarrow.concat_tables(opener(one.read_bytes()).read_all() for one in files(path, ending))


def read_duckdb(connection, case, path):
    place = f"{path}/**/*" if path.is_dir() else path
    if case.form == "parquet":
        hive = f", hive_partitioning = {str(case.has_folders).lower()}"
        return connection.sql(f"FROM read_parquet('{place}{'.parquet' if path.is_dir() else ''}'{hive})").to_arrow_table()
    if case.form == "csv":
        end = "\\r\\n" if case.settings.get("lineterminator") else "\\n"
        given = (f"all_varchar = true, header = true, delim = '{delimiter(case)}', quote = '\"', escape = '\"', nullstr = '', "
                 f"allow_quoted_nulls = false, new_line = '{end}'")
        return connection.sql(f"FROM read_csv('{place}', {given})").to_arrow_table()
    return connection.sql(f"FROM read_json('{place}', format = 'newline_delimited', convert_strings_to_integers = false)").to_arrow_table()


def read_polars(case, path):
    if case.form == "parquet":
        if path.is_dir():
            return polars.scan_parquet(f"{path}/", hive_partitioning=case.has_folders, glob=True).collect().to_arrow()
        return polars.read_parquet(path).to_arrow()
    read = {
        "arrow": lambda one: polars.read_ipc(one.read_bytes()),
        "stream": polars.read_ipc_stream,
        "avro": polars.read_avro,
        "csv": lambda one: polars.read_csv(one, infer_schema=False, separator=delimiter(case)),
    }[case.form]
    return polars.concat([read(one) for one in files(path, case.ending)]).to_arrow()


def fast_kind(one):
    """A type of Arrow for one of Avro, whose logical types are read as they are."""
    name = one["type"] if isinstance(one, dict) else one
    if isinstance(one, list):
        return fast_kind([each for each in one if each != "null"][0])
    if name == "record":
        return pyarrow.struct([(field["name"], fast_kind(field["type"])) for field in one["fields"]])
    if name == "array":
        return pyarrow.list_(fast_kind(one["items"]))
    logical = one.get("logicalType", "") if isinstance(one, dict) else ""
    if "timestamp" in logical:
        return pyarrow.timestamp("ms" if "millis" in logical else "us", None if "local" in logical else "UTC")
    if logical == "decimal":
        return pyarrow.decimal128(one["precision"], one.get("scale", 0))
    times = {"date": pyarrow.date32(), "time-millis": pyarrow.time32("ms"), "time-micros": pyarrow.time64("us")}
    plain = {"null": pyarrow.null(), "boolean": pyarrow.bool_(), "int": pyarrow.int32(), "long": pyarrow.int64(), "float": pyarrow.float32(),
             "double": pyarrow.float64(), "string": pyarrow.string(), "bytes": pyarrow.binary()}
    return times.get(logical) or plain[name]


def read_fastavro(case, path):
    """The rows as fastavro makes them, which has a datetime for a time and fails for years that Python does not have."""
    tables = []
    for one in files(path, "avro"):
        with open(one, "rb") as file:
            read = fastavro.reader(file)
            fields = read.writer_schema["fields"]
            rows = list(read)
        columns = [pyarrow.array([row[field["name"]] for row in rows], fast_kind(field["type"])) for field in fields]
        tables.append(pyarrow.table(columns, [field["name"] for field in fields]))
    return pyarrow.concat_tables(tables)


class Reader:
    """The readers other than Annulus. One thread uses it."""

    def __init__(self, connection):
        self.duckdb = connection

    def readers(self, case):
        """About half of the readers of a case, which take longer than Annulus."""
        # Nothing else takes columns from the folders of Arrow files, or unites types as different as these.
        if case.has_folders and case.form != "parquet" or case.layout == "evolved":
            return []
        some = [reader for place, reader in enumerate(READERS[case.form]) if case.luck >> place & 1]
        return [reader for reader in some if can_read(reader, case.form, case.kinds.values())]

    def read(self, reader, case, path, names):
        """The rows that a reader finds."""
        if reader == PYARROW:
            return read_pyarrow(case, path, names)
        if reader == DUCKDB:
            return read_duckdb(self.duckdb, case, path)
        return read_polars(case, path) if reader == POLARS else read_fastavro(case, path)


