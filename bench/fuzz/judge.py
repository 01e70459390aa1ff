"""Runs a case on both engines."""

import tempfile
import time
import zlib
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import pyarrow.ipc

import known
from compare import difference, same_rows
from engines import Engine

# What a case can come to. Refusals for memory, and queries that one of the engines cannot run, prove nothing.
EQUAL, REFUSED, INCOMPARABLE, KNOWN, FAILED = "equal", "refused", "not comparable", "known", "failed"


# Larger answers would take most of the time.
MOST_ROWS = 20_000
# The CPUs of a process of Annulus.
THREADS = 2


@dataclass
class Verdict:
    word: str
    why: str = ""
    operators: dict = field(default_factory=dict)


class Annulus(Engine):
    """The process that answers each query in a session of its own."""

    def request(self, query, witness):
        return query


class Judge:
    """Two engines, and a folder within `folder` for the tables and answers. One thread uses it."""

    def __init__(self, program, folder, timeout, workers=0):
        self.folder, self.workers = Path(tempfile.mkdtemp(dir=folder)), workers
        self.engine = Annulus("annulus", [program, f"--workers={workers}"], THREADS, timeout)
        self.duckdb = duckdb.connect()
        self.duckdb.execute("SET threads = 1; SET enable_progress_bar = false; SET TimeZone = 'UTC'")
        self.tables = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.engine.end()
        self.duckdb.close()

    def path(self, name):
        """The file of a table."""
        return self.folder / f"{name}.parquet"

    def load(self, tables):
        """Writes the tables, for both engines."""
        if tables is self.tables:
            return
        for name, table in tables.items():
            path = self.path(name)
            table.write(path)
            self.duckdb.execute(f"CREATE OR REPLACE VIEW {name} AS SELECT * FROM read_parquet('{path}')")
        self.tables = tables

    def ask(self, case, stock=False, limited=True):
        """The answer of Annulus or of stock DataFusion, or none, and the reply."""
        tables = {name: {"path": str(self.path(name)), "batches": None if self.workers else table.batches, "order": table.order}
                  for name, table in case.tables.items()}
        request = {"tables": tables, "sql": case.query.sql(), **case.session.request(stock, limited)}
        if self.workers and not stock:
            # Half of the queries, by their texts, run all joins around a ring that can.
            around = "always" if zlib.crc32(request["sql"].encode()) % 2 else "auto"
            tiny = {"distributed.file_scan_config_bytes_per_partition": "1"}
            request["settings"] |= {"annulus.cyclo_join": around, **tiny}
        reply = {"refused": False, "operators": {}, "leaked_bytes": 0} | self.engine.run(request, False, self.folder / "answer")
        if reply["error"]:
            return None, reply
        # Not mapped: the next answer has the same file.
        with pyarrow.ipc.open_stream((self.folder / "answer").read_bytes()) as stream:
            return stream.read_all(), reply

    def judge(self, case):
        self.load(case.tables)
        try:
            expected = self.duckdb.sql(case.query.reference()).to_arrow_table()
        except duckdb.Error as error:
            return Verdict(INCOMPARABLE, f"DuckDB: {str(error).splitlines()[0]}")
        if expected.num_rows > MOST_ROWS:
            return Verdict(INCOMPARABLE, f"the answer has more than {MOST_ROWS} rows")
        found, reply = self.ask(case)
        operators = reply["operators"]
        if reply["leaked_bytes"]:
            return Verdict(FAILED, f"{reply['leaked_bytes']} bytes of memory are reserved after the query", operators)
        if reply["refused"]:
            return Verdict(REFUSED, reply["error"], operators) if case.session.memory else Verdict(FAILED, reply["error"])
        why = reply["error"] or difference(case.query, expected, found)
        if why is None:
            return Verdict(EQUAL, operators=operators)
        if case.session.memory and self.nested_loops_fail(case, expected):
            return Verdict(KNOWN, known.NESTED_LOOPS, operators)
        failure = known.sort_merge_reason(reply["error"] or "", operators)
        if failure:
            return Verdict(KNOWN, failure, operators)
        # Where DataFusion alone does the same, it is its own.
        began = time.monotonic()
        theirs, reply = self.ask(case, stock=True, limited=found is None)
        if found is None:
            if reply["error"] and known.cannot_plan(why) and known.cannot_plan(reply["error"]):
                return Verdict(INCOMPARABLE, f"DataFusion: {why!r}")
            if why.startswith("no answer within") and time.monotonic() - began > self.engine.timeout / 4:
                return Verdict(INCOMPARABLE, f"{why}, and DataFusion alone takes at least a quarter of that")
            own = bool(reply["error"])
        else:
            own = theirs is not None and same_rows(case.query, theirs, found)
        if own:
            reason = known.reason(case)
            if reason:
                return Verdict(KNOWN, reason, operators)
        return Verdict(FAILED, f"{why}{' (DataFusion without Annulus does the same)' if own else ''}", operators)

    def nested_loops_fail(self, case, expected):
        """Whether the plan has DataFusion's nested-loops join, and the answer is right with enough memory."""
        found, reply = self.ask(case, limited=False)
        has_it = found is not None and "NestedLoopJoinExec" in reply["operators"]
        return has_it and difference(case.query, expected, found) is None
