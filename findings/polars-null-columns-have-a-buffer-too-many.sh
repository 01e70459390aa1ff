#!/usr/bin/env bash
# Guess:    a data frame with a column of nulls alone, which has no type, passes through the Arrow C stream interface.
# Happens:  Polars gives the column one buffer, where the C data interface gives the null layout none. DataFusion's Python package, as
#           everything that reads with arrow-rs, refuses the frame; so it does an empty frame whose columns have no type. pyarrow reads it.
# Versions: Polars 2.1.0, DataFusion 55.0.0; PyArrow 26.0.1.
# Source:   arrow.apache.org/docs/format/Columnar.html, "Buffer Listing for Each Layout": null, no buffers.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check datafusion==55.0.0 polars==2.1.0 pyarrow==26.0.1
"$folder/venv/bin/python" - <<'PY'
import datafusion, polars, pyarrow

def read(frame):
    try:
        return datafusion.SessionContext().from_arrow(frame).to_pydict()
    except Exception as error:
        return str(error)

for values in ([None, None], []):
    frame = polars.DataFrame({"a": values})
    found = read(frame)
    print(values, "Polars", polars.__version__, "to DataFusion", datafusion.__version__, ":", found)
    assert "doesn't expect buffer at index 0" in found, found
    table = pyarrow.table(frame)
    print(values, "by way of pyarrow", pyarrow.__version__, ":", read(table))
    assert read(table) == {"a": values}, read(table)
PY
