#!/usr/bin/env bash
# DataFusion 55: x IN (0.0, 7, 8) finds -0.0, and x IN (0.0, 7, 8, 9) does not.
#
# Guess:    a longer list finds more rows, and x IN (a, b) is x = a OR x = b.
# Happens:  = takes -0.0 for 0.0. Lists of up to three values become such comparisons; longer ones become a
#           look-up of bits, in which the zeros differ. CASE x WHEN 0.0 and nullif(x, 0.0) compare bits as well.
# Versions: datafusion 55.0.0 (Python); DataFusion 55.2.0 has the same (datafusion-physical-expr,
#           src/expressions/in_list/branchless_filter.rs, test branchless_filter_floats_use_bit_equality).
set -euo pipefail
d=$(mktemp -d); trap 'rm -rf "$d"' EXIT; cd "$d"
python3 -m venv v && v/bin/pip install -q datafusion==55.0.0 pyarrow==26.0.1
v/bin/python - <<'PY'
import datafusion, pyarrow as pa
context = datafusion.SessionContext()
context.register_record_batches("t", [pa.table({"x": [-0.0, 1.0]}).to_batches()])
print("datafusion", datafusion.__version__)
filters = ["x = 0.0", "x IN (0.0, 7.0, 8.0)", "x IN (0.0, 7.0, 8.0, 9.0)", "CASE x WHEN 0.0 THEN true ELSE false END"]
found = [context.sql(f"SELECT count(*) AS n FROM t WHERE {filter}").to_pydict()["n"][0] for filter in filters]
print(dict(zip(filters, found)))
assert found == [1, 1, 0, 0], "the behaviour has changed"
PY
