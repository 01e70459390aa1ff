#!/usr/bin/env bash
# Guess:    a CSV column with the text ١٢ (Arabic digits) is a text column, or the number 12.
# Happens:  the schema is inferred as Int64, and then reading fails: "Error while parsing value '١٢' as type 'Int64'". The inference of arrow-csv takes
#           every digit of Unicode for one of a number (a regular expression with \d), and its parser takes those of ASCII alone.
# Versions: DataFusion 55.0.0 (Python).
# Source:   bench/fuzz/roundtrip of Annulus, seed 1, cases below 400.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check datafusion==55.0.0
cd "$folder"
"$folder/venv/bin/python" - <<'PY'
import datafusion
print("DataFusion", datafusion.__version__)
with open("n.csv", "w", encoding="utf-8") as file:
    file.write("id,n\n0,١٢\n1,7\n")
context = datafusion.SessionContext()
frame = context.read_csv("n.csv")
print(frame.schema())
assert str(frame.schema().field("n").type) == "int64", "DataFusion infers another type now"
try:
    print(frame.to_pydict())
    raise SystemExit("DataFusion reads it now")
except Exception as error:
    print(error)
    assert "Error while parsing value" in str(error)
PY
