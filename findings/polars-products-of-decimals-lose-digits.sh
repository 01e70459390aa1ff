#!/usr/bin/env bash
# Guess:    a product of two decimals of two fractional digits has four: `1.05 * 1.05` is 1.1025, so that sums of money are exact.
# Happens:  Polars gives the product the larger scale of its factors and rounds each value, here to 1.10: a sum over many rows is off
#           by more than its last digit, without a message. DuckDB and pyarrow keep all digits.
# Versions: Polars 2.1.0 (rounds), DuckDB 2.0.1, pyarrow 26.0.1.
# Source:   met while comparing the answers to TPC-H's query 6 on the same Parquet files.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check polars==2.1.0 duckdb==2.0.1 pyarrow==26.0.1
"$folder/venv/bin/python" - "$folder/money.parquet" <<'PY'
import sys
from decimal import Decimal
import duckdb, polars, pyarrow, pyarrow.compute, pyarrow.parquet
print("Polars", polars.__version__, "DuckDB", duckdb.__version__, "pyarrow", pyarrow.__version__)
path = sys.argv[1]
money = pyarrow.decimal128(15, 2)
prices = pyarrow.array([Decimal("1.05")] * 1000, money)
pyarrow.parquet.write_table(pyarrow.table({"price": prices, "factor": prices}), path)
exact = Decimal("1.1025") * 1000
product = polars.col("price") * polars.col("factor")
theirs = polars.scan_parquet(path).select(product.alias("one"), product.sum().alias("sum")).collect()
print("Polars", theirs.schema, theirs.row(0))
other = duckdb.sql(f"SELECT sum(price * factor) FROM '{path}'").fetchall()[0][0]
arrow = pyarrow.compute.sum(pyarrow.compute.multiply(prices, prices)).as_py()
print("DuckDB", other, "pyarrow", arrow)
assert other == exact and arrow == exact
assert theirs["one"].dtype.scale == 2 and theirs["sum"][0] == Decimal("1100.00") != exact
PY
