#!/usr/bin/env bash
# DataFusion 55: bytes of a Parquet file that are not UTF-8 become a text.
#
# Guess:    where a column of bytes is declared as VARCHAR, or read with binary_as_string, bytes that are no text are an error.
# Happens:  the reader checks UTF-8 only in columns that the file says are texts. Others become arrays of texts with any bytes,
#           which Rust's str must not have.
# Versions: datafusion 55.0.0 (Python); DataFusion 55.2.0 with parquet 59.3 has the same.
# Source:   bench/fuzz/files of Annulus; parquet, src/arrow/array_reader/byte_array.rs and byte_view_array.rs.
set -euo pipefail
d=$(mktemp -d); trap 'rm -rf "$d"' EXIT; cd "$d"
python3 -m venv v && v/bin/pip install -q datafusion==55.0.0 pyarrow==26.0.1
v/bin/python - <<'PY'
import datafusion, pyarrow, pyarrow.parquet
pyarrow.parquet.write_table(pyarrow.table({"b": [b"ok", b"\xff\xfe"]}), "b.parquet", store_schema=False)
print("datafusion", datafusion.__version__)
context = datafusion.SessionContext()
context.sql("CREATE EXTERNAL TABLE t (b VARCHAR) STORED AS PARQUET LOCATION 'b.parquet'").collect()
batches = context.sql("SELECT b FROM t").collect()
print(batches[0].schema.field(0))
try:
    batches[0].validate(full=True)
except pyarrow.ArrowInvalid as error:
    print("PyArrow:", error)
else:
    raise SystemExit("the behaviour has changed")
PY
