#!/usr/bin/env bash
# Guess:    read_json, which has 128-bit integers and decimals at hand, reads a number of 38 digits that DuckDB wrote as a HUGEINT, a DECIMAL,
#           or a text; read_csv does not lose its digits either.
# Happens:  read_json infers DOUBLE: 99999999999999999999999999999999999999 becomes 1e38, and 123456789012345678.25 becomes
#           123456789012345680.0. For 2**64, too, the first integer beyond UBIGINT.
# Versions: DuckDB 2.0.1.
# Source:   bench/fuzz/roundtrip of Annulus, seed 1, case 608.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check duckdb==2.0.1
cd "$folder"
"$folder/venv/bin/python" - <<'PY'
import duckdb
print("DuckDB", duckdb.__version__)
for text, kind in (("9" * 38, "DECIMAL(38, 0)"), ("123456789012345678.25", "DECIMAL(20, 2)"), (str(2**64), "HUGEINT")):
    duckdb.sql(f"COPY (SELECT '{text}'::{kind} AS d) TO 'd.json'")
    found = duckdb.sql("SELECT d, typeof(d) FROM 'd.json'").fetchall()
    print(open("d.json").read().strip(), "is read as", found)
    assert found == [(float(text), "DOUBLE")], "DuckDB infers another type now"
PY
