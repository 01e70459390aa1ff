#!/usr/bin/env bash
# Guess:    texts of an Arrow table are read as texts wherever they are: in a column, in a struct, in a list, dictionary or not.
# Happens:  DuckDB reads texts of a dictionary within a struct of a fixed-size list as integers, at which the texts begin in memory, and
#           calls the field INTEGER. In a list of any size, or in a struct alone, the same texts are VARCHAR and right.
# Versions: DuckDB 2.0.1, PyArrow 26.0.1.
# Source:   bench/fuzz/roundtrip of Annulus, seed 45, case 122367.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check duckdb==2.0.1 pyarrow==26.0.1
"$folder/venv/bin/python" - <<'PY'
import duckdb, pyarrow
print("DuckDB", duckdb.__version__, "PyArrow", pyarrow.__version__)
city = pyarrow.struct([("city", pyarrow.dictionary(pyarrow.int32(), pyarrow.string()))])
rows = [[{"city": "Zurich"}, {"city": "Basel"}]]
fixed = pyarrow.table({"v": pyarrow.array(rows, pyarrow.list_(city, 2))})
several = pyarrow.table({"v": pyarrow.array(rows, pyarrow.list_(city))})
assert fixed["v"].to_pylist() == several["v"].to_pylist() == rows
read = [duckdb.sql(f"SELECT typeof(v), v[1]['city'], v[2]['city'] FROM {name}").fetchall()[0] for name in ("fixed", "several")]
print("fixed-size list:", read[0])
print("list:           ", read[1])
assert read == [("STRUCT(city INTEGER)[2]", 0, 6), ("STRUCT(city VARCHAR)[]", "Zurich", "Basel")]
PY
