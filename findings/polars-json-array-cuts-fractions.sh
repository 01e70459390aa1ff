#!/usr/bin/env bash
# Guess:    a fraction in a JSON array, after 100 records with whole numbers, is read as it is or refused by Polars, as in JSON lines.
# Happens:  read_json infers Int64 from the first 100 records and cuts the fraction of 17.5 without a message; read_ndjson refuses the same
#           records ("cannot parse '17.5' (f64) as Int64"). A schema given by the user cuts it as well.
# Versions: Polars 2.1.0.
# Source:   the file cars.json of the npm package vega-datasets 3.2.1, of which 139 values lose their fraction.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check polars==2.1.0
cd "$folder"
"$folder/venv/bin/python" - <<'PY'
import json, polars

rows = [{"x": number} for number in range(100)] + [{"x": 17.5}]
with open("t.json", "w") as file:
    json.dump(rows, file)
with open("t.ndjson", "w") as file:
    file.write("\n".join(map(json.dumps, rows)))
print("Polars", polars.__version__)
table = polars.read_json("t.json")
print("array:", table.schema, table["x"][100])
try:
    lines = polars.read_ndjson("t.ndjson")["x"][100]
except polars.exceptions.ComputeError as error:
    lines = str(error)
print("lines:", lines)
assert table["x"][100] == 17 and "cannot parse" in str(lines), "the behaviour has changed"
PY
