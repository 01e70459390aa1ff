#!/usr/bin/env bash
# Guess:    'link/../x.csv' is the file that the system opens by that path: the one beside the folder to which the link leads.
# Happens:  DataFusion removes 'link/..' from the text first, and reads another file, without an error. Python's open, DuckDB, Polars
#           and PyArrow follow the link.
# Versions: DataFusion 55.0.0 differs; DuckDB 2.0.1, Polars 2.1.0, PyArrow 26.0.1 agree with the system.
# Source:   url_from_filesystem_path in datafusion-datasource 55, src/url.rs: the path becomes a URL, which is parsed again to resolve dots.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check datafusion==55.0.0 duckdb==2.0.1 polars==2.1.0 pyarrow==26.0.1
cd "$folder"
mkdir -p real/deep
ln -s real/deep link
printf 'a\n1\n' >x.csv
printf 'a\n2\n' >real/x.csv
"$folder/venv/bin/python" - <<'PY'
import datafusion, duckdb, polars, pyarrow.csv
path = "link/../x.csv"
context = datafusion.SessionContext()
context.register_csv("t", path)
read = {
    "open": [int(line) for line in open(path).read().split()[1:]],
    "DuckDB " + duckdb.__version__: [a for a, in duckdb.sql(f"FROM '{path}'").fetchall()],
    "Polars " + polars.__version__: polars.read_csv(path)["a"].to_list(),
    "PyArrow " + pyarrow.__version__: pyarrow.csv.read_csv(path)["a"].to_pylist(),
    "DataFusion " + datafusion.__version__: context.sql("SELECT a FROM t").to_pydict()["a"],
}
for name, rows in read.items():
    print(f"{name}: {rows}")
*others, last = read.values()
assert all(rows == [2] for rows in others)
assert last == [1], "DataFusion follows the link now"
PY
