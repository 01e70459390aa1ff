#!/usr/bin/env bash
# Guess:    Polars gives null and the text __HIVE_DEFAULT_PARTITION__ folders of their own, or writes both to one folder in two files.
# Happens:  both get the folder k=__HIVE_DEFAULT_PARTITION__ and the same name of a file in it, so that the one that is written last
#           stays: a row is gone, without a message.
# Versions: Polars 2.1.0.
# Source:   bench/fuzz/roundtrip of Annulus, seed 44, case 5677.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check polars==2.1.0
cd "$folder"
"$folder/venv/bin/python" - <<'PY'
import pathlib
import polars
print("Polars", polars.__version__)
rows = polars.DataFrame({"i": [0, 1, 2], "k": ["__HIVE_DEFAULT_PARTITION__", None, "x"]})
rows.write_parquet("folders/", partition_by="k", mkdir=True)
files = sorted(str(path) for path in pathlib.Path("folders").rglob("*.parquet"))
found = sum(polars.read_parquet(path, hive_partitioning=False).height for path in files)
print(files, found, "rows of", rows.height)
assert (len(files), found) == (2, 2), "Polars does something else now"
PY
