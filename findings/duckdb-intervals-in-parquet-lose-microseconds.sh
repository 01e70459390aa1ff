#!/usr/bin/env bash
# Guess:    DuckDB, whose intervals have microseconds, reads an interval that it wrote to Parquet as it was, or refuses to write it.
# Happens:  1500 microseconds come back as 1000: Parquet's INTERVAL has milliseconds, and the rest is cut without a message. A negative
#           interval is refused ("Parquet files do not support negative intervals"), so that some loss is noticed.
# Versions: DuckDB 2.0.1.
# Source:   the format, https://github.com/apache/parquet-format/blob/master/LogicalTypes.md#interval; bench/fuzz/roundtrip of Annulus.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check duckdb==2.0.1
cd "$folder"
"$folder/venv/bin/python" - <<'PY'
import duckdb
print("DuckDB", duckdb.__version__)
duckdb.sql("COPY (SELECT INTERVAL '1500 microseconds' AS i) TO 'i.parquet'")
found = duckdb.sql("SELECT datepart('microseconds', i) FROM 'i.parquet'").fetchall()
print("written 1500, read", found)
assert found == [(1000,)], "DuckDB keeps or refuses it now"
try:
    duckdb.sql("COPY (SELECT INTERVAL '-1 day' AS i) TO 'j.parquet'")
    raise SystemExit("DuckDB writes negative intervals now")
except duckdb.IOException as error:
    print(error)
PY
