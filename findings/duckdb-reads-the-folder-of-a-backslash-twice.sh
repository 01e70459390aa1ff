#!/usr/bin/env bash
# Guess:    a folder that Polars writes for each value of a text column is read by DuckDB with all of its rows, once each.
# Happens:  the folder of the text \ (one backslash) is never read, and that of the empty text is read twice: DuckDB takes the backslash
#           in a name that its glob has found for an escape. The number of rows is right, and the rows are not. No message.
# Versions: Polars 2.1.0 writes k=\ as it is; DuckDB 2.0.1 itself writes k=%5C.
# Source:   bench/fuzz/roundtrip of Annulus, seed 1, case 2370. No issue was found.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check duckdb==2.0.1 polars==2.1.0
cd "$folder"
"$folder/venv/bin/python" - <<'PY'
import duckdb, polars
print("DuckDB", duckdb.__version__, "Polars", polars.__version__)
polars.DataFrame({"id": [1, 2, 3], "k": ["\\", "", "a"]}).write_parquet("d/", partition_by="k", mkdir=True)
for pattern in ("d/**/*.parquet", "d/*/*.parquet"):
    found = duckdb.sql(f"SELECT id, k FROM read_parquet('{pattern}', hive_partitioning = true) ORDER BY id").fetchall()
    print(pattern, found)
    assert [one for one, _ in found] == [2, 2, 3], "DuckDB reads other rows now"
PY
