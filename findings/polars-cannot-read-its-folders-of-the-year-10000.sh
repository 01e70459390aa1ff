#!/usr/bin/env bash
# Guess:    what Polars writes with partition_by, Polars reads.
# Happens:  the folder of a time in the year 10000 is named +10000-01-01..., and scan_parquet says "could not parse '+10000-01-01
#           00:00:00.000+00:00' with pattern 'DatetimeYMDZ'". The year 9999 is read as it was.
# Versions: Polars 2.1.0.
# Source:   bench/fuzz/roundtrip of Annulus, seed 1, case 1444.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check polars==2.1.0
cd "$folder"
"$folder/venv/bin/python" - <<'PY'
import polars
print("Polars", polars.__version__)
def read(milliseconds, name):
    frame = polars.DataFrame({"id": [1], "k": [milliseconds]}).with_columns(polars.col("k").cast(polars.Datetime("ms", "UTC")))
    frame.write_parquet(name, partition_by="k", mkdir=True)
    return polars.scan_parquet(name, hive_partitioning=True).collect()["k"].cast(polars.Int64).to_list()
print("9999:", read(253_402_300_799_000, "a/"))
try:
    print("10000:", read(253_402_300_800_000, "b/"))
    raise SystemExit("Polars reads it now")
except polars.exceptions.ComputeError as error:
    print("10000:", error)
    assert "could not parse" in str(error)
PY
