#!/usr/bin/env bash
# DuckDB 2.0.1 says isnan(x) = false, and x > 5 = false, for the NaN of a Parquet file with statistics.
#
# Guess:    a scalar function of a value depends on the value. DuckDB orders NaN above all numbers, and since
#           duckdb#16962 (2025) its reader takes NaN for possible in every float column of a Parquet file.
# Happens:  the NaN is read and printed, but isnan(x) and x > 5 are false beside it, WHERE isnan(x) finds no
#           row, and max(x) is 2.0. The same file without statistics is right.
# Versions: duckdb 2.0.1, pyarrow 26.0.1 (which writes the file). Statistics leave NaN out, as Parquet's
#           specification demands: https://github.com/apache/parquet-format, "Statistics" in parquet.thrift.
set -euo pipefail
d=$(mktemp -d); trap 'rm -rf "$d"' EXIT; cd "$d"
python3 -m venv v && v/bin/pip install -q duckdb==2.0.1 pyarrow==26.0.1
v/bin/python - <<'PY'
import duckdb, pyarrow as pa, pyarrow.parquet as pq
table = pa.table({"x": [1.0, float("nan"), 2.0]})
pq.write_table(table, "with.parquet")
pq.write_table(table, "without.parquet", write_statistics=False)
print("duckdb", duckdb.__version__)
found = {}
for name in ("with", "without"):
    file = f"'{name}.parquet'"
    rows = duckdb.sql(f"SELECT x::VARCHAR, isnan(x), x > 5 FROM {file}").fetchall()
    count = duckdb.sql(f"SELECT count(*) FROM {file} WHERE isnan(x)").fetchall()[0][0]
    print(name, "statistics:", rows, "rows with isnan(x):", count)
    found[name] = rows[1], count
assert found == {"with": (("nan", False, False), 0), "without": (("nan", True, True), 1)}, "the behaviour has changed"
PY
