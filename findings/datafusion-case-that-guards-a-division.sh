#!/usr/bin/env bash
# Guess:    `CASE WHEN n = 0 THEN false ELSE 10 / n > 2 END` divides by no zero, also in WHERE: that is what CASE is for.
# Happens:  DataFusion makes `n != 0 AND 10 / n > 2` of it, evaluates both sides for all rows, and the query fails with "Divide by zero";
#           so does the same CASE in the list of SELECT.
# Versions: DataFusion 55.0.0 (fails), DuckDB 2.0.1.
# Source:   met while comparing scans with random conditions.
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
values = "SELECT * FROM (VALUES (0), (1), (3), (4)) AS v(n)"
session.sql(f"CREATE TABLE a AS {values}").collect()
duckdb.sql(f"CREATE TABLE a AS {values}")
guarded = "CASE WHEN n = 0 THEN false ELSE 10 / n > 2 END"
assert both(f"SELECT n FROM (SELECT n, {guarded} AS g FROM a) WHERE n = 1")[1] == [1]
ours, theirs = both(f"SELECT n FROM a WHERE {guarded}")
assert theirs == [1, 3, 4] and "Divide by zero" in ours, ours
ours, theirs = both(f"SELECT CAST({guarded} AS INT) FROM a")
assert theirs == [0, 1, 1, 1] and "Divide by zero" in ours, ours
PY
