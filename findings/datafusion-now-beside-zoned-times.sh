#!/usr/bin/env bash
# Guess:    a time with a zone that lies an hour ahead is not before now().
# Happens:  without a session time zone, now() is UTC without a zone; beside a column of New York, DataFusion takes it for New York's wall clock, hours
#           later. So the time ahead is in the past, and a time of an hour ago in Tokyo is in the future. DuckDB compares instants.
# Versions: DataFusion 55.0.0, DuckDB 2.0.1.
# Source:   met while comparing times with and without a zone; temporal_coercion_nonstrict_timezone gives a time without a zone the other's.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check duckdb==2.0.1 datafusion==55.0.0 pyarrow==26.0.1 pytz
"$folder/venv/bin/python" - <<'PY'
import datetime
import datafusion, duckdb, pyarrow as pa
print("DataFusion", datafusion.__version__, "DuckDB", duckdb.__version__)
now, hour = datetime.datetime.now(datetime.timezone.utc), datetime.timedelta(hours=1)
times = pa.table({"ahead": pa.array([now + hour], pa.timestamp("us", "America/New_York")),
                  "ago": pa.array([now - hour], pa.timestamp("us", "Asia/Tokyo"))})
session = datafusion.SessionContext()
session.register_record_batches("t", [times.to_batches()])
sql = "SELECT ahead < now() AS ahead_is_past, ago < now() AS ago_is_past FROM "
ours = session.sql(sql + "t").to_pydict()
theirs = duckdb.sql(sql + "times").fetchall()
print("DataFusion:", ours, "DuckDB:", theirs)
assert ours == {"ahead_is_past": [True], "ago_is_past": [False]} and theirs == [(False, True)]
PY
