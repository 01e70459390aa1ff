#!/usr/bin/env bash
# Guess:    the path of a file that exists means that file, whatever characters its name has.
# Happens:  read as 'a?b.csv', the file of that name comes with the rows of 'axb.csv', in DuckDB, Polars and DataFusion, without a word.
#           A file 'q[1].csv' is not found by Polars and DataFusion, as no name matches; DuckDB then takes the text for a name.
# Versions: DuckDB 2.0.1, Polars 2.1.0, DataFusion 55.0.0; PyArrow 26.0.1 reads the one file.
# Source:   tried with names that file systems allow; glob=False of polars.scan_csv reads the one file.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check datafusion==55.0.0 duckdb==2.0.1 polars==2.1.0 pyarrow==26.0.1
cd "$folder"
printf 'a\n1\n' >'a?b.csv'
printf 'a\n2\n' >axb.csv
printf 'a\n3\n' >'q[1].csv'
"$folder/venv/bin/python" - <<'PY'
import datafusion, duckdb, polars, pyarrow.csv

def by_datafusion(path):
    context = datafusion.SessionContext()
    context.register_csv("t", path)
    return context.sql("SELECT a FROM t").to_pydict()["a"]

readers = {
    "DuckDB " + duckdb.__version__: lambda path: [a for a, in duckdb.sql(f"FROM '{path}'").fetchall()],
    "Polars " + polars.__version__: lambda path: polars.read_csv(path)["a"].to_list(),
    "DataFusion " + datafusion.__version__: by_datafusion,
    "PyArrow " + pyarrow.__version__: lambda path: pyarrow.csv.read_csv(path)["a"].to_pylist(),
}
def read(reader, path):
    try:
        return sorted(reader(path))
    except Exception as error:
        return type(error).__name__

found = {name: (read(reader, "a?b.csv"), read(reader, "q[1].csv")) for name, reader in readers.items()}
for name, rows in found.items():
    print(name, "a?b.csv:", rows[0], "q[1].csv:", rows[1])
patterns, brackets = zip(*found.values())
assert patterns == ([1, 2], [1, 2], [1, 2], [1]), patterns
assert brackets[0] == brackets[3] == [3] and isinstance(brackets[1], str) and isinstance(brackets[2], str), brackets
PY
