#!/usr/bin/env bash
# DataFusion 55: UNION ALL refuses a second query whose constant stands where the first has the name of a later column.
#
# Guess:    the columns of a union have the names of the first query, whatever those of the second are.
# Happens:  the second query's columns are renamed to those of the first. A constant becomes `a`, and the column `r.a` after it
#           keeps its qualifier, so the query is refused as ambiguous. Two columns in the other order, and an alias, are accepted.
# Versions: datafusion 55.0.0 (Python); DataFusion 55.2.0 has the same.
# Source:   crates/datafusion/tests/common_subplans.rs of Annulus.
set -euo pipefail
d=$(mktemp -d); trap 'rm -rf "$d"' EXIT; cd "$d"
python3 -m venv v && v/bin/pip install -q datafusion==55.0.0 pyarrow==26.0.1
v/bin/python - <<'PY'
import datafusion
print("datafusion", datafusion.__version__)
context = datafusion.SessionContext()

def answer(second):
    query = f"WITH r(a, b) AS (VALUES (1, 2)) SELECT a, b FROM r UNION ALL SELECT {second} FROM r"
    try:
        return sorted(row for batch in context.sql(query).collect() for row in zip(*batch.to_pydict().values()))
    except Exception as error:
        return str(error)

for second in ["b, a", "7, a AS x", "7, a"]:
    print(second, "->", answer(second))
swapped, aliased, plain = map(answer, ["b, a", "7, a AS x", "7, a"])
if swapped != [(1, 2), (2, 1)] or aliased != [(1, 2), (7, 1)] or "ambiguous" not in plain:
    raise SystemExit("the behaviour has changed")
PY
