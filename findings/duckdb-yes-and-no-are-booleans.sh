#!/usr/bin/env bash
# Guess:    a CSV column of Yes and No, or of the country code NO, is text: DuckDB's sniffer takes true and false alone for booleans.
# Happens:  the column becomes BOOLEAN, so that Norway is false, and the spelling is lost. A column that has SE beside NO stays text, so the
#           type of a code depends on the other rows of the file.
# Versions: DuckDB 2.0.1.
# Source:   the file penguins-raw.csv of the package palmerpenguins 0.1.6, whose column "Clutch Completion" has Yes and No.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check duckdb==2.0.1
cd "$folder"
"$folder/venv/bin/python" - <<'PY'
import duckdb

def values(text):
    with open("t.csv", "w") as file:
        file.write(text)
    return [row[1] for row in duckdb.sql("FROM 't.csv' ORDER BY id").fetchall()]

print("DuckDB", duckdb.__version__)
answers, norway, both = values("id,answer\n1,Yes\n2,No\n"), values("id,country\n1,NO\n2,NO\n"), values("id,country\n1,NO\n2,SE\n")
print("Yes, No:", answers, " NO, NO:", norway, " NO, SE:", both)
assert answers == [True, False] and norway == [False, False] and both == ["NO", "SE"], "the behaviour has changed"
PY
