"""What all cells come to."""

from collections import Counter, defaultdict

import judge
import truth

COUNTS = ("equal", "encoded", "filtered", "refused", "refused_by_stock", "refused_by_encoded")
# The differences of a cell that are printed.
MOST_PRINTED = 3


def report(verdict, seed):
    """A cell whose answers differ."""
    lines = [f"-- DIFFERS {verdict.cell}"]
    for place, sql, why in verdict.differences[:MOST_PRINTED]:
        lines += [f"-- bench/fuzz/files/run --seed {seed} --case {verdict.number}.{place}", f"{sql};", f"-- {why}"]
    if len(verdict.differences) > MOST_PRINTED:
        lines.append(f"-- and {len(verdict.differences) - MOST_PRINTED} more queries")
    return "\n".join(lines) + "\n"


class Summary:
    def __init__(self):
        self.cells = self.failed = 0
        # Why the run has ended early.
        self.error = None
        self.writers, self.unwritten, self.reasons = defaultdict(Counter), Counter(), Counter()
        self.columns, self.encodings = defaultdict(Counter), defaultdict(Counter)
        self.readers, self.examples = Counter(), {}

    def note(self, verdict):
        """Adds what was found out about a cell."""
        self.cells += 1
        self.failed += bool(verdict.differences)
        row = self.writers[verdict.writer]
        row["cells"] += 1
        if verdict.unwritten:
            row["unwritten"] += 1
            self.unwritten[verdict.unwritten[:150]] += 1
            return
        self.reasons.update(verdict.reasons)
        row["different"] += len(verdict.differences)
        row["fallen_back"] += not any(reads == judge.ENCODED for *_, reads in verdict.columns)
        for name in COUNTS:
            row[name] += getattr(verdict, name)
        for kind, stored, reads in verdict.columns:
            self.columns[kind][reads] += 1
            self.encodings[" ".join(stored)][reads] += 1
        for kind, what in verdict.readers:
            word = what if what in (truth.EQUAL, truth.UNCOMPARED) else "different"
            self.readers[verdict.writer, kind, word] += 1
            if word == "different":
                self.examples.setdefault((verdict.writer, kind), f"cell {verdict.number}: {what[:200]}")

    def data(self, seconds):
        readers = [{"writer": writer, "type": kind, "files": number, "example": self.examples[writer, kind]}
                   for (writer, kind, word), number in sorted(self.readers.items()) if word == "different"]
        return {"seconds": round(seconds, 1), "cells": self.cells, "failed": self.failed, "writers": self.writers,
                "unwritten": self.unwritten, "refused": self.reasons, "types": self.columns, "encodings": self.encodings, "readers": readers}

    def text(self, seconds):
        lines = [f"{self.cells} cells in {seconds:.0f} s, {self.failed} with different answers"]
        titles = ("cells", "unwritten", "fallen_back", *COUNTS, "different")
        lines.append(f"{'writer':12}" + "".join(f"{title.replace('_', ' '):>20}" for title in titles))
        for writer, row in sorted(self.writers.items()):
            lines.append(f"{writer:12}" + "".join(f"{row[title]:20}" for title in titles))
        for title, counted in (("type", self.columns), ("stored as", self.encodings)):
            lines.append(f"\n{title:70}" + "".join(f"{reads:>15}" for reads in (judge.ENCODED, judge.STOCK, judge.UNREAD)))
            for name, row in sorted(counted.items()):
                lines.append(f"{name or 'no chunk':70}" + "".join(f"{row[reads]:15}" for reads in (judge.ENCODED, judge.STOCK, judge.UNREAD)))
        words = Counter()
        for (*_, word), number in self.readers.items():
            words[word] += number
        lines.append(f"\ncolumns as PyArrow and as DataFusion read them: {', '.join(f'{number} {word}' for word, number in words.items())}")
        lines += [f"  {writer}, {kind}, {self.readers[writer, kind, 'different']} files, such as {example}"
                  for (writer, kind), example in sorted(self.examples.items())]
        lines += [f"not written, {number} times: {why}" for why, number in self.unwritten.most_common(12)]
        lines += [f"refused, {number} times: {why}" for why, number in self.reasons.most_common(12)]
        return "\n".join(lines)
