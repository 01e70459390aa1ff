#!/usr/bin/env bash
# Guess:    a Parquet file of two rows, an array of two integers and a null, is read by every reader.
# Happens:  DuckDB writes INTEGER[2] so that DuckDB and Polars read it, and PyArrow says "Length spanned by list offsets (3) larger than
#           values array (length 2)". Without the null all read it.
# Versions: DuckDB 2.0.1 writes, PyArrow 26.0.1 refuses, Polars 2.1.0 reads.
# Source:   bench/fuzz/roundtrip of Annulus, seed 1, case 884; https://github.com/duckdb/duckdb/issues/24731 (open).
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check duckdb==2.0.1 polars==2.1.0 pyarrow==26.0.1
cd "$folder"
"$folder/venv/bin/python" - <<'PY'
import duckdb, polars, pyarrow, pyarrow.parquet
print("DuckDB", duckdb.__version__, "PyArrow", pyarrow.__version__, "Polars", polars.__version__)
duckdb.sql("COPY (SELECT * FROM (VALUES ([1, 2]::INTEGER[2]), (NULL)) t(v)) TO 'a.parquet'")
assert duckdb.sql("FROM 'a.parquet'").fetchall() == [((1, 2),), (None,)] or duckdb.sql("FROM 'a.parquet'").fetchall() == [([1, 2],), (None,)]
assert polars.read_parquet("a.parquet")["v"].to_list() == [[1, 2], None]
try:
    print(pyarrow.parquet.read_table("a.parquet"))
    raise SystemExit("PyArrow reads it now")
except pyarrow.ArrowInvalid as error:
    print("PyArrow:", error)
    assert "list offsets" in str(error)
PY
