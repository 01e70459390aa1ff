"""Runs a case: its files are written, read by everything, and compared."""

import shutil
import traceback
from collections import Counter
from dataclasses import dataclass, field

import checks
import known
import plant
import ways
from annulus import Lost, Refused, kind_of
from compare import Difference, differences
from readers import Reader
from writers import ANNULUS, Writer

EQUAL, FAILED, NOT_WRITTEN = "equal", "failed", "not written"
ENDS = (KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError)


@dataclass
class Verdict:
    word: str = EQUAL
    # What failed, in words, and who read or answered it.
    failures: list = field(default_factory=list)
    # How many readings and answers were equal, by who read.
    equal: Counter = field(default_factory=Counter)
    # Messages of what was refused, and reasons of what is known.
    refused: Counter = field(default_factory=Counter)
    known: Counter = field(default_factory=Counter)

    def fail(self, reader, text):
        self.word = FAILED
        self.failures.append((reader, text))


class Judge:
    """The writers and the readers, with a folder. One thread uses it."""

    def __init__(self, program, folder, fault=None):
        self.folder, self.files, self.count = folder, folder / "files-0", 0
        self.writer = Writer()
        self.reader = Reader(self.writer.duckdb)
        self.annulus = ways.Annulus(program, folder, plant.planted(fault) if fault else None)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.annulus.end()
        self.writer.duckdb.close()

    def path(self, case):
        """The file of a case with one."""
        return self.files / f"one.{case.ending}"

    def judge(self, case):
        shutil.rmtree(self.files, ignore_errors=True)
        # A new name: a session may know what was in a folder.
        self.count += 1
        self.files = self.folder / f"files-{self.count}"
        self.files.mkdir()
        verdict, rows = Verdict(), case.table()
        path = self.write(case, rows, verdict)
        if path is None:
            return verdict
        for reader in self.reader.readers(case):
            self.note(case, verdict, reader, lambda: self.reader.read(reader, case, path, list(case.kinds)))
        for way in case.ways:
            if way not in ("checks", "pairs"):
                self.note(case, verdict, f"annulus {way}", lambda: self.annulus.read(way, case, path, rows))
        self.check(case, verdict, path, rows)
        return verdict

    def write(self, case, rows, verdict):
        """Writes the files of a case, and returns where they are, or None."""
        try:
            return (self.annulus if case.writer == ANNULUS else self.writer).write(case, rows, self.files)
        except ENDS:
            raise
        except Lost as lost:
            verdict.fail(ANNULUS, str(lost))
        except Refused as refused:
            self.refuse(verdict, "annulus writes", refused)
        except BaseException as error:
            verdict.refused[f"{case.writer} writes {case.form}: {kind_of(str(error))}"] += 1
        verdict.word = verdict.word if verdict.word == FAILED else NOT_WRITTEN
        return None

    def refuse(self, verdict, who, refused):
        if refused.is_broken:
            verdict.fail(who, refused.message)
        else:
            verdict.refused[f"{who}: {kind_of(refused.message)}"] += 1

    def note(self, case, verdict, reader, read):
        """Compares what a reader finds."""
        ours = reader.startswith(ANNULUS)
        try:
            table = read()
            found = [] if table is None else differences(case, reader, table)
        except ENDS:
            raise
        except Lost as lost:
            return verdict.fail(reader, str(lost))
        except Refused as refused:
            return self.refuse(verdict, reader, refused)
        except BaseException as error:
            # A panic of Polars raises something that is not an Exception.
            if ours:
                return verdict.fail(reader, "".join(traceback.format_exception(error)))
            verdict.refused[f"{reader} reads {case.form} of {case.writer}: {kind_of(str(error))}"] += 1
            return None
        self.explain(case, verdict, reader, found)

    def explain(self, case, verdict, reader, found):
        if not found:
            verdict.equal[reader] += 1
        unexplained = []
        for difference in found:
            entry = known.entry(case, difference)
            if entry:
                verdict.known[entry.reason] += 1
            else:
                unexplained.append(str(difference))
        if unexplained:
            more = f" and {len(unexplained) - 1} more" if len(unexplained) > 1 else ""
            verdict.fail(reader, unexplained[0] + more)

    def check(self, case, verdict, path, rows):
        """Compares answers."""
        asked = [one for one in ("checks", "pairs") if one in case.ways]
        exact = case.form not in ("csv", "json") and not verdict.known
        if not asked or not exact or not verdict.equal["annulus from"]:
            return
        table = f"'{path}{'/' if path.is_dir() else ''}'"
        other = f"'{self.annulus.base(rows, self.files)}'"
        questions = checks.Questions(case, table, other)
        for check in [*(questions.checks() if "checks" in asked else ()), *(questions.pairs() if "pairs" in asked else ())]:
            reader = f"annulus {check.name}"
            try:
                found = checks.answer(self.annulus.query(check.query, check))
            except Lost as lost:
                verdict.fail(reader, f"{lost}: {check.query}")
                continue
            except Refused as refused:
                asked = f"{check.query}: " if refused.is_broken else ""
                self.refuse(verdict, reader, Refused(asked + refused.message))
                continue
            if found in check.answers:
                verdict.equal[reader] += 1
                continue
            right = check.answers[0]
            less, more = list((right - found).elements())[:3], list((found - right).elements())[:3]
            made = Difference(reader, check.column, case.kinds[check.column], less, more)
            entry = known.entry(case, made)
            if entry:
                verdict.known[entry.reason] += 1
            else:
                text = f"{check.query}: missing are {less}, wrong are {more}"
                verdict.fail(reader, text.replace(str(self.files), "."))


