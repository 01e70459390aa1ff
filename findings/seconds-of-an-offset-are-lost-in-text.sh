#!/usr/bin/env bash
# Guess:    a time with a zone, written to CSV with its offset, is the same instant when it is read.
# Happens:  before zones had whole minutes their offsets had seconds (Kathmandu had +05:41:16 until 1920). PyArrow and Polars write the clock
#           of that offset, and then +0541. Read again, by PyArrow itself, the instant is 16 seconds off. The same in Polars' JSON.
# Versions: PyArrow 26.0.1, Polars 2.1.0.
# Source:   bench/fuzz/roundtrip of Annulus, seed 1, cases 464 and 503. RFC 3339 and ISO 8601 have no seconds in offsets.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check polars==2.1.0 pyarrow==26.0.1 tzdata==2026.6
cd "$folder"
"$folder/venv/bin/python" - <<'PY'
import pyarrow, pyarrow.csv, polars
print("PyArrow", pyarrow.__version__, "Polars", polars.__version__)
rows = pyarrow.table({"t": pyarrow.array([-3_000_000_000], pyarrow.timestamp("s", "Asia/Kathmandu"))})
pyarrow.csv.write_csv(rows, "t.csv")
print(open("t.csv").read(), polars.from_arrow(rows).write_csv(), polars.from_arrow(rows).write_ndjson())
types = pyarrow.csv.ConvertOptions(column_types={"t": pyarrow.timestamp("s", "UTC")})
read = pyarrow.csv.read_csv("t.csv", convert_options=types)["t"].cast(pyarrow.int64()).to_pylist()
print("written -3000000000, read", read)
assert read == [-2_999_999_984], "PyArrow keeps the seconds now"
assert "+0541" in polars.from_arrow(rows).write_csv(), "Polars writes something else now"
PY
