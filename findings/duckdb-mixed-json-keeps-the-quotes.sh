#!/usr/bin/env bash
# Guess:    a key of JSON lines with numbers and texts becomes a text column: 1.5, NaN, x.
# Happens:  DuckDB's column has the type JSON, and cast to VARCHAR the texts keep their quotes: "NaN" has five characters, so that
#           WHERE v::VARCHAR = 'NaN' finds nothing.
# Versions: DuckDB 2.0.1.
# Source:   bench/fuzz/roundtrip of Annulus, seed 1, case 358.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check duckdb==2.0.1
cd "$folder"
"$folder/venv/bin/python" - <<'PY'
import duckdb
print("DuckDB", duckdb.__version__)
with open("m.json", "w") as file:
    file.write('{"v": 1.5}\n{"v": "NaN"}\n{"v": "x"}\n')
found = duckdb.sql("SELECT v::VARCHAR, typeof(v), length(v::VARCHAR) FROM 'm.json'").fetchall()
print(found)
assert found == [("1.5", "JSON", 3), ('"NaN"', "JSON", 5), ('"x"', "JSON", 3)], "DuckDB makes something else of it now"
print("WHERE v::VARCHAR = 'NaN':", duckdb.sql("FROM 'm.json' WHERE v::VARCHAR = 'NaN'").fetchall())
assert not duckdb.sql("FROM 'm.json' WHERE v::VARCHAR = 'NaN'").fetchall()
PY
