#!/usr/bin/env bash
# DataFusion 55 reads the Parquet column [1.0, NaN, 1.0] as [1.0, 1.0, 1.0].
#
# Guess:    statistics decide which rows are read, never which values they have.
# Happens:  a column whose minimum equals its maximum is not read: the scan fills in the value. Statistics of
#           floats leave NaN out, so NaN is replaced; and both zeros become one. The file's sum and COPY of the
#           table to another file have the wrong value as well.
# Versions: datafusion 55.0.0 (Python); DataFusion 55.2.0: datafusion-datasource-parquet, src/opener/mod.rs,
#           constant_columns_from_stats. Pruning by the same statistics is apache/datafusion#15812.
set -euo pipefail
d=$(mktemp -d); trap 'rm -rf "$d"' EXIT; cd "$d"
python3 -m venv v && v/bin/pip install -q datafusion==55.0.0 pyarrow==26.0.1
v/bin/python - <<'PY'
import datafusion, pyarrow as pa, pyarrow.parquet as pq
pq.write_table(pa.table({"x": [1.0, float("nan"), 1.0]}), "t.parquet")
context = datafusion.SessionContext()
context.register_parquet("t", "t.parquet")
print("datafusion", datafusion.__version__)
found = context.sql("SELECT x FROM t").to_pydict()["x"], context.sql("SELECT sum(x) AS s FROM t").to_pydict()["s"]
print("x is", found[0], "and its sum", found[1])
assert found == ([1.0, 1.0, 1.0], [3.0]), "the behaviour has changed"
PY
