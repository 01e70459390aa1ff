"""Workers of this machine that are killed, frozen, ended and started again, and queries on them. `kill` and `rolling` use this."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from shared import CACHE, ROOT, tested

QUERIES = ROOT / "lab" / "command" / "src" / "suites" / "tpch" / "queries"
TABLES = ["lineitem", "orders", "partsupp", "part", "customer", "supplier", "nation", "region"]
# Each worker gets a part of every table, however small it is.
TINY = ["--set", "distributed.file_scan_config_bytes_per_partition=1"]
AROUND = ["--set", "annulus.cyclo_join=always"]
RINGS = {
    "band": "SELECT count(*), sum(l_quantity), max(o_orderdate) FROM lineitem JOIN orders ON l_orderkey BETWEEN o_orderkey - 1 AND o_orderkey + 1",
    "inequality": "SELECT o_orderpriority, count(*) FROM orders JOIN customer ON o_custkey > c_custkey AND o_custkey < c_custkey + 4 "
                  "GROUP BY o_orderpriority ORDER BY 1",
    "keys": "SELECT o_orderstatus, count(*), sum(l_extendedprice) FROM lineitem JOIN orders ON l_orderkey = o_orderkey GROUP BY 1 ORDER BY 1",
}


class Worker:
    """A worker with an address that stays when it is started again."""

    def __init__(self, fleet, number):
        self.fleet, self.folder = fleet, fleet.folder / f"worker-{number}"
        self.folder.mkdir()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        self.log = open(self.folder / "log", "ab")
        self.temporary = self.folder / "tmp"
        self.temporary.mkdir()
        self.start()

    def start(self):
        command = [self.fleet.annulus, "worker", "--listen", self.address, "--allow-read", str(self.fleet.tables)]
        command += ["--silence", str(self.fleet.silence), "--drain", str(self.fleet.drain), "--threads", "2"]
        environment = {**os.environ, "TMPDIR": str(self.temporary)}
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=self.log, env=environment)

    def signal(self, number):
        self.process.send_signal(number)

    def remove(self):
        """Ends the process, which may be frozen."""
        self.process.kill()
        self.process.wait()

    def spilled(self):
        """The files that its process has left in its folder."""
        return [str(path) for path in self.temporary.rglob("*") if path.is_file() and path.name != "lock"]


class Fleet:
    """Workers, and the tables that they read."""

    def __init__(self, args, folder, count):
        self.annulus, self.folder = str(args.annulus or tested()), Path(folder)
        self.silence, self.drain = args.silence, args.drain
        self.tables = tables(args)
        self.workers = [Worker(self, number) for number in range(count)]
        self.wait()

    def list(self):
        return ",".join(worker.address for worker in self.workers)

    def wait(self):
        """Waits until all workers answer."""
        ping = [self.annulus, "worker", "ping", "--workers", self.list(), "--wait", "60"]
        subprocess.run(ping, check=True, stdout=subprocess.DEVNULL)

    def command(self, query, more=(), workers=True):
        command = [self.annulus, "sql", "--format", "csv", *more]
        if workers:
            command += ["--workers", self.list(), "--silence", str(self.silence), *TINY]
        for table in TABLES:
            command += ["-t", f"{table}={self.tables / table}"]
        return [*command, query]

    def begin(self, query, temporary, more=(), workers=True):
        temporary.mkdir(parents=True, exist_ok=True)
        environment = {**os.environ, "TMPDIR": str(temporary)}
        command = self.command(query, more, workers)
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)

    def run(self, query, temporary, more=(), workers=True):
        """The answer of a query that nobody disturbs, and its time."""
        start = time.monotonic()
        process = self.begin(query, temporary, more, workers)
        answer, said = process.communicate()
        if process.returncode != 0:
            sys.exit(f"a query failed though nobody disturbed it: {said}\n{query}")
        return answer_of(answer), time.monotonic() - start

    def busy(self):
        """What workers still have of queries."""
        status = [self.annulus, "worker", "status", "--workers", self.list(), "--json"]
        shown = subprocess.run(status, check=True, capture_output=True, text=True).stdout
        return re.findall(r'"queries":\[[^\]]', shown)

    def end(self):
        for worker in self.workers:
            worker.signal(signal.SIGTERM)
        for worker in self.workers:
            worker.process.wait()
            worker.log.close()


def answer_of(text):
    """The rows in an order of their own: some queries leave the order of equal ones open."""
    head, *rows = text.splitlines()
    return [head, *sorted(rows)]


def tables(args):
    """The tables of TPC-H, generated if they are not there."""
    folder = CACHE / "tpch" / f"sf{args.scale:g}"
    if not (folder / "lineitem").exists():
        lab = str(args.lab or tested().with_name("annulus-lab"))
        make = [lab, "tpch", "--scale", f"{args.scale:g}", "--queries", "6", "--iterations", "1"]
        subprocess.run(make, check=True, stdout=subprocess.DEVNULL)
    return folder


def queries(args):
    """The queries by name, and the options of each."""
    found = {}
    for file in sorted(QUERIES.glob("q*.sql")):
        text = file.read_text().replace(":fraction", f"{0.0001 / args.scale:.10f}")
        found[file.stem] = (text, [])
    for name, text in RINGS.items():
        found[f"ring {name}"] = (text, AROUND)
    chosen = args.queries.split(",") if args.queries else found
    return {name: found[name] for name in chosen}


def options(parser):
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="number that chooses queries, workers and moments [default: 1]")
    parser.add_argument("--scale", type=float, default=0.1, metavar="SF", help="scale factor of TPC-H [default: 0.1]")
    parser.add_argument("--silence", type=float, default=4, metavar="SECONDS", help="silence after which a worker is lost [default: 4]")
    parser.add_argument("--drain", type=float, default=10, metavar="SECONDS", help="time of running queries when a worker ends [default: 10]")
    parser.add_argument("--queries", metavar="NAMES", help="such as q01,q18,'ring band' [default: all of TPC-H, and three ring joins]")
    parser.add_argument("--annulus", metavar="BIN", help="the program [default: what the tests have built]")
    parser.add_argument("--lab", metavar="BIN", help="the laboratory's program, which generates tables [default: likewise]")
