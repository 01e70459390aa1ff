#!/usr/bin/env bash
# DataFusion 55: COPY that fails leaves a file that looks complete, in place of the one that was there.
#
# Guess:    a query that ends with an error leaves no file, or what was there before.
# Happens:  the rows that came before the error are written, and the file is ended as if there were no more: a Parquet file has its
#           footer. Readers get a part of the rows without a word, also from INSERT INTO a folder. CSV and JSON are the same.
# Versions: datafusion 55.0.0 (Python); DataFusion 55.2.0 has the same.
# Source:   crates/datafusion/src/whole_files.rs of Annulus.
set -euo pipefail
d=$(mktemp -d); trap 'rm -rf "$d"' EXIT; cd "$d"
python3 -m venv v && v/bin/pip install -q datafusion==55.0.0 pyarrow==26.0.1
v/bin/python - <<'PY'
import datafusion
import pyarrow.parquet
print("datafusion", datafusion.__version__)
context = datafusion.SessionContext(datafusion.SessionConfig().with_target_partitions(1))

def copy(rows):
    try:
        context.sql(f"COPY ({rows}) TO 't.parquet'").collect()
        return "written"
    except Exception as error:
        return str(error)

whole = copy("SELECT value AS x FROM range(0, 100000)")
before = pyarrow.parquet.read_metadata("t.parquet").num_rows
failed = copy("SELECT 1 / (value - 90000) AS x FROM range(0, 100000)")
after = pyarrow.parquet.read_metadata("t.parquet").num_rows
print("first COPY:", whole, "-", before, "rows in the file")
print("second COPY:", failed, "-", after, "rows in the file")
if whole != "written" or before != 100000 or "Divide by zero" not in failed or not 0 < after < 90000:
    raise SystemExit("the behaviour has changed")
PY
