#!/usr/bin/env bash
# DuckDB 2.0.1 reads 2.7 as 3 if the first Parquet file of a glob has integers in the column.
#
# Guess:    the files of one glob have a column of integers and one of doubles. The type is widened, or
#           the file that does not fit is refused, as Polars and pyarrow do.
# Happens:  the first file decides, and 2.7 of the second one becomes 3. With union_by_name the type is
#           DOUBLE, and the integer 9007199254740993 becomes 9007199254740992.
# Versions: duckdb 2.0.1, polars 2.1.0, pyarrow 26.0.1.
#           https://duckdb.org/docs/current/data/multiple_files/combining_schemas
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet duckdb==2.0.1 polars==2.1.0 pyarrow==26.0.1
cd "$folder"
venv/bin/python - <<'PY'
import duckdb, polars, pyarrow, pyarrow.dataset, pyarrow.parquet as parquet

parquet.write_table(pyarrow.table({"v": pyarrow.array([2**53 + 1], pyarrow.int64())}), "1.parquet")
parquet.write_table(pyarrow.table({"v": pyarrow.array([2.7])}), "2.parquet")
first = duckdb.sql("SELECT v FROM read_parquet('*.parquet')").fetchall()
united = duckdb.sql("SELECT v FROM read_parquet('*.parquet', union_by_name = true)").fetchall()
print("duckdb", duckdb.__version__, first, united)
assert first == [(9007199254740993,), (3,)], first
assert united == [(9007199254740992.0,), (2.7,)], united
for name, read in [
    ("polars " + polars.__version__, lambda: polars.read_parquet("*.parquet")),
    ("pyarrow " + pyarrow.__version__, lambda: pyarrow.dataset.dataset(["1.parquet", "2.parquet"]).to_table()),
]:
    try:
        read()
    except Exception as error:
        print(name, "refuses:", str(error)[:100])
    else:
        raise SystemExit(name + " does not refuse any more")
PY
