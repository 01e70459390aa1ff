#!/usr/bin/env bash
# Guess:    `x IS NOT DISTINCT FROM y AND z < 9` is two conditions, as `x = y AND z < 9` is.
# Happens:  DataFusion parses `x IS NOT DISTINCT FROM (y AND z < 9)`, and refuses integers under AND; with booleans it answers that question.
# Versions: DataFusion 55.0.0 (its wrong answer), DuckDB 2.0.1.
# Source:   met while comparing answers to nulls; sqlparser's parse of IS [NOT] DISTINCT FROM takes a whole expression.
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
values = "SELECT true AS x, true AS y, 5 AS z UNION ALL SELECT false, false, 20"
session.sql(f"CREATE TABLE a AS {values}").collect()
duckdb.sql(f"CREATE TABLE a AS {values}")
assert both("SELECT z FROM a WHERE (x IS NOT DISTINCT FROM y) AND z < 9") == ([5], [5])
assert both("SELECT z FROM a WHERE x IS NOT DISTINCT FROM y AND z < 9") == ([5, 20], [5])
PY
