"""Runs the queries of a benchmark on stock DataFusion, on Annulus and on their rivals in turn. `tpch/run` and `tpcds/run` use this."""

import argparse
import contextlib
import json
import os
import random
import signal
import statistics
import sys
import tempfile
from pathlib import Path

import answers
from engines import Annulus, AnnulusPython, DuckDB, Failure, Polars
from shared import CACHE, built, spread

UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
STOCK, ANNULUS, DUCKDB, POLARS, PYTHON = "stock", "annulus", "duckdb", "polars", "python"
# The rivals that know the queries of a benchmark.
RIVALS = {"tpch": [DUCKDB, POLARS], "tpcds": [DUCKDB]}
# The seed of the order in which the engines take turns.
ORDER_SEED = 1


def count(text):
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"invalid count '{text}': expected a number of at least 1")
    return int(text)


def counts(text):
    return [count(part) for part in text.split(",")]


def positive(text):
    try:
        if float(text) > 0:
            return float(text)
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"invalid number '{text}': expected one above 0")


def size(text):
    """A size such as 512M: the text, for `annulus`, and its bytes."""
    digits, unit = (text[:-1], text[-1]) if text[-1:] in UNITS and text[-1:] else (text, "")
    if not digits.isdecimal():
        raise argparse.ArgumentTypeError(f"invalid size '{text}': expected a number with an optional K, M, G or T")
    return text, int(digits) * UNITS[unit]


def parser(description):
    """The options that both benchmarks have."""
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--scale", type=positive, default=1, metavar="SF", help="scale factor (1)")
    made.add_argument("--queries", metavar="LIST", help="such as 1,3-5 (all)")
    made.add_argument("--rounds", type=count, default=5, metavar="N", help="timed runs of each query on each engine (5)")
    made.add_argument("--threads", type=count, default=2, metavar="N", help="threads, and CPUs, of each engine (2)")
    made.add_argument("--partitions", type=counts, default=[2], metavar="LIST", help="DataFusion's target partitions (2)")
    made.add_argument("--way", default="auto", help="what Annulus runs, as in annulus-lab tpch --strategies (auto)")
    made.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="an option of DataFusion or Annulus")
    made.add_argument("--memory-limit", type=size, default=(None, None), metavar="SIZE", help="memory for operators, such as 512M")
    made.add_argument("--timeout", type=positive, default=300, metavar="S", help="the longest run, in seconds (300)")
    made.add_argument("--data", type=Path, metavar="DIR", help="folder of the tables (the cache folder)")
    made.add_argument("--annulus", metavar="BIN", help="the program to measure (built for release)")
    made.add_argument("--python-package", type=Path, metavar="DIR", help="the folder with annulus_data, to run that as well")
    made.add_argument("--json", action="store_true", help="print a line of JSON for each query, and one for the sums")
    return made


def end_at_signals():
    """Makes signals end the script as Ctrl-C does, so that it ends its children and removes its files."""
    def end(number, _):
        raise SystemExit(128 + number)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, end)


def progress(text):
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


class Result:
    """What an engine did with a query."""

    def __init__(self):
        self.ms, self.cpu, self.peak, self.rows, self.failure = [], [], None, None, None

    def add(self, reply, timed):
        if reply.get("peak_mb"):
            self.peak = max(self.peak or 0.0, reply["peak_mb"])
        if reply["error"]:
            self.failure = reply["error"]
            return
        self.rows = reply["rows"]
        if timed:
            self.ms.append(reply["ms"])
            self.cpu.append(reply["cpu_s"])

    @property
    def median(self):
        return statistics.median(self.ms) if self.ms and not self.failure else None

    def report(self):
        done = self.median is not None
        return {
            "ms": round(self.median, 3) if done else None,
            "spread": round(spread(self.ms), 3) if done else None,
            "all_ms": [round(ms, 3) for ms in self.ms] if done else [],
            "cpu_s": round(statistics.median(self.cpu), 3) if done else None,
            "peak_mb": self.peak and round(self.peak, 1),
            "failure": self.failure,
        }


class Benchmark:
    """The engines, and their results by query and engine. DataFusion's engines are named by their partitions as well."""

    def __init__(self, name, arguments, more=()):
        self.name, self.arguments, self.rivals = name, arguments, list(RIVALS[name])
        if arguments.python_package:
            self.rivals.append(PYTHON)
        self.data = arguments.data or CACHE / name
        # As `annulus` writes a number.
        self.scale = f"{arguments.scale:.10f}".rstrip("0").rstrip(".")
        self.tables = self.data / f"sf{self.scale}"
        self.program = arguments.annulus or built("annulus-lab", binary="annulus-lab")
        self.more = list(more)

    def annulus(self, name, way, partitions):
        given = self.arguments
        command = [self.program, self.name, "--scale", self.scale, "--data", str(self.data), "--serve", way,
                   "--target-partitions", str(partitions), *self.more]
        command += ["--queries", given.queries] if given.queries else []
        command += ["--memory-limit", given.memory_limit[0]] if given.memory_limit[0] else []
        command += [part for setting in given.set for part in ("--set", setting)]
        return Annulus((name, partitions), command, given.threads, given.timeout)

    def duckdb(self, spill):
        given = self.arguments
        settings = {"tables": str(self.tables), "threads": given.threads, "memory": given.memory_limit[1], "spill": str(spill)}
        return DuckDB((DUCKDB, None), settings, given.threads, given.timeout)

    def polars(self):
        given = self.arguments
        settings = {"tables": str(self.tables), "threads": given.threads, "scale": given.scale}
        return Polars((POLARS, None), settings, given.threads, given.timeout)

    def python(self):
        given = self.arguments
        settings = {"package": str(given.python_package.resolve()), "tables": str(self.tables), "threads": given.threads,
                    "memory": given.memory_limit[1]}
        return AnnulusPython((PYTHON, None), settings, given.threads, given.timeout)

    def run(self):
        """Runs all rounds. Ends the engines and removes their files, whatever happens."""
        with tempfile.TemporaryDirectory(prefix="annulus-bench-") as folder, contextlib.ExitStack() as running:
            engines = []
            for partitions in self.arguments.partitions:
                engines.append(self.annulus(STOCK, "stock", partitions))
                engines.append(self.annulus(ANNULUS, self.arguments.way, partitions))
            engines.append(self.duckdb(Path(folder)))
            if POLARS in self.rivals:
                engines.append(self.polars())
            if PYTHON in self.rivals:
                engines.append(self.python())
            for engine in engines:
                running.callback(engine.end)
            # The first one generates the tables, if need be, and names the queries.
            try:
                self.queries = [engine.start() for engine in engines][0]
            except Failure as failure:
                # It has said why.
                sys.exit(f"an engine did not start: {failure}")
            self.results = {query["query"]: {engine.name: Result() for engine in engines} for query in self.queries}
            order = random.Random(ORDER_SEED)
            # The first round warms up.
            for number in range(self.arguments.rounds + 1):
                for query in self.queries:
                    # An engine that always followed the same one would find the caches as that leaves them.
                    self.turn(number, query, order.sample(engines, len(engines)), Path(folder))
            progress("")

    def turn(self, number, query, engines, folder):
        """Runs a query once on each engine, and compares the answers with that of stock DataFusion."""
        results = self.results[query["query"]]
        for witness in [False, True] if number == 0 and query["witness"] else [False]:
            order = query["witness"]["order"] if witness else query["order"]
            given = {}
            for engine in engines:
                result = results[engine.name]
                if result.failure:
                    continue
                progress(f"round {number} of {self.arguments.rounds}, query {query['query']}, {engine.name[0]}")
                answer = folder / "-".join(map(str, engine.name))
                reply = engine.run(query, witness, answer)
                if not witness or reply["error"]:
                    result.add(reply, timed=number > 0)
                if not reply["error"]:
                    given[engine.name] = answers.load(answer)
                    answer.unlink()
            reference = min(given, key=lambda name: (name[0] != STOCK, name[0] != ANNULUS), default=None)
            for name, answer in given.items():
                found = answers.difference(given[reference], answer, order)
                if found:
                    whole = ", without LIMIT" if witness else ""
                    results[name].failure = f"the answer is not that of {reference[0]}{whole}: {found}"

    def compared(self, partitions):
        """The results of all engines, by query."""
        names = {STOCK: (STOCK, partitions), ANNULUS: (ANNULUS, partitions), **{name: (name, None) for name in self.rivals}}
        return {number: {name: results[key] for name, key in names.items()} for number, results in self.results.items()}

    def failures(self):
        """A line for each query that an engine did not answer as stock DataFusion does."""
        for number, results in self.results.items():
            for (name, partitions), result in results.items():
                if result.failure:
                    told = f"{name}, {partitions} partitions" if partitions else name
                    yield f"query {number}, {told}: {result.failure.splitlines()[0]}"


def sums(compared):
    """The sums of the times, over the queries that all engines answered, and the number of these."""
    complete = [results for results in compared.values() if all(result.median is not None for result in results.values())]
    names = next(iter(compared.values()), {})
    return {name: sum(results[name].median for results in complete) for name in names}, len(complete)


def ratio(times, name):
    """How many times as long an engine takes as Annulus."""
    ours, theirs = times[ANNULUS], times[name]
    return round(theirs / ours, 3) if ours and theirs else None


def ratios(benchmark, times):
    """How many times as long the others take, by field."""
    return {f"{name}_by_annulus": ratio(times, name) for name in [STOCK, *benchmark.rivals]}


def print_json(benchmark, partitions):
    compared = benchmark.compared(partitions)
    common = {"benchmark": benchmark.name, "scale": benchmark.arguments.scale, "partitions": partitions,
              "threads": benchmark.arguments.threads, "rounds": benchmark.arguments.rounds}
    for number, results in compared.items():
        times = {name: result.median for name, result in results.items()}
        print(json.dumps({
            **common,
            "query": number,
            "rows": next((result.rows for result in results.values() if result.rows is not None), None),
            "engines": {name: result.report() for name, result in results.items()},
            **ratios(benchmark, times),
        }))
    times, complete = sums(compared)
    print(json.dumps({
        **common,
        "query": None,
        "queries": complete,
        "ms": {name: round(ms, 3) for name, ms in times.items()},
        **ratios(benchmark, times),
    }), flush=True)


def cell(value, digits=1):
    return "-" if value is None else f"{value:.{digits}f}"


def print_table(benchmark, partitions):
    given, compared = benchmark.arguments, benchmark.compared(partitions)
    limit = f", memory limit {given.memory_limit[0]}" if given.memory_limit[0] else ""
    print(f"{benchmark.name} at scale {given.scale:g}, {given.threads} threads, {partitions} partitions{limit}: medians of "
          f"{given.rounds} rounds in ms (and spread), and how many times as long the others take as Annulus")
    names, others = [STOCK, ANNULUS, *benchmark.rivals], [STOCK, *benchmark.rivals]
    peaks = " peak MB:" + "".join(f" {name:>9}" for name in names) if given.memory_limit[0] else ""
    heads = "".join(f" {name:>16}" for name in names) + "".join(f" {name:>7}" for name in others)
    print(f"{'query':>5} {'rows':>7}{heads}{peaks}")
    for number, results in compared.items():
        times = {name: result.median for name, result in results.items()}
        cells = [f"{cell(result.median)} ({cell(spread(result.ms), 2)})" if result.median is not None else "failed"
                 for result in results.values()]
        rows = next((result.rows for result in results.values() if result.rows is not None), "-")
        line = f"{number:>5} {rows:>7}" + "".join(f" {one:>16}" for one in cells)
        line += "".join(f" {cell(ratio(times, name), 2):>7}" for name in others)
        if peaks:
            line += " " * 9 + "".join(f" {cell(result.peak, 0):>9}" for result in results.values())
        print(line)
    times, complete = sums(compared)
    cells = [f"{times[name]:.1f}      " for name in names]
    print(f"{'sum':>5} {complete:>7}" + "".join(f" {one:>16}" for one in cells)
          + "".join(f" {cell(ratio(times, name), 2):>7}" for name in others) + f"   (of {complete} queries)\n")


def measure(name, arguments, more=()):
    """Runs a benchmark and prints its results. Exits with 1 if an engine failed or its answer differs."""
    cpus = len(os.sched_getaffinity(0))
    if arguments.threads > cpus:
        sys.exit(f"invalid number of threads '{arguments.threads}': expected at most {cpus}, one for each CPU")
    end_at_signals()
    benchmark = Benchmark(name, arguments, more)
    benchmark.run()
    for partitions in arguments.partitions:
        (print_json if arguments.json else print_table)(benchmark, partitions)
    failures = list(benchmark.failures())
    for line in failures:
        print(line, file=sys.stderr)
    if not failures and not arguments.json:
        print("all answers are equal")
    sys.exit(1 if failures else 0)
