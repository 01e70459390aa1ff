"""Runs queries with the Python package of Annulus, as lines of JSON ask for them: annulus_queries.py SETTINGS.

SETTINGS is an object with the folder of the package (`package`), the folder of the tables (`tables`), the number of `threads`,
and the `memory` limit in bytes or null. A request has the query's text (`sql`) and a file for the `answer`, in Arrow's IPC format.
"""

import json
import sys
import time
from pathlib import Path


def connect(settings):
    sys.path.insert(0, settings["package"])
    import annulus_data

    session = annulus_data.Session(threads=settings["threads"], memory_limit=settings["memory"], progress=False)
    for table in Path(settings["tables"]).iterdir():
        session.register(table.name, session.read(table))
    return session, annulus_data.AnnulusError


def run(session, errors, request):
    start = time.monotonic()
    try:
        answer = session.sql(request["sql"]).to_arrow()
    except errors as error:
        return {"error": str(error).splitlines()[0]}
    ms = (time.monotonic() - start) * 1e3
    import pyarrow.ipc

    with pyarrow.ipc.new_file(request["answer"], answer.schema) as file:
        file.write_table(answer)
    return {"ms": ms, "rows": answer.num_rows, "error": None}


def main():
    session, errors = connect(json.loads(sys.argv[1]))
    for line in sys.stdin:
        print(json.dumps(run(session, errors, json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
