"""Runs cases in processes, and sums up."""

import argparse
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

import judge
import plant
import rounds
import smaller
from queries import count, end_at_signals, progress
from shared import ROOT, quiet


def built():
    """The program, built for development."""
    subprocess.run(["cargo", "build", "--quiet", "--workspace", "--locked", "--bin", "annulus"], check=True, cwd=ROOT)
    return Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "debug" / "annulus"


def parse(description):
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--cases", type=count, default=2000, metavar="N", help="cases to run (2000)")
    made.add_argument("--seed", type=int, default=1, metavar="S", help="what the cases depend on (1)")
    made.add_argument("--first", type=int, default=0, metavar="K", help="the number of the first case (0)")
    made.add_argument("--case", type=int, metavar="K", help="only this case")
    made.add_argument("--jobs", type=count, default=2, metavar="N", help="processes (2)")
    made.add_argument("--failures", type=count, default=10, metavar="N", help="failures after which a run ends (10)")
    made.add_argument("--plant", choices=plant.FAULTS, help="a fault in what Annulus returns")
    made.add_argument("--no-shrink", action="store_true", help="print failing cases as they are")
    made.add_argument("--verbose", action="store_true", help="list what was refused")
    made.add_argument("--annulus", metavar="BIN", help="the program annulus (built)")
    return made.parse_args()


def work(program, arguments, numbers, found, folder):
    """Judges the cases of the next numbers until there are no more, and reports each."""
    folder = Path(tempfile.mkdtemp(dir=folder))
    quiet(folder)
    try:
        with judge.Judge(program, folder, arguments.plant) as judged:
            while (number := numbers.get()) is not None:
                case = rounds.case(arguments.seed, number)
                verdict, report = judged.judge(case), None
                if verdict.word == judge.FAILED:
                    if not arguments.no_shrink:
                        case, verdict = smaller.shrink(judged, case, verdict)
                    # The files are those of the smallest case.
                    judged.judge(case)
                    report = smaller.report(case, verdict, arguments.seed, judged.path(case))
                found.put((number, verdict, report))
    except BaseException:
        found.put((None, None, traceback.format_exc()))


class Run:
    """What is known of all cases."""

    def __init__(self, arguments):
        self.arguments, self.start = arguments, time.monotonic()
        self.words, self.equal, self.refused, self.known, self.error = Counter(), Counter(), Counter(), Counter(), None

    def note(self, verdict, report):
        self.words[verdict.word] += 1
        for mine, theirs in ((self.equal, verdict.equal), (self.refused, verdict.refused), (self.known, verdict.known)):
            mine.update(theirs)
        if report:
            progress("")
            print(report + "\n", flush=True)
        progress(f"{self.words.total()} of {self.arguments.cases} cases, {self.words[judge.FAILED]} failed")

    def summary(self):
        def ours(counted):
            return sum(number for one, number in counted.items() if one.startswith("annulus"))

        spent, total = time.monotonic() - self.start, self.words.total()
        print(f"{total} cases in {spent:.0f} s ({total / spent:.1f} a second): {self.words[judge.EQUAL]} are equal or known, "
              f"{self.words[judge.FAILED]} failed, {self.words[judge.NOT_WRITTEN]} were not written")
        print(f"readings and answers of Annulus: {ours(self.equal)} equal, {ours(self.refused)} refused; "
              f"of others: {self.equal.total() - ours(self.equal)} equal, {self.refused.total() - ours(self.refused)} refused")
        if self.known:
            print("known differences, of values:")
        for reason, number in self.known.most_common():
            print(f"  {number:6} {reason}")
        if self.arguments.verbose:
            for title, counted in (("equal", self.equal), ("refused", self.refused)):
                print(f"{title}:", *(f"  {number:6} {one}" for one, number in counted.most_common()), sep="\n")


def run_all(run, program, folder):
    given, fork = run.arguments, multiprocessing.get_context("spawn")
    numbers, found = fork.Queue(), fork.Queue()
    wanted = range(given.first, given.first + given.cases) if given.case is None else [given.case]
    jobs = min(given.jobs, len(wanted))
    processes = [fork.Process(target=work, args=(program, given, numbers, found, folder), daemon=True) for _ in range(jobs)]
    for process in processes:
        process.start()
    left, running = iter(wanted), 0
    for _ in range(2 * jobs):
        if (number := next(left, None)) is not None:
            numbers.put(number)
            running += 1
    while running and not run.error and run.words[judge.FAILED] < given.failures:
        number, verdict, report = found.get()
        if number is None:
            run.error = report
            break
        run.note(verdict, report)
        following = next(left, None)
        if following is not None:
            numbers.put(following)
        else:
            running -= 1
    for _ in processes:
        numbers.put(None)
    for process in processes:
        process.join(10)
        process.terminate()


def main(description):
    arguments = parse(description)
    end_at_signals()
    program = str(Path(arguments.annulus or built()).resolve())
    run = Run(arguments)
    # The files are small and many.
    place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="roundtrip-", dir=place, ignore_cleanup_errors=True) as folder:
        run_all(run, program, folder)
    progress("")
    run.summary()
    if run.error:
        sys.exit(f"the run ended early: {run.error}")
    sys.exit(1 if run.words[judge.FAILED] else 0)
