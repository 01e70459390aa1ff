#!/usr/bin/env bash
# Guess:    LIMIT above a subquery, a view or a common table expression with ORDER BY returns its first rows, as everywhere else.
# Happens:  DataFusion drops the ORDER BY when it plans the subquery, and returns any rows. It does so for its default of
#           datafusion.sql_parser.enable_subquery_sort_elimination; a comment in the code says that a LIMIT keeps the sort, which
#           holds for one inside the subquery alone. SQLite and DuckDB return the first rows. The standard leaves the order open.
# Versions: DataFusion 55.0.0; DuckDB 2.0.1, SQLite of Python.
# Source:   datafusion-sql 55.2, src/relation/mod.rs, optimize_subquery_sort.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check datafusion==55.0.0 duckdb==2.0.1
"$folder/venv/bin/python" - <<'PY'
import sqlite3
import datafusion, duckdb

queries = {
    "subquery": "SELECT a FROM (SELECT a FROM t ORDER BY a DESC) s LIMIT 2",
    "view": "SELECT a FROM v LIMIT 2",
    "with": "WITH s AS (SELECT a FROM t ORDER BY a DESC) SELECT a FROM s LIMIT 2",
}
table, view = "CREATE TABLE t AS SELECT 1 AS a UNION ALL SELECT 2 UNION ALL SELECT 3", "CREATE VIEW v AS SELECT a FROM t ORDER BY a DESC"
context = datafusion.SessionContext()
for statement in ("CREATE TABLE t AS VALUES (1), (2), (3)", "CREATE VIEW v AS SELECT column1 AS a FROM t ORDER BY a DESC"):
    context.sql(statement).collect()
lite, duck = sqlite3.connect(":memory:"), duckdb.connect()
for connection in (lite, duck):
    connection.execute(table)
    connection.execute(view)
for name, query in queries.items():
    found = context.sql(query.replace("SELECT a FROM t", "SELECT column1 AS a FROM t")).to_pydict()["a"]
    others = [[a for a, in connection.execute(query).fetchall()] for connection in (lite, duck)]
    print(name, "DataFusion", datafusion.__version__, found, "SQLite, DuckDB", *others)
    assert others == [[3, 2], [3, 2]], others
    assert found == [1, 2], found
kept = datafusion.SessionContext(datafusion.SessionConfig().set("datafusion.sql_parser.enable_subquery_sort_elimination", "false"))
kept.sql("CREATE TABLE t AS VALUES (1), (2), (3)").collect()
assert kept.sql("SELECT * FROM (SELECT column1 AS a FROM t ORDER BY a DESC) s LIMIT 2").to_pydict()["a"] == [3, 2]
PY
