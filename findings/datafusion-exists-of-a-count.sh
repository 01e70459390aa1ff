#!/usr/bin/env bash
# Guess:    `EXISTS (SELECT count(*) ...)` is true for every row: an aggregate without groups has exactly one row.
# Happens:  DataFusion makes a join of it, so a row for which the count is 0 is lost.
# Versions: DataFusion 55.0.0 (its wrong answer), DuckDB 2.0.1.
# Source:   https://github.com/apache/datafusion/issues/24960 (open); met while mending NOT IN (crates/datafusion/src/logical).
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check duckdb==2.0.1 datafusion==55.0.0 pyarrow==26.0.1
"$folder/venv/bin/python" - <<'PY'
import datafusion, duckdb
print("DataFusion", datafusion.__version__, "DuckDB", duckdb.__version__)
session = datafusion.SessionContext()
def both(sql):
    theirs = sorted(row[0] for row in duckdb.sql(sql).fetchall())
    try:
        ours = sorted(value for batch in session.sql(sql).collect() for value in batch.column(0).to_pylist())
    except Exception as error:
        ours = str(error)
    print(sql, "-> DataFusion:", ours, "DuckDB:", theirs)
    return ours, theirs
for table, rows in (("a", "0 AS id UNION ALL SELECT 1"), ("b", "1 AS id")):
    session.sql(f"CREATE TABLE {table} AS SELECT {rows}").collect()
    duckdb.sql(f"CREATE TABLE {table} AS SELECT {rows}")
assert both("SELECT id FROM a WHERE EXISTS (SELECT count(*) FROM b WHERE b.id = a.id)") == ([1], [0, 1])
PY
