#!/usr/bin/env bash
# Guess: a folder k=%5F_HIVE_DEFAULT_PARTITION__, with an escaped character, is a text for every reader of Hive
#        folders, as it is for Hive's own unescaping: only the plain name is null.
# Seen:  DuckDB and DataFusion read the text. pyarrow and Polars decode the escapes first and compare then, so the
#        text is null for them, and no name of a folder gives it. DataFusion reads the plain name as text as well.
# With:  duckdb 2.0.1, pyarrow 26.0.1, polars 2.1.0, datafusion 55.0.0 (Python packages).
set -euo pipefail
d=$(mktemp -d); trap 'rm -rf "$d"' EXIT; cd "$d"
python3 -m venv venv
venv/bin/pip install --quiet duckdb==2.0.1 pyarrow==26.0.1 polars==2.1.0 datafusion==55.0.0
venv/bin/python - <<'PY'
import os
import datafusion, duckdb, polars as pl, pyarrow as pa, pyarrow.dataset as ds, pyarrow.parquet as pq

NULL = "__HIVE_DEFAULT_PARTITION__"
for row, name in enumerate([NULL, "%5F_HIVE_DEFAULT_PARTITION__", "x"]):
    os.makedirs(f"t/k={name}")
    pq.write_table(pa.table({"i": [row]}), f"t/k={name}/part.parquet")

def by_duckdb():
    query = "SELECT i, k FROM read_parquet('t/*/*.parquet', hive_partitioning = true, hive_types = {'k': VARCHAR})"
    return dict(duckdb.execute(query).fetchall())

def by_pyarrow():
    keys = ds.partitioning(pa.schema([("k", pa.string())]), flavor="hive")
    table = ds.dataset("t", format="parquet", partitioning=keys).to_table()
    return dict(zip(table["i"].to_pylist(), table["k"].to_pylist()))

def by_polars():
    scan = pl.scan_parquet("t/*/*.parquet", hive_partitioning=True, hive_schema={"k": pl.String})
    return dict(scan.select("i", "k").collect().rows())

def by_datafusion():
    context = datafusion.SessionContext()
    context.sql("CREATE EXTERNAL TABLE t (i BIGINT, k VARCHAR) STORED AS PARQUET PARTITIONED BY (k) LOCATION 't/'")
    table = context.sql("SELECT i, k FROM t").to_arrow_table()
    return dict(zip(table["i"].to_pylist(), table["k"].to_pylist()))

expected = {
    by_duckdb: {0: None, 1: NULL, 2: "x"},
    by_pyarrow: {0: None, 1: None, 2: "x"},
    by_polars: {0: None, 1: None, 2: "x"},
    by_datafusion: {0: NULL, 1: NULL, 2: "x"},
}
for package in (duckdb, pa, pl, datafusion):
    print(package.__name__, package.__version__)
changed = False
for read, seen in expected.items():
    found = read()
    print(read.__name__, "plain name, escaped name, another:", [found[row] for row in range(3)])
    changed |= found != seen
raise SystemExit(changed)
PY
