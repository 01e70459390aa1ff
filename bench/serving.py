"""What the scripts that run the queries of an engine share."""

import json
import sys
import time

import pyarrow.ipc


def answered(request, table, errors):
    """Runs `table`, which returns a table of pyarrow, and writes it to the file of the request. Returns the reply."""
    start = time.monotonic()
    try:
        answer = table()
    except errors as error:
        return {"error": str(error).splitlines()[0]}
    ms = (time.monotonic() - start) * 1e3
    with pyarrow.ipc.new_file(request["answer"], answer.schema) as file:
        file.write_table(answer)
    return {"ms": ms, "rows": answer.num_rows, "error": None}


def serve(run):
    """Answers each line of JSON on standard input with what `run` returns for it."""
    for line in sys.stdin:
        print(json.dumps(run(json.loads(line))), flush=True)
