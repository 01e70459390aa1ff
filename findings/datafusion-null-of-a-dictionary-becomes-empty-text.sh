#!/usr/bin/env bash
# Guess:    CAST(d AS VARCHAR) of a null is null, also if the null is a value of a dictionary rather than a key.
# Happens:  it is an empty text, because VARCHAR is a text view in DataFusion, and arrow-rs makes views of a dictionary by its keys alone.
#           Casts to Utf8 and LargeUtf8 are null.
# Versions: DataFusion 55.0.0 (arrow-rs 59); PyArrow 26.0.1 makes the dictionary, and casts it to null.
# Source:   met while testing NOT IN over dictionaries (crates/datafusion/tests/subqueries.rs of Annulus).
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check datafusion==55.0.0 pyarrow==26.0.1
"$folder/venv/bin/python" - <<'PY'
import datafusion, pyarrow
print("DataFusion", datafusion.__version__, "PyArrow", pyarrow.__version__)
texts = pyarrow.DictionaryArray.from_arrays(pyarrow.array([0, 1, None], pyarrow.int32()), pyarrow.array(["a", None]))
assert texts.cast(pyarrow.string()).to_pylist() == ["a", None, None]
session = datafusion.SessionContext()
session.register_record_batches("t", [[pyarrow.record_batch([texts], names=["d"])]])
sql = "SELECT d IS NULL AS is_null, arrow_cast(d, 'Utf8') AS utf8, CAST(d AS VARCHAR) AS varchar FROM t"
rows = [row for batch in session.sql(sql).collect() for row in batch.to_pylist()]
print(*rows, sep="\n")
assert [row["is_null"] for row in rows] == [False, True, True]
assert [row["utf8"] for row in rows] == ["a", None, None]
assert [row["varchar"] for row in rows] == ["a", "", None]
PY
