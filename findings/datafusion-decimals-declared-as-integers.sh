#!/usr/bin/env bash
# DataFusion 55: a column that shows 1 in every row, and WHERE c = 1 finds no row.
#
# Guess:    a filter asks about the values that the table shows.
# Happens:  where a table declares fewer digits after the point than its Parquet file has, filters that row groups are pruned by
#           (and, with pushdown_filters, those of rows) ask about the stored value: CAST(c AS BIGINT) = 1 becomes c = 1.0000,
#           though the cast cuts 1.5 to 1. With pruning = false, the filter above the scan finds the rows.
# Versions: datafusion 55.0.0 (Python); DataFusion 55.2.0 has the same.
# Source:   bench/fuzz/files of Annulus; datafusion-physical-expr, src/simplifier/unwrap_cast.rs.
set -euo pipefail
d=$(mktemp -d); trap 'rm -rf "$d"' EXIT; cd "$d"
python3 -m venv v && v/bin/pip install -q datafusion==55.0.0 pyarrow==26.0.1
v/bin/python - <<'PY'
from decimal import Decimal
import datafusion, pyarrow, pyarrow.parquet
pyarrow.parquet.write_table(pyarrow.table({"c": pyarrow.array([Decimal("1.5")] * 3, pyarrow.decimal128(18, 4))}), "d.parquet")
print("datafusion", datafusion.__version__)
found = []
for pruning in ("true", "false"):
    context = datafusion.SessionContext()
    context.sql(f"SET datafusion.execution.parquet.pruning = {pruning}").collect()
    context.sql("CREATE EXTERNAL TABLE t (c BIGINT) STORED AS PARQUET LOCATION 'd.parquet'").collect()
    shown = context.sql("SELECT c FROM t").to_pydict()["c"]
    found.append(context.sql("SELECT count(*) AS n FROM t WHERE c = 1").to_pydict()["n"][0])
    print(f"pruning {pruning}: the table shows {shown}, and {found[-1]} rows have c = 1")
assert found == [0, 3], "the behaviour has changed"
PY
