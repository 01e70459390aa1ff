"""Runs queries on DuckDB, as lines of JSON ask for them: duckdb_queries.py SETTINGS.

SETTINGS is an object with the folder of the tables (`tables`), the number of `threads`, the `memory` limit in bytes or null,
and a folder to spill to (`spill`). A request has the query's text (`sql`) and a file for the `answer`, in Arrow's IPC format.
"""

import json
import sys
from pathlib import Path

import duckdb
from serving import answered, serve


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
    return answered(request, lambda: connection.sql(request["sql"]).to_arrow_table(), duckdb.Error)


def main():
    connection = connect(json.loads(sys.argv[1]))
    serve(lambda request: run(connection, request))


if __name__ == "__main__":
    main()
