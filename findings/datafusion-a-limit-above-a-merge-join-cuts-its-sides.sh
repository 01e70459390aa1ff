#!/usr/bin/env bash
# DataFusion 55: ORDER BY ... LIMIT above a sort-merge join loses rows, up to all of them.
#
# Guess:    a LIMIT of a query with a join returns that many rows if the join has them.
# Happens:  with several partitions and datafusion.optimizer.prefer_hash_join = false, the join's output has the order of its key, so
#           the sort above is removed and its limit is copied to the sorts below both sides. Each side is cut to its first rows before
#           they are joined. Inner joins and semi-joins (IN) return too few rows, or none, without an error. One partition is right.
# Versions: datafusion 55.0.0 (Python); DataFusion 55.2.0 has the same (ensure_requirements/enforce_sorting/sort_pushdown.rs).
# Source:   crates/datafusion/src/rule/merge_sides.rs of Annulus.
set -euo pipefail
d=$(mktemp -d); trap 'rm -rf "$d"' EXIT; cd "$d"
python3 -m venv v && v/bin/pip install -q datafusion==55.0.0 pyarrow==26.0.1
v/bin/python - <<'PY'
import datafusion
print("datafusion", datafusion.__version__)
found = {}
for partitions in (1, 2):
    config = datafusion.SessionConfig().with_target_partitions(partitions)
    context = datafusion.SessionContext(config.set("datafusion.optimizer.prefer_hash_join", "false"))
    context.sql("CREATE TABLE t AS SELECT value AS x FROM range(1000)").collect()
    context.sql("CREATE TABLE u AS SELECT value + 500 AS k FROM range(100000)").collect()
    for name, query in [("inner join", "SELECT t.x, u.k FROM t JOIN u ON t.x = u.k ORDER BY 1, 2 LIMIT 10"),
                        ("IN", "SELECT x FROM t WHERE x IN (SELECT k FROM u) ORDER BY 1 LIMIT 10")]:
        found[name, partitions] = sum(batch.num_rows for batch in context.sql(query).collect())
        print(f"{name}, {partitions} partitions: {found[name, partitions]} of 10 rows")
if any(rows != (10 if partitions == 1 else 0) for (_, partitions), rows in found.items()):
    raise SystemExit("the behaviour has changed")
PY
