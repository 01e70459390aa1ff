#!/usr/bin/env bash
# Guess:    PARTITIONED BY ("k") and PARTITIONED BY (k) mean the same column, as everywhere else in SQL; the quotes are for names such as "Kind".
# Happens:  the quotes are a part of the name: COPY says that there is no field """k""", and CREATE EXTERNAL TABLE that the folders say ["k"] and
#           the statement ["\"k\""]. With k alone both work, so that a column named "a b" cannot be a folder.
# Versions: DataFusion 55.0.0 (Python).
# Source:   bench/fuzz/roundtrip of Annulus.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check datafusion==55.0.0 pyarrow==26.0.1
cd "$folder"
"$folder/venv/bin/python" - <<'PY'
import datafusion, pyarrow
print("DataFusion", datafusion.__version__)
context = datafusion.SessionContext()
context.from_arrow(pyarrow.table({"id": [1, 2], "k": ["a", "b"]}), name="t")
context.sql("COPY (SELECT * FROM t) TO 'd/' STORED AS PARQUET PARTITIONED BY (k)").collect()
for statement in ("COPY (SELECT * FROM t) TO 'e/' STORED AS PARQUET PARTITIONED BY (\"k\")",
                  "CREATE EXTERNAL TABLE x STORED AS PARQUET PARTITIONED BY (\"k\") LOCATION 'd/'"):
    try:
        context.sql(statement).collect()
        raise SystemExit("DataFusion takes the quotes off now")
    except Exception as error:
        print(statement, "->", error)
        assert '"k' in str(error)
PY
