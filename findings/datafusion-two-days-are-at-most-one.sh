#!/usr/bin/env bash
# Guess:    a difference of timestamps of two days is more than INTERVAL '1 day'.
# Happens:  DataFusion compares it as an interval of 0 days and 48 hours, and intervals by their months, then days, then nanoseconds: it is less.
#           DuckDB says that it is more, with a day of 24 hours.
# Versions: DataFusion 55.0.0, DuckDB 2.0.1.
# Source:   met while comparing joins by bands of times; arrow orders IntervalMonthDayNano by its fields.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check duckdb==2.0.1 datafusion==55.0.0 pyarrow==26.0.1
"$folder/venv/bin/python" - <<'PY'
import datafusion, duckdb
print("DataFusion", datafusion.__version__, "DuckDB", duckdb.__version__)
sql = "SELECT TIMESTAMP '2025-01-03 00:00:00' - TIMESTAMP '2025-01-01 00:00:00' <= INTERVAL '1 day' AS short"
ours = datafusion.SessionContext().sql(sql).to_pydict()["short"]
theirs = [row[0] for row in duckdb.sql(sql).fetchall()]
print(sql, "-> DataFusion:", ours, "DuckDB:", theirs)
assert ours == [True] and theirs == [False]
PY
