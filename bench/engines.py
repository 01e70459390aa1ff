"""Engines that answer queries in processes of their own, one at a time, as lines of JSON ask for them."""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
# The time that a process has to end by itself: it removes what it spilled.
GRACE = 10


class Failure(Exception):
    """The process has ended, or has not answered in time."""


def peak_mb(pid):
    """The most memory that a process had resident, if it still runs."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:")), None)


def second_answer(program, tables, threads, load, query):
    """The time, the values and the peak memory of a query of one row with `annulus sql`, which runs a second time when its first
    answer is there. `tables` are the files of tables, and `load` are the statements before."""
    options = [option for name, file in tables.items() for option in ("--table", f"{name}={file}")]
    cpus = sorted(os.sched_getaffinity(0))[:threads]
    command = [program, "sql", *options, "--threads", str(threads), "--json", f"{load}{query}; {query}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=lambda: os.sched_setaffinity(0, cpus)) as process:
        first = process.stdout.readline()
        start = time.monotonic()
        second = process.stdout.readline()
        seconds = time.monotonic() - start
        peak = peak_mb(process.pid)
    if not second:
        sys.exit(f"{query}: no answer")
    first, second = (list(json.loads(line)[0].values()) for line in (first, second))
    return {"seconds": seconds, "first": first, "answer": second, "peak_mb": peak}


class Child:
    """A process that answers each line of JSON with another one. It may use `threads` CPUs."""

    def __init__(self, command, threads):
        cpus = sorted(os.sched_getaffinity(0))[:threads]
        # Ctrl-C is for this script alone, which then ends its children.
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
                                        preexec_fn=lambda: os.sched_setaffinity(0, cpus))
        self.rest = b""

    def read(self, timeout=None):
        """The next line."""
        end = None if timeout is None else time.monotonic() + timeout
        while b"\n" not in self.rest:
            left = None if end is None else max(0.0, end - time.monotonic())
            if not select.select([self.process.stdout], [], [], left)[0]:
                raise Failure(f"no answer within {timeout:g} s")
            part = os.read(self.process.stdout.fileno(), 1 << 16)
            if not part:
                code = self.process.wait()
                raise Failure(f"killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}")
            self.rest += part
        line, _, self.rest = self.rest.partition(b"\n")
        return json.loads(line)

    def ask(self, request, timeout):
        """The answer to a request, with the CPU time that it took and the most memory that the process had resident."""
        before = self.cpu()
        self.reset_peak()
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.flush()
        reply = self.read(timeout)
        return {**reply, "cpu_s": self.cpu() - before, "peak_mb": self.peak_mb()}

    def cpu(self):
        """Seconds on cores."""
        try:
            # The name, in brackets, may have spaces.
            fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / TICKS

    def reset_peak(self):
        """Starts the count of the peak again. Where that is not allowed, it is that of the process since its start."""
        with contextlib.suppress(OSError):
            Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")

    def peak_mb(self):
        return peak_mb(self.process.pid)

    def end(self):
        """Ends the process. It has time to remove its files."""
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        try:
            self.process.terminate()
            self.process.wait(GRACE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


class Engine:
    """An engine whose process is started again when it is lost."""

    def __init__(self, name, command, threads, timeout):
        self.name, self.command, self.threads, self.timeout = name, command, threads, timeout
        self.child = None

    def start(self):
        """Starts the process."""
        self.child = Child(self.command, self.threads)

    def request(self, query, witness):
        """What to ask for."""
        raise NotImplementedError

    def run(self, query, witness, answer):
        """Runs a query. Returns its time in `ms`, or an `error`."""
        try:
            if self.child is None:
                self.start()
            reply = self.child.ask({**self.request(query, witness), "answer": str(answer)}, self.timeout)
        except Failure as failure:
            self.end()
            return {"error": str(failure), "peak_mb": None}
        return reply

    def end(self):
        if self.child is not None:
            self.child.end()
            self.child = None


class Annulus(Engine):
    """`annulus`, as stock DataFusion or in one of its ways."""

    def start(self):
        """Starts the process. Returns the queries that it offers. The tables may have to be generated first."""
        super().start()
        return self.child.read()["queries"]

    def request(self, query, witness):
        return {"query": query["query"], "witness": witness}


class Script(Engine):
    """An engine that a script of this folder runs, in a process of the virtual environment."""

    script = None

    def __init__(self, name, settings, threads, timeout):
        script = Path(__file__).with_name(self.script)
        super().__init__(name, [sys.executable, "-B", str(script), json.dumps(settings)], threads, timeout)

    def request(self, query, witness):
        return {"sql": query["witness"]["sql"] if witness else query["sql"]}


class DuckDB(Script):
    """DuckDB."""

    script = "duckdb_queries.py"


class AnnulusPython(Script):
    """The Python package of Annulus."""

    script = "annulus_queries.py"


class Polars(Script):
    """Polars."""

    script = "polars_queries.py"

    def request(self, query, witness):
        return {"query": query["query"]}
