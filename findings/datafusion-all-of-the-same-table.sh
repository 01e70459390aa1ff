#!/usr/bin/env bash
# Guess:    `id > ALL (SELECT id FROM a WHERE id < 2)` has the same rows whether the outer query reads a or a copy of it.
# Happens:  with the same table, and no alias, DataFusion compares the subquery's column with itself and has no rows.
# Versions: DataFusion 55.0.0 (its wrong answer), DuckDB 2.0.1.
# Source:   https://github.com/apache/datafusion/issues/25258 (open); met while mending NOT IN (crates/datafusion/src/logical).
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
values = "(VALUES (0), (1), (2), (3))"
session.sql(f"CREATE TABLE a AS SELECT column1 AS id FROM {values}").collect()
duckdb.sql(f"CREATE TABLE a AS SELECT col0 AS id FROM {values}")
assert both("SELECT id FROM a AS b WHERE id > ALL (SELECT id FROM a WHERE id < 2)") == ([2, 3], [2, 3])
assert both("SELECT id FROM a WHERE id > ALL (SELECT id FROM a WHERE id < 2)") == ([], [2, 3])
PY
