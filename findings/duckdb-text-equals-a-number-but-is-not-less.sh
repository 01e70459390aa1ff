#!/usr/bin/env bash
# Guess:    if a text column can be compared with a number by `=`, it can by `<`, `BETWEEN` and IN with the same rule.
# Happens:  DuckDB converts the text to a number for `=` and IN, where '0123' equals 123, and refuses `<` and BETWEEN of the same operands.
# Versions: DuckDB 2.0.1.
# Source:   met while comparing all pairs of types.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check duckdb==2.0.1
"$folder/venv/bin/python" - <<'PY'
import duckdb
print("DuckDB", duckdb.__version__)
duckdb.sql("CREATE TABLE t (s VARCHAR, i INTEGER)")
duckdb.sql("INSERT INTO t VALUES ('0123', 123)")
def answer(condition):
    try:
        found = duckdb.sql(f"SELECT {condition} FROM t").fetchall()[0][0]
    except duckdb.BinderException as error:
        found = str(error).splitlines()[0]
    print(condition, "->", found)
    return found
assert answer("s = i") is True and answer("s = 123") is True and answer("s IN (123)") is True
assert "Cannot compare" in answer("s < i") and "explicit cast" in answer("s BETWEEN 1 AND 200")
PY
