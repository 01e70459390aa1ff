"""Runs queries on DuckDB, as lines of JSON ask for them: duckdb_queries.py SETTINGS.

SETTINGS is an object with the folder of the tables (`tables`), the number of `threads`, the `memory` limit in bytes or null,
and a folder to spill to (`spill`). A request has the query's text (`sql`) and a file for the `answer`, in Arrow's IPC format.
"""

import json
import sys
import time
from pathlib import Path

import duckdb
import pyarrow.ipc


def connect(settings):
    connection = duckdb.connect()
    connection.execute(f"SET threads = {settings['threads']}")
    connection.execute("SET enable_progress_bar = false")
    connection.execute(f"SET temp_directory = '{settings['spill']}'")
    connection.execute("SET parquet_metadata_cache = true")
    connection.execute("SET preserve_insertion_order = false")
    # As DataFusion has it.
    connection.execute("SET default_null_order = 'nulls_last_on_asc_first_on_desc'")
    connection.execute("SET integer_division = true")
    if settings["memory"]:
        connection.execute(f"SET memory_limit = '{settings['memory'] // 1024} KiB'")
    for table in Path(settings["tables"]).iterdir():
        connection.execute(f"CREATE VIEW {table.name} AS SELECT * FROM read_parquet('{table}/*.parquet')")
    return connection


def run(connection, request):
    start = time.monotonic()
    try:
        answer = connection.sql(request["sql"]).to_arrow_table()
    except duckdb.Error as error:
        return {"error": str(error).splitlines()[0]}
    ms = (time.monotonic() - start) * 1e3
    with pyarrow.ipc.new_file(request["answer"], answer.schema) as file:
        file.write_table(answer)
    return {"ms": ms, "rows": answer.num_rows, "error": None}


def main():
    connection = connect(json.loads(sys.argv[1]))
    for line in sys.stdin:
        print(json.dumps(run(connection, json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
