"""Runs cells in processes, and sums up."""

import argparse
import atexit
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import judge
import plant
import summary
from queries import count, end_at_signals, positive, progress
from shared import ROOT, quiet

# The judge of a process.
JUDGE = []


def built():
    """The program, built for development."""
    command = ["cargo", "build", "--quiet", "--workspace", "--locked", "--bin", "annulus-sessions"]
    subprocess.run(command, check=True, cwd=ROOT)
    return Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "debug" / "annulus-sessions"


def name(text):
    number, _, query = text.partition(".")
    if number.isdecimal() and (query.isdecimal() or "." not in text):
        return int(number), int(query) if query else None
    raise argparse.ArgumentTypeError(f"invalid case '{text}': expected a number such as 17, or two such as 17.31")


def parse(description):
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--cases", type=count, default=300, metavar="N", help="cells (300)")
    made.add_argument("--queries", type=count, default=200, metavar="N", help="queries of each cell (200)")
    made.add_argument("--seed", type=int, default=1, metavar="S", help="what the cells depend on (1)")
    made.add_argument("--first", type=int, default=0, metavar="K", help="the number of the first cell (0)")
    made.add_argument("--case", type=name, metavar="K[.Q]", help="only this cell, or this query of it")
    made.add_argument("--jobs", type=count, default=2, metavar="N", help="processes (2)")
    made.add_argument("--timeout", type=positive, default=120, metavar="S", help="the longest query, in seconds (120)")
    made.add_argument("--failures", type=count, default=10, metavar="N", help="cells that differ after which a run ends (10)")
    made.add_argument("--plant", choices=plant.FAULTS, help="a fault in what the encoded scan returns")
    made.add_argument("--keep", metavar="DIR", help="keep the file of the last cell there")
    made.add_argument("--json", action="store_true", help="print the summary as JSON")
    made.add_argument("--sessions", metavar="BIN", help="the program annulus-sessions (built)")
    return made.parse_args()


def start(program, arguments, folder):
    """Makes the judge of this process."""
    folder = Path(tempfile.mkdtemp(dir=folder))
    quiet(folder)
    JUDGE.append(judge.Judge(program, folder, arguments.timeout, arguments.plant))
    atexit.register(JUDGE[0].end)


def work(task):
    """Judges a cell."""
    seed, number, queries, only = task
    return JUDGE[0].judge(JUDGE[0].cell(seed, number), queries, only)


def tasks(given):
    if given.case:
        number, only = given.case
        return [(given.seed, number, given.queries if only is None else max(given.queries, only + 1), only)]
    return [(given.seed, given.first + place, given.queries, None) for place in range(given.cases)]


def run_all(given, program, folder, total):
    wanted, spawn = tasks(given), multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(given.jobs, len(wanted)), spawn, start, (program, given, folder)) as pool:
        running = {pool.submit(work, task): task for task in wanted}
        try:
            for future in as_completed(running):
                note(given, total, future.result(), len(wanted))
                del running[future]
                if total.failed >= given.failures:
                    break
        except BrokenProcessPool:
            cells = sorted(number for _, number, *_ in running.values())[:given.jobs]
            total.error = f"a process ended at one of the cells {', '.join(map(str, cells))}: run them with --case"
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def note(given, total, verdict, wanted):
    """Counts a verdict, and prints the differences of its cell."""
    total.note(verdict)
    if verdict.differences:
        progress("")
        print(summary.report(verdict, given.seed), file=sys.stderr if given.json else sys.stdout, flush=True)
    progress(f"{total.cells} of {wanted} cells, {total.failed} differ")


def main(description):
    arguments = parse(description)
    end_at_signals()
    program = str(Path(arguments.sessions or built()).resolve())
    total, began = summary.Summary(), time.monotonic()
    if arguments.keep:
        Path(arguments.keep).mkdir(parents=True, exist_ok=True)
        run_all(arguments, program, arguments.keep, total)
    else:
        # The files are small and many.
        place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        with tempfile.TemporaryDirectory(prefix="annulus-files-", dir=place, ignore_cleanup_errors=True) as folder:
            run_all(arguments, program, folder, total)
    progress("")
    seconds = time.monotonic() - began
    print(json.dumps(total.data(seconds), indent=1) if arguments.json else total.text(seconds))
    if total.error:
        sys.exit(f"the run ended early: {total.error}")
    sys.exit(1 if total.failed else 0)
