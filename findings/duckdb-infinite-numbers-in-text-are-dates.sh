#!/usr/bin/env bash
# Guess:    a column of a CSV or JSON file whose values are Infinity and -Infinity is of doubles, or of texts.
# Happens:  DuckDB finds dates: infinity and -infinity, the dates without an end. With a finite number more the column is of texts.
#           So measurements become dates in files that have no finite one.
# Versions: DuckDB 2.0.1.
# Source:   bench/fuzz/roundtrip of Annulus, seed 44, case 3814.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check duckdb==2.0.1
cd "$folder"
"$folder/venv/bin/python" - <<'PY'
import duckdb
print("DuckDB", duckdb.__version__)
with open("a.csv", "w") as file:
    file.write("i,x\n1,Infinity\n2,-Infinity\n")
with open("b.csv", "w") as file:
    file.write("i,x\n1,Infinity\n2,0.5\n")
with open("a.jsonl", "w") as file:
    file.write('{"i":1,"x":"Infinity"}\n{"i":2,"x":"-Infinity"}\n')
found = {name: duckdb.sql(f"SELECT typeof(x), x::VARCHAR FROM '{name}' ORDER BY i").fetchall() for name in ("a.csv", "b.csv", "a.jsonl")}
print(found)
dates = [("DATE", "infinity"), ("DATE", "-infinity")]
assert found == {"a.csv": dates, "b.csv": [("VARCHAR", "Infinity"), ("VARCHAR", "0.5")], "a.jsonl": dates}, "DuckDB does something else now"
PY
