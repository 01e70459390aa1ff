"""The exceptions of Annulus. All are an `AnnulusError`, and each message names the remedy."""

from __future__ import annotations

__all__ = [
    "AnnulusError",
    "AnnulusWarning",
    "ForkError",
    "InputError",
    "MemoryLimitError",
    "OptionError",
    "QueryError",
    "SessionClosedError",
    "SqlError",
    "WorkerError",
]


class AnnulusError(Exception):
    """An error of Annulus."""


class SqlError(AnnulusError):
    """A statement that cannot be parsed or planned. The message marks the place in the statement.

    Attributes:
        sql: The statement, if it is known.
        line: The line of the error in it, from 1, if it is known.
        column: The column in that line, from 1.
    """

    def __init__(
        self, message: str, sql: str | None = None, line: int | None = None, column: int | None = None
    ) -> None:
        super().__init__(message + _excerpt(sql, line, column))
        self.sql = sql
        self.line = line
        self.column = column


def _excerpt(sql: str | None, line: int | None, column: int | None) -> str:
    """Returns the line of a statement, and a mark below the place of an error."""
    lines = [] if sql is None else sql.splitlines()
    if line is None or column is None or not 0 < line <= len(lines):
        return ""
    shown, place = lines[line - 1], column - 1
    # Long lines are cut around the place.
    start = max(0, place - 60)
    shown = shown[start : start + 100]
    label = f"line {line}: "
    return f"\n  {label}{shown}\n  {' ' * (len(label) + place - start)}^"


class QueryError(AnnulusError):
    """A query that failed while it ran."""


class InputError(AnnulusError):
    """A file, an object or a table of the caller that cannot be read or written."""


class OptionError(AnnulusError, ValueError):
    """An argument or an option with a wrong value."""


class MemoryLimitError(AnnulusError, MemoryError):
    """A query that needs more memory or disk space than it may have."""


class WorkerError(AnnulusError):
    """A worker that does not answer, or that failed."""


class SessionClosedError(AnnulusError):
    """A session that is used after it was closed."""


class ForkError(AnnulusError, RuntimeError):
    """A session that is used in a process which was forked from the one that opened it."""


class AnnulusWarning(UserWarning):
    """Something in a result that may surprise, such as rows that were skipped."""
