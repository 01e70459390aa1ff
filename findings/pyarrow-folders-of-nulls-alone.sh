#!/usr/bin/env bash
# Guess:    what pyarrow.dataset writes in folders by value, pyarrow.dataset reads.
# Happens:  if all keys are null, it writes k=__HIVE_DEFAULT_PARTITION__ and then says "No non-null segments were available for field 'k';
#           couldn't infer type". One more row with a key, and both are read. With no rows it writes nothing at all, not even the folder.
# Versions: PyArrow 26.0.1.
# Source:   bench/fuzz/roundtrip of Annulus, seed 1, cases 173 and 222.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check pyarrow==26.0.1
cd "$folder"
"$folder/venv/bin/python" - <<'PY'
import os, pyarrow, pyarrow.dataset as dataset
print("PyArrow", pyarrow.__version__)
def write(keys, name):
    rows = pyarrow.table({"id": pyarrow.array(range(len(keys)), pyarrow.int64()), "k": pyarrow.array(keys, pyarrow.string())})
    dataset.write_dataset(rows, name, format="parquet", partitioning=["k"], partitioning_flavor="hive")
write([None, "a"], "some")
assert sorted(map(str, dataset.dataset("some", partitioning="hive").to_table()["k"].to_pylist())) == ["None", "a"]
write([None, None], "nulls")
try:
    dataset.dataset("nulls", partitioning="hive")
    raise SystemExit("PyArrow reads it now")
except pyarrow.ArrowInvalid as error:
    print("PyArrow:", error)
write([], "none")
assert not os.path.exists("none"), "PyArrow writes a folder now"
PY
