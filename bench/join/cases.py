"""The cases of `equal`, which runs this in its virtual environment: cases.py ANNULUS FIRST CASES LINK."""

import contextlib
import datetime
import glob
import random
import socket
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path

import duckdb
import pyarrow
import pyarrow.csv
import pyarrow.parquet

TYPES = ["inner", "left", "right", "full", "semi", "anti", "right-semi", "right-anti"]
DUCKDB_JOINS = {"inner": "INNER", "left": "LEFT", "right": "RIGHT", "full": "FULL"}
WORDS = ["", "a", "ab", "abc", "b", "bc", "Ab", "é", "a%", "_b"]
PATTERNS = ["a%", "%b", "_b%", "%", "abc", ""]
START = datetime.datetime(2024, 1, 1)

# What a table consists of; the left side's integers are of another width.
SCHEMAS = [
    pyarrow.schema([("k", key), ("g", pyarrow.string()), ("t", pyarrow.int64()), ("x", key), ("f", pyarrow.float64()),
                    ("ts", pyarrow.timestamp("us")), ("name", pyarrow.string()), ("pattern", pyarrow.string())])
    for key in (pyarrow.int32(), pyarrow.int64())
]

HOSTS = 6
# What a ring's file says of how rows go from machine to machine.
LINKS = {
    "tls": "",
    "tcp": "trusted_network = true",
    "ofi-tcp": "fabric = 'tcp'\ntrusted_network = true",
    "ofi-tcp-sealed": "fabric = 'tcp'",
    "ofi-shm": "fabric = 'shm'\ntrusted_network = true",
}

BANDS = [
    "a.t BETWEEN b.t - 5 AND b.t + 5",
    "b.t BETWEEN a.t AND a.t + 3",
    "a.t - b.t < 4 AND a.t >= b.t - 2",
    "a.t > b.t - 7 AND a.t < b.t",
    "a.f BETWEEN b.f - 0.5 AND b.f + 0.5",
    "b.f <= a.f + 0.1 AND b.f >= a.f - 0.3",
    "a.f - 0.1 <= b.f",
    "a.ts BETWEEN b.ts - INTERVAL '5 seconds' AND b.ts + INTERVAL '5 seconds'",
    "b.ts >= a.ts AND b.ts < a.ts + INTERVAL '1 minute'",
    "a.x BETWEEN b.x - 1 AND b.x + 1",
]
OTHERS = [
    "a.t < b.t", "a.t <> b.t", "a.ts >= b.ts", "a.f > b.f", "a.g <= b.g",
    "a.x + b.x > 10", "a.name LIKE b.pattern", "a.x * 2 = b.x + 1", "(a.k = b.k OR a.t > b.t + 20)",
    "(a.name IS NULL OR b.x > 2)", "(a.g IS NOT DISTINCT FROM b.g)", "(a.k IS DISTINCT FROM b.k)",
    "coalesce(a.x, b.x) > 3", "NOT (a.t = b.t)", "a.g || 'b' = b.name",
]
ALONE = ["a.x > 3", "b.name IS NOT NULL", "b.x % 3 = 0", "a.g IN ('a', 'ab')", "a.f IS NULL", "b.t < 0", "1 = 1", "NULL"]


def table(rng, side):
    """Random rows of a side."""
    rows = rng.choice([0, 1, 7, 60, 200, 400]) if rng.random() < 0.7 else rng.randrange(300)
    keys, nulls, frequent = rng.choice([1, 5, 50, 400]), rng.choice([0, 0.1, 0.5]), rng.random() < 0.3
    make = {
        "k": lambda: keys // 2 if frequent and rng.random() < 0.5 else rng.randrange(keys),
        "g": lambda: rng.choice(WORDS),
        "t": lambda: rng.randrange(-60, 60),
        "x": lambda: rng.randrange(12),
        "f": lambda: rng.randrange(-40, 40) * 0.1,
        "ts": lambda: START + datetime.timedelta(milliseconds=rng.randrange(0, 300_000, 500)),
        "name": lambda: rng.choice(WORDS),
        "pattern": lambda: rng.choice(PATTERNS),
    }
    columns = {name: [None if rng.random() < nulls else one() for _ in range(rows)] for name, one in make.items()}
    return pyarrow.Table.from_pydict(columns, schema=SCHEMAS[side])


def write(rng, table, folder):
    """Writes a table as one Parquet file or several; what DuckDB is to read them as."""
    folder.mkdir()
    files = rng.randrange(1, 4)
    for file in range(files):
        begin, end = (len(table) * at // files for at in (file, file + 1))
        pyarrow.parquet.write_table(table.slice(begin, end - begin), folder / f"{file}.parquet",
                                    row_group_size=rng.choice([20, 1000]))
    return f"read_parquet('{folder}/*.parquet')"


def condition(rng):
    """Keys for --on, and a predicate."""
    on = rng.choice([[], [], ["k"], ["k"], ["g"], ["k", "g"], ["k=x"], ["g=name"], ["x", "t"]])
    predicates = []
    if rng.random() < 0.5:
        predicates.append(rng.choice(BANDS))
    if rng.random() < 0.4 or not (on or predicates):
        predicates.append(rng.choice(OTHERS))
    if rng.random() < 0.3:
        predicates.append(rng.choice(ALONE))
    rng.shuffle(predicates)
    return on, " AND ".join(predicates)


def duckdb_query(kind, on, predicate, left, right):
    """The same join in SQL."""
    equal = [f"a.{key.split('=')[0]} = b.{key.split('=')[-1]}" for key in on]
    both = " AND ".join(equal + ([f"({predicate})"] if predicate else []))
    if kind in DUCKDB_JOINS:
        return f"SELECT a.*, b.* FROM {left} a {DUCKDB_JOINS[kind]} JOIN {right} b ON {both}"
    kept, other = ("b", f"{left} a") if kind.startswith("right-") else ("a", f"{right} b")
    source = f"{right} b" if kept == "b" else f"{left} a"
    has = "EXISTS" if kind.endswith("semi") else "NOT EXISTS"
    return f"SELECT {kept}.* FROM {source} WHERE {has} (SELECT 1 FROM {other} WHERE {both})"


def options(rng, on, predicate, hosts_options):
    """How Annulus is to do it."""
    chosen = [*hosts_options(rng.randrange(1, HOSTS + 1)), "--threads", str(rng.randrange(1, 4)),
              "--revolutions", str(rng.randrange(1, 4)), "--timeout", "60"]
    if rng.random() < 0.5:
        chosen += ["--rotate", rng.choice(["left", "right"])]
    fits = ["loops"] + (["hash", "merge"] if on else [])
    if rng.random() < 0.6:
        chosen += ["--algorithm", rng.choice(fits)]
    if rng.random() < 0.3:
        chosen += ["--fragment-size", "4K"]
    return chosen


def rows(connection, query):
    return Counter(map(repr, connection.execute(query).fetchall()))


@contextlib.contextmanager
def processes():
    """Hosts that are processes of one machine, which share their buffers."""
    yield lambda hosts: ["--local", str(hosts)]


@contextlib.contextmanager
def nodes(program, settings):
    """Machines of a ring, all of them on loopback. Gives the options of a join on the first of them."""
    with tempfile.TemporaryDirectory(prefix="annulus-equal-") as name, contextlib.ExitStack() as running:
        folder = Path(name)

        def node(*arguments):
            return [program, "node", *map(str, arguments)]

        subprocess.run(node("init-ca", "--ring", "equal", "--folder", folder), check=True, stdout=subprocess.DEVNULL)
        names = [f"host-{host}" for host in range(HOSTS)]
        for kind, member in [*(("add-host", name) for name in names), ("add-submitter", "me")]:
            subprocess.run(node(kind, member, "--folder", folder), check=True, stdout=subprocess.DEVNULL)
        # No host starts beside it.
        (folder / "ca-key.pem").unlink()
        # Ports that are free now.
        with contextlib.ExitStack() as listeners:
            sockets = [listeners.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(2 * HOSTS)]
            ports = [one.getsockname()[1] for one in sockets]
        text = settings
        for host, member in enumerate(names):
            control, data = ports[2 * host:2 * host + 2]
            text += f"\n[[host]]\nname = '{member}'\ncontrol = '127.0.0.1:{control}'\ndata = '127.0.0.1:{data}'\n"
            (folder / f"ring-{host + 1}.toml").write_text(text)
        log = running.enter_context(open(folder / "nodes.log", "w"))
        for member in names:
            allowed = ["--allow-read", tempfile.gettempdir(), "--allow-write", tempfile.gettempdir()]
            arguments = node("--ring", folder / f"ring-{HOSTS}.toml", "--name", member, *allowed)
            started = running.enter_context(subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True))
            running.callback(started.kill)
            # It says where it takes orders.
            while "takes orders" not in (line := started.stderr.readline()):
                if not line:
                    sys.exit(f"{member} does not start")
            threading.Thread(target=lambda lines=started.stderr: log.writelines(lines), daemon=True).start()
        yield lambda hosts: ["--ring", str(folder / f"ring-{hosts}.toml"), "--name", "me"]


def run(program, hosts_options, seed):
    """Joins a seed's tables twice; what differs, if anything does, and what was done."""
    rng = random.Random(seed)
    kind = TYPES[seed % len(TYPES)]
    with tempfile.TemporaryDirectory(prefix="annulus-equal-") as name:
        folder = Path(name)
        sources = [write(rng, table(rng, side), folder / "ab"[side]) for side in (0, 1)]
        on, predicate = condition(rng)
        output = folder / "out"
        arguments = ["--type", kind, *options(rng, on, predicate, hosts_options)]
        arguments += ["--on", ",".join(on)] if on else []
        arguments += ["--where", predicate] if predicate else []
        told = f"{' '.join(arguments[:-1])} \"{arguments[-1]}\""
        command = [program, "join", str(folder / "a"), str(folder / "b"), "--output", str(output), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        if done.returncode != 0:
            return told, f"exit code {done.returncode}: {done.stderr.strip()}", 0
        connection = duckdb.connect()
        expected = rows(connection, duckdb_query(kind, on, predicate, *sources))
        files = sorted(glob.glob(f"{output}/host-*/*.parquet"))
        # A host without rows has no file.
        found = rows(connection, f"SELECT * FROM read_parquet({files})") if files else Counter()
        missing, extra = expected - found, found - expected
        wrong = ""
        if missing or extra:
            wrong = f"{missing.total()} rows are missing, as {list(missing)[:1]}, {extra.total()} are too many, as {list(extra)[:1]}"
        return told, wrong, expected.total()


def main():
    program, first, cases, link = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    wrong = 0
    with processes() if link == "shared" else nodes(program, LINKS[link]) as hosts_options:
        for seed in range(first, first + cases):
            told, difference, count = run(program, hosts_options, seed)
            wrong += bool(difference)
            print(f"{seed}: {'DIFFERS' if difference else 'equal'}, {count} rows: {told}{': ' if difference else ''}{difference}", flush=True)
    print(f"{cases - wrong} of {cases} cases are equal")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
