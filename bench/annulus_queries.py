"""Runs queries with the Python package of Annulus, as lines of JSON ask for them: annulus_queries.py SETTINGS.

SETTINGS is an object with the folder of the package (`package`), the folder of the tables (`tables`), the number of `threads`,
and the `memory` limit in bytes or null. A request has the query's text (`sql`) and a file for the `answer`, in Arrow's IPC format.
"""

import json
import sys
from pathlib import Path

from serving import answered, serve


def connect(settings):
    sys.path.insert(0, settings["package"])
    import annulus_data

    session = annulus_data.Session(threads=settings["threads"], memory_limit=settings["memory"], progress=False)
    for table in Path(settings["tables"]).iterdir():
        session.register(table.name, session.read(table))
    return session, annulus_data.AnnulusError


def run(session, errors, request):
    return answered(request, lambda: session.sql(request["sql"]).to_arrow(), errors)


def main():
    session, errors = connect(json.loads(sys.argv[1]))
    serve(lambda request: run(session, errors, request))


if __name__ == "__main__":
    main()
