#!/usr/bin/env bash
# Guess:    Polars, which has no durations of seconds, refuses those that do not fit in milliseconds, as it does casts that overflow.
# Happens:  it multiplies by 1000 and wraps: 2**62 seconds become 0, 2**63 - 1 become -1 s, from a table of Arrow and from an Arrow
#           file, without a message.
# Versions: Polars 2.1.0, PyArrow 26.0.1.
# Source:   bench/fuzz/roundtrip of Annulus, seed 1, case 1124; akin to https://github.com/pola-rs/polars/issues/16057 (open).
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check polars==2.1.0 pyarrow==26.0.1
cd "$folder"
"$folder/venv/bin/python" - <<'PY'
import polars, pyarrow, pyarrow.feather
print("Polars", polars.__version__)
rows = pyarrow.table({"d": pyarrow.array([2**62, 2**63 - 1, 5], pyarrow.duration("s"))})
pyarrow.feather.write_feather(rows, "d.arrow", compression="uncompressed")
for frame in (polars.from_arrow(rows), polars.read_ipc("d.arrow")):
    found = frame["d"].dt.total_milliseconds().to_list()
    print(frame.schema, found)
    assert found == [0, -1000, 5000], "Polars does something else now"
PY
