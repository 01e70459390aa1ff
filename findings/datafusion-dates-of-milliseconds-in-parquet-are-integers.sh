#!/usr/bin/env bash
# Guess:    a Date64 column that DataFusion writes to Parquet is a date, or a timestamp, to other readers, as one of PyArrow is.
# Happens:  it is a plain INT64 without a logical type: DuckDB and PyArrow read -86400000 for 1969-12-31. The type is in the embedded
#           schema of Arrow alone: Polars reads it there (as a time), and PyArrow, which uses that schema for other types, does not.
# Versions: DataFusion 55.0.0, DuckDB 2.0.1, PyArrow 26.0.1, Polars 2.1.0.
# Source:   bench/fuzz/roundtrip of Annulus; the parquet crate casts it only with coerce_types.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check datafusion==55.0.0 duckdb==2.0.1 pyarrow==26.0.1 polars==2.1.0
cd "$folder"
"$folder/venv/bin/python" - <<'PY'
import datafusion, duckdb, polars, pyarrow, pyarrow.parquet
print("DataFusion", datafusion.__version__, "DuckDB", duckdb.__version__, "PyArrow", pyarrow.__version__, "Polars", polars.__version__)
context = datafusion.SessionContext()
context.sql("COPY (SELECT arrow_cast(DATE '1969-12-31', 'Date64') AS d) TO 'd.parquet' STORED AS PARQUET").collect()
print(pyarrow.parquet.ParquetFile("d.parquet").schema.column(0))
found = [duckdb.sql("FROM 'd.parquet'").fetchall()[0][0], pyarrow.parquet.read_table("d.parquet")["d"].to_pylist()[0],
         polars.read_parquet("d.parquet")["d"].to_list()[0]]
print("DuckDB, PyArrow, Polars:", found)
assert found[:2] == [-86_400_000] * 2, "they read something else now"
pyarrow.parquet.write_table(pyarrow.table({"d": pyarrow.array([-86_400_000], pyarrow.int64()).view(pyarrow.date64())}), "p.parquet")
print("of PyArrow's file, DuckDB:", duckdb.sql("FROM 'p.parquet'").fetchall())
PY
