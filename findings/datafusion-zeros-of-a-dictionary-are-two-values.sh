#!/usr/bin/env bash
# Guess:    the encoding of a column does not change what its values are equal to: 0.0 = -0.0 in a dictionary of doubles as well.
# Happens:  in a plain column of doubles DataFusion takes one zero for the other, in filters, groups and joins; in a dictionary of
#           doubles it compares and hashes them by their bits. A column of pandas categories finds other rows than the same column
#           without them.
# Versions: DataFusion 55.0.0 (Python), PyArrow 26.0.1.
# Source:   bench/fuzz/roundtrip of Annulus, seed 44, case 25627.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check datafusion==55.0.0 pyarrow==26.0.1
cd "$folder"
"$folder/venv/bin/python" - <<'PY'
import datafusion, pyarrow
print("DataFusion", datafusion.__version__)
plain = pyarrow.array([0.0, -0.0, 1.0])
found = {}
for name, values in (("plain", plain), ("dictionary", plain.dictionary_encode())):
    context = datafusion.SessionContext()
    context.register_record_batches("t", [pyarrow.table({"x": values}).to_batches()])
    counts = ("t WHERE x = 0.0", "(SELECT DISTINCT x FROM t)", "t a JOIN t b ON a.x = b.x")
    found[name] = [context.sql(f"SELECT count(*) AS n FROM {rows}").to_pydict()["n"][0] for rows in counts]
print(found)
assert found == {"plain": [2, 2, 5], "dictionary": [1, 3, 3]}, "DataFusion does something else now"
PY
