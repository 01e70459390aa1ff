"""Runs cases in threads, until enough of them were compared."""

import argparse
import contextlib
import itertools
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import cases
import judge
import shrink
from queries import count, end_at_signals, positive, progress
from shared import ROOT

# The operators of Annulus, of whose use a run gives the number.
OPERATORS = ("SharedHashJoinExec", "BandJoinExec", "KeyFilterExec", "RingRepartitionExec", "DistributedExec")
# A run ends, and fails, if it needs more than this many groups for one that is comparable.
PATIENCE = 4


def built():
    """The program, built for development."""
    command = ["cargo", "build", "--quiet", "--workspace", "--bin", "annulus-sessions"]
    subprocess.run(command, check=True, cwd=ROOT)
    return Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "debug" / "annulus-sessions"


def share(text):
    with contextlib.suppress(ValueError):
        if 0 <= float(text) <= 1:
            return float(text)
    raise argparse.ArgumentTypeError(f"invalid share '{text}': expected a number from 0 to 1")


def name(text):
    if all(part.isdecimal() for part in text.split(".")) and text.count(".") == 1:
        return text
    raise argparse.ArgumentTypeError(f"invalid case '{text}': expected two numbers such as 17.3")


def parse(description):
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--cases", type=count, default=5000, metavar="N", help="cases to compare (5000)")
    made.add_argument("--seed", type=int, default=1, metavar="S", help="what the cases depend on (1)")
    made.add_argument("--case", type=name, metavar="G.Q", help="only this case")
    made.add_argument("--jobs", type=count, default=2, metavar="N", help="cases at a time (2)")
    made.add_argument("--memory", type=share, default=0.35, metavar="X", help="share of the sessions with little memory (0.35)")
    made.add_argument("--workers", type=count, default=0, metavar="N", help="run the queries of Annulus on N workers")
    made.add_argument("--timeout", type=positive, default=120, metavar="S", help="the longest query, in seconds (120)")
    made.add_argument("--failures", type=count, default=10, metavar="N", help="failures after which a run ends (10)")
    made.add_argument("--no-shrink", action="store_true", help="print failing cases as they are")
    made.add_argument("--sessions", metavar="BIN", help="the program annulus-sessions (built)")
    arguments = made.parse_args()
    # Workers have memory of their own.
    arguments.memory = 0 if arguments.workers else arguments.memory
    return arguments


class Run:
    """What all threads share."""

    def __init__(self, arguments, folder):
        self.arguments, self.folder, self.program = arguments, folder, str(arguments.sessions or built())
        self.lock, self.words, self.why, self.operators = threading.Lock(), Counter(), Counter(), Counter()
        self.groups, self.error, self.start = itertools.count(), None, time.monotonic()

    def is_over(self):
        words, wanted = self.words, self.arguments
        return self.error or words[judge.EQUAL] >= wanted.cases or words[judge.FAILED] >= wanted.failures

    def judge(self):
        return judge.Judge(self.program, self.folder, self.arguments.timeout, self.arguments.workers)

    def work_alone(self, name):
        """Runs the case of this name."""
        with self.judge() as judged:
            for case in cases.group(self.arguments.seed, int(name.partition(".")[0]), self.arguments.memory):
                if case.name == name:
                    self.note(judged, case, judged.judge(case))

    def work(self):
        """Runs cases until the run is over."""
        try:
            with self.judge() as judged:
                while not self.is_over():
                    self.work_on(judged)
        except BaseException as error:
            self.error = error
            raise

    def work_on(self, judged):
        """Runs the cases of the next group."""
        with self.lock:
            number = next(self.groups)
        if number * cases.QUERIES_OF_TABLES > PATIENCE * self.arguments.cases + 100:
            raise RuntimeError("too few cases are comparable")
        for case in cases.group(self.arguments.seed, number, self.arguments.memory):
            if self.is_over():
                return
            self.note(judged, case, judged.judge(case))

    def note(self, judged, case, verdict):
        """Counts a verdict. Prints the case if it failed."""
        found = report(judged, case, verdict, self.arguments) if verdict.word == judge.FAILED else None
        with self.lock:
            self.words[verdict.word] += 1
            if verdict.word in (judge.INCOMPARABLE, judge.KNOWN):
                self.why[verdict.why] += 1
            if verdict.word == judge.EQUAL:
                self.operators.update(name for name in OPERATORS if name in verdict.operators)
            if found:
                progress("")
                print(found, flush=True)
            progress(f"{self.words[judge.EQUAL]} of {self.arguments.cases} cases equal, {self.words[judge.FAILED]} failed")

    def summary(self):
        words = (judge.EQUAL, judge.REFUSED, judge.INCOMPARABLE, judge.KNOWN, judge.FAILED)
        counted = ", ".join(f"{self.words[word]} {word}" for word in words)
        used = ", ".join(f"{name} in {self.operators[name]}" for name in OPERATORS)
        print(f"{counted}; of the equal ones {used}; {time.monotonic() - self.start:.0f} s")
        for why, times in self.why.most_common(12):
            print(f"  {times} x {why[:200]}")


def report(judged, case, verdict, arguments):
    """A failing case in full, made smaller."""
    if not arguments.no_shrink:
        case = shrink.shrink(case, lambda one: judged.judge(one).word == judge.FAILED)
        verdict = judged.judge(case)
    return f"-- FAILED {cases.describe(case)}\n{cases.script(case)}\n-- {verdict.why}\n-- operators: {verdict.operators}\n"


def main(description):
    arguments = parse(description)
    end_at_signals()
    with tempfile.TemporaryDirectory(prefix="annulus-fuzz-", ignore_cleanup_errors=True) as folder:
        run = Run(arguments, folder)
        if arguments.case:
            run.work_alone(arguments.case)
        else:
            threads = [threading.Thread(target=run.work, daemon=True) for _ in range(arguments.jobs)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    progress("")
    run.summary()
    if run.error:
        sys.exit(f"the run ended early: {run.error}")
    if arguments.case and run.words.total() == 0:
        sys.exit(f"no case '{arguments.case}': expected numbers such as 17.3")
    sys.exit(1 if run.words[judge.FAILED] else 0)
