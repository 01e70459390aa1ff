#!/usr/bin/env bash
# Guess:    a decimal of 0.1 is not equal to the integer 0, however few bits the decimal has.
# Happens:  DataFusion casts a Decimal32 column to BIGINT where the two are compared: 0.1 = 0 and 1.9 = 1. The same values as Decimal128 are not equal.
# Versions: DataFusion 55.0.0, PyArrow 26.0.1.
# Source:   met while comparing all pairs of types; coerce_numeric_type_to_decimal32 has no type for 64-bit integers, so the rule for integers applies.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check datafusion==55.0.0 pyarrow==26.0.1
"$folder/venv/bin/python" - <<'PY'
from decimal import Decimal
import datafusion, pyarrow as pa
print("DataFusion", datafusion.__version__, "PyArrow", pa.__version__)
session = datafusion.SessionContext()
values = [Decimal("0.1"), Decimal("1.9")]
table = pa.table({"narrow": pa.array(values, pa.decimal32(5, 1)), "wide": pa.array(values, pa.decimal128(5, 1)),
                  "i": pa.array([0, 1], pa.int64())})
session.register_record_batches("t", [table.to_batches()])
found = session.sql("SELECT narrow = i AS narrow, wide = i AS wide FROM t").to_pydict()
print(found)
assert found == {"narrow": [True, True], "wide": [False, False]}
PY
