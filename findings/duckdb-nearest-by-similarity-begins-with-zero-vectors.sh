#!/usr/bin/env bash
# DuckDB 2.0.1's NEAREST BY SIMILARITY takes a zero vector for the one most like every vector.
#
# Guess:    the cosine of a zero vector has no value, so such a row is not near, or it comes last. A smaller
#           distance and a larger similarity by cosine find the same rows.
# Happens:  list_cosine_similarity and list_cosine_distance of a zero vector are NaN, and NaN is above all
#           numbers. BY SIMILARITY, one zero vector is the nearest row of all rows, and with NEAREST k it takes
#           the place of the k-th true one. BY DISTANCE it comes last, and the answers are the expected ones.
# Version:  duckdb 2.0.1. Its order of NaN: https://duckdb.org/docs/stable/sql/data_types/numeric
set -euo pipefail
d=$(mktemp -d); trap 'rm -rf "$d"' EXIT; cd "$d"
python3 -m venv v && v/bin/pip install -q duckdb==2.0.1
v/bin/python - <<'PY'
import duckdb
print("duckdb", duckdb.__version__)
duckdb.sql("CREATE TABLE a AS FROM (VALUES (1, [1.0, 0.0]), (2, [0.0, 1.0])) t(id, v)")
duckdb.sql("CREATE TABLE b AS FROM (VALUES (10, [1.0, 0.1]), (20, [0.1, 1.0]), (30, [0.0, 0.0])) t(id, v)")
join = "SELECT a.id, b.id FROM a JOIN b EXACT NEAREST 1 BY"
found = {
    order: duckdb.sql(f"{join} {order.upper()} list_cosine_{order}(a.v, b.v) ORDER BY ALL").fetchall()
    for order in ("similarity", "distance")
}
print("nearest rows:", found)
assert found == {"similarity": [(1, 30), (2, 30)], "distance": [(1, 10), (2, 20)]}, "the behaviour has changed"
PY
