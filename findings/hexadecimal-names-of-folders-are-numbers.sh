#!/usr/bin/env bash
# Guess:    a text column with 0x10 and 0x1f, written by DuckDB in folders by value, is read by DuckDB as the same texts: they are not
#           numbers in decimal digits, and CSV readers leave them as they are.
# Happens:  DuckDB and PyArrow read the integers 16 and 31, so that the texts are lost. Polars reads the texts.
# Versions: DuckDB 2.0.1, PyArrow 26.0.1, Polars 2.1.0.
# Source:   bench/fuzz/roundtrip of Annulus, seed 1, case 1314.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check duckdb==2.0.1 polars==2.1.0 pyarrow==26.0.1
cd "$folder"
"$folder/venv/bin/python" - <<'PY'
import duckdb, polars, pyarrow, pyarrow.dataset
print("DuckDB", duckdb.__version__, "PyArrow", pyarrow.__version__, "Polars", polars.__version__)
duckdb.sql("COPY (SELECT * FROM (VALUES (1, '0x10'), (2, '0x1f')) t(id, k)) TO 'd' (FORMAT parquet, PARTITION_BY (k))")
found = {
    "DuckDB": [row[0] for row in duckdb.sql("SELECT k FROM 'd/*/*.parquet' ORDER BY id").fetchall()],
    "PyArrow": pyarrow.dataset.dataset("d", partitioning="hive").to_table().sort_by("id")["k"].to_pylist(),
    "Polars": polars.scan_parquet("d/", hive_partitioning=True).collect().sort("id")["k"].to_list(),
}
print(found)
assert found == {"DuckDB": [16, 31], "PyArrow": [16, 31], "Polars": ["0x10", "0x1f"]}, "they read something else now"
PY
