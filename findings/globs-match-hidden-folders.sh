#!/usr/bin/env bash
# Guess: `*` in a glob does not match names that begin with a dot, as in shells, and scans of a folder pass over
#        hidden folders, as pyarrow and Spark do.
# Seen:  'd/*/*.json' of DuckDB and 'd/**/*.json' of Polars read d/.hidden/notes.json as rows, and add its columns or
#        lose the key's column, without an error. Polars reads it from the folder 'd' alone as well. So a tool that
#        keeps its own files below a dataset must give them another extension, not only a dot.
# With:  duckdb 2.0.1, polars 2.1.0, pyarrow 26.0.1 (Python packages).
set -euo pipefail
d=$(mktemp -d); trap 'rm -rf "$d"' EXIT; cd "$d"
python3 -m venv venv
venv/bin/pip install --quiet duckdb==2.0.1 polars==2.1.0 pyarrow==26.0.1
venv/bin/python - <<'PY'
import os
import duckdb, polars as pl, pyarrow as pa, pyarrow.dataset as ds

for folder, row in (("k=a", '{"i": 0}'), ("k=b", '{"i": 1}'), (".hidden", '{"version": 1}')):
    os.makedirs(f"d/{folder}")
    with open(f"d/{folder}/notes.json", "w") as file:
        file.write(row + "\n")

def rows(read):
    try:
        return read()
    except Exception as error:
        return type(error).__name__

found = {
    "DuckDB, 'd/*/*.json'": rows(lambda: len(duckdb.execute("SELECT * FROM 'd/*/*.json'").fetchall())),
    "DuckDB, 'd/**/*.json'": rows(lambda: len(duckdb.execute("SELECT * FROM 'd/**/*.json'").fetchall())),
    "Polars, 'd/**/*.json'": rows(lambda: pl.scan_ndjson("d/**/*.json").collect().height),
    "Polars, 'd'": rows(lambda: pl.scan_ndjson("d").collect().height),
    "pyarrow, 'd'": rows(lambda: ds.dataset("d", format="json", partitioning="hive").to_table().num_rows),
}
for package in (duckdb, pl, pa):
    print(package.__name__, package.__version__)
for reader, count in found.items():
    print(f"{reader}: {count} rows of 2 that are not hidden")
raise SystemExit(list(found.values()) != [3, 3, 3, 3, 2])
PY
