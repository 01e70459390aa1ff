#!/usr/bin/env bash
# Guess:    a Parquet file (PARQUET_VERSION V2) of DuckDB with 32-bit unsigned integers is read by PyArrow.
# Happens:  DuckDB takes differences of 64 bits for the delta encoding of a 32-bit column: from 4294967295 to 0 they need 33 bits. PyArrow says
#           "Unexpected end of stream: InitHeader EOF". DuckDB and Polars read the file.
# Versions: DuckDB 2.0.1 writes, PyArrow 26.0.1 refuses, Polars 2.1.0 reads.
# Source:   the format says that arithmetic wraps in the width of the type
#           (https://github.com/apache/parquet-format/blob/master/Encodings.md, DELTA_BINARY_PACKED); arrow-go had the same
#           (https://github.com/apache/arrow-go/pull/1027). bench/fuzz/roundtrip of Annulus, seed 1, case 5724.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check duckdb==2.0.1 polars==2.1.0 pyarrow==26.0.1
cd "$folder"
"$folder/venv/bin/python" - <<'PY'
import duckdb, polars, pyarrow, pyarrow.parquet
print("DuckDB", duckdb.__version__, "PyArrow", pyarrow.__version__, "Polars", polars.__version__)
values = [4294967295, 0, 0, 2147483647, 0]
duckdb.sql(f"COPY (SELECT unnest({values})::UINTEGER AS x) TO 'x.parquet' (FORMAT parquet, PARQUET_VERSION V2, DICTIONARY_SIZE_LIMIT 1)")
assert [row[0] for row in duckdb.sql("FROM 'x.parquet'").fetchall()] == values
assert polars.read_parquet("x.parquet")["x"].to_list() == values
print(pyarrow.parquet.ParquetFile("x.parquet").metadata.row_group(0).column(0).encodings)
try:
    print(pyarrow.parquet.read_table("x.parquet")["x"])
    raise SystemExit("PyArrow reads it now")
except OSError as error:
    print("PyArrow:", error)
    assert "Unexpected end of stream" in str(error)
PY
