"""Judges a cell: writes its file, and asks it on both scans."""

import re
from collections import Counter
from dataclasses import dataclass, field, replace

import pyarrow.parquet

import compare
import filters
import kinds
import layouts
import plant
import truth
import writers
from sessions import Refused, Sessions

SCANS = "annulus.scans"
# Errors of expressions, which depend on the values that they are evaluated on.
VALUE_ERROR = re.compile("Cannot cast|Can't cast|Cast error|[Oo]verflow|Divide by zero|out of range")
PLAN = {"datafusion.explain.format": "indent"}
# How a column is read, as `EXPLAIN ANALYZE` tells.
ENCODED, STOCK, UNREAD = "encoded", "by DataFusion", "not read"


@dataclass
class Verdict:
    """What has been found out about a cell."""

    number: int
    cell: str
    writer: str
    # Why there is no file.
    unwritten: str | None = None
    # For each column its type, how its chunks are stored, and how they are read.
    columns: list = field(default_factory=list)
    # Queries with an answer, those of them that the encoded scan has read, those in whose cells it has also evaluated filters,
    # those that end with an error on both scans, on DataFusion's alone, and on the encoded one alone, if it is one of a value.
    equal: int = 0
    encoded: int = 0
    filtered: int = 0
    refused: int = 0
    refused_by_stock: int = 0
    refused_by_encoded: int = 0
    # Why queries are refused.
    reasons: Counter = field(default_factory=Counter)
    # The number of a query, the query and how its answers differ.
    differences: list = field(default_factory=list)
    # For each type how DataFusion and PyArrow differ.
    readers: list = field(default_factory=list)


def chunks(folder):
    """The column chunks of all files in a folder."""
    for path in sorted(folder.iterdir()):
        metadata = pyarrow.parquet.read_metadata(path)
        for group in range(metadata.num_row_groups):
            yield from (metadata.row_group(group).column(place) for place in range(metadata.num_columns))


def stored(folder, names):
    """How the chunks of columns are stored, by name."""
    found = {}
    for chunk in chunks(folder):
        found.setdefault(chunk.path_in_schema.partition(".")[0], set()).update((chunk.physical_type, *chunk.encodings))
    return {name: sorted(found.get(name, ())) for name in names}


def reason(error):
    """An error without what differs from query to query."""
    said = re.sub(r"[0-9]+", "N", " ".join(error.split()))
    return said if len(said) < 140 else f"...{said[-140:]}"


class Judge:
    """A process for the queries, and a folder within `folder` for files. One thread uses it."""

    def __init__(self, program, folder, timeout, fault=None):
        self.folder, self.sessions = folder, Sessions(program, folder, timeout)
        self.alter, self.has_filters = plant.FAULTS[fault] if fault else None, False
        self.can_write = writers.writable(folder, self.sessions)

    def cell(self, seed, number):
        return layouts.cell(seed, number, self.can_write)

    def end(self):
        self.sessions.end()

    def ask(self, path, sql, settings, scans):
        """The answer, and an error: one of them."""
        try:
            found = self.sessions.answer(path, sql, settings | {SCANS: scans})
        except Refused as error:
            return None, str(error)
        return (self.alter(found) if self.alter and scans == "always" else found), None

    def judge(self, cell, count, only=None):
        """Asks a cell `count` queries, or only the one of a number."""
        verdict, path = Verdict(cell.number, cell.describe(), cell.writer), self.folder / "cell"
        try:
            has_encodings = writers.write(cell, path, self.sessions)
        except writers.NotWritten as error:
            verdict.unwritten = str(error)
            return verdict
        names = [column.name for column in cell.columns]
        how, reads = stored(path, names), {name: self.reads(path, name, cell.settings) for name in names}
        verdict.columns = [(column.kind.name, how[column.name], reads[column.name]) for column in cell.columns]
        self.has_filters = self.evaluates_filters(path, names[0], cell.settings)
        verdict.cell += "".join(f"\n  {name} is stored as {', '.join(how[name])}, read {reads[name]}" for name in names)
        verdict.cell += "" if has_encodings else "\n  without the encodings that were asked for"
        if not cell.parts:
            self.compare_readers(cell, path, verdict)
        for place, query in enumerate(filters.queries(self.as_read(cell, path), count)):
            if only is None or place == only:
                self.compare(path, cell, (place, query), verdict, all(reads[name] == ENCODED for name in query.columns))
        return verdict

    def as_read(self, cell, path):
        """The cell with the types that DataFusion reads. Without Arrow's schema, times and differences of them are integers."""
        try:
            schema = self.sessions.answer(path, "SELECT * FROM t LIMIT 0", {}).schema
        except Refused:
            return cell
        return replace(cell, columns=[replace(column, kind=kinds.as_read(column.kind, schema.field(column.name).type)) for column in cell.columns])

    def reads(self, path, name, settings):
        """Which scan reads a column."""
        try:
            plan = self.sessions.answer(path, f"EXPLAIN ANALYZE SELECT {name} FROM t", settings | {SCANS: "always"})
        except Refused:
            return UNREAD
        text = "\n".join(plan.column("plan").to_pylist())
        by_stock = re.search(r"files_read_by_stock=(\d+)", text)
        if "scan=encoded" not in text or not by_stock:
            return STOCK if "ParquetSource" in text or "DataSourceExec" in text else UNREAD
        return ENCODED if by_stock[1] == "0" else STOCK

    def evaluates_filters(self, path, name, settings):
        """Whether the encoded scan evaluates the filters of queries. Where its partitions are divided below the filter, it does not."""
        try:
            plan = self.sessions.answer(path, f"EXPLAIN SELECT {name} FROM t WHERE {name} IS NULL", settings | PLAN | {SCANS: "always"})
        except Refused:
            return False
        return any("filters=[" in text for text in plan.column("plan").to_pylist())

    def compare_readers(self, cell, path, verdict):
        """Compares all rows of DataFusion's scan with those of PyArrow."""
        found, error = self.ask(path, "SELECT * FROM t", {"datafusion.execution.target_partitions": "1"}, "never")
        if error:
            verdict.readers += [(column.kind.name, f"DataFusion: {error.splitlines()[0]}") for column in cell.columns]
            return
        names = {column.name: column.kind.name for column in cell.columns}
        try:
            verdict.readers += [(names[name], what) for name, what in truth.verdicts(path / "0.parquet", found).items()]
        except (pyarrow.ArrowException, OSError) as error:
            verdict.readers.append(("any", f"PyArrow: {str(error).splitlines()[0]}"))

    def compare(self, path, cell, numbered, verdict, is_encoded):
        place, query = numbered
        expected, error = self.ask(path, query.sql(), cell.settings, "never")
        found, other = self.ask(path, query.sql(), cell.settings, "always")
        if error or other:
            if error:
                verdict.reasons[reason(error)] += 1
            if error and other:
                verdict.refused += 1
            # Each may evaluate an expression on rows that the other one has left out before.
            elif error:
                verdict.refused_by_stock += 1
            elif VALUE_ERROR.search(other):
                verdict.refused_by_encoded += 1
            else:
                verdict.differences.append((place, query.sql(), f"an error on the encoded scan alone: {other}"))
            return
        if query.limit:
            everything, _ = self.ask(path, f"SELECT {query.select} FROM t", cell.settings, "never")
            why = compare.of_limit(expected, found, everything)
        else:
            why = compare.difference(expected, found)
        if why:
            verdict.differences.append((place, query.sql(), why))
            return
        verdict.equal += 1
        verdict.encoded += is_encoded
        verdict.filtered += is_encoded and self.has_filters
