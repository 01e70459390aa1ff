"""Query, split and join tables: those in memory, those in files, and those larger than memory.

>>> import annulus_data as an
>>> an.sql("SELECT 'hello' AS greeting").fetchall()
[('hello',)]

A `Session` runs queries in this process, a `Cluster` on workers. The functions of the module
use a session that is opened when it is first needed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Coroutine, Sequence
from typing import Any

from ._internal import Batch, __version__
from ._plan import Operator, Plan
from ._progress import Progress
from .datafusion import enable
from .errors import (
    AnnulusError,
    AnnulusWarning,
    ForkError,
    InputError,
    MemoryLimitError,
    OptionError,
    QueryError,
    SessionClosedError,
    SqlError,
    WorkerError,
)
from .relation import Grouping, JoinType, Relation
from .session import Cluster, Params, Session, default_session

__all__ = [
    "AnnulusError",
    "AnnulusWarning",
    "Batch",
    "Cluster",
    "ForkError",
    "Grouping",
    "InputError",
    "JoinType",
    "MemoryLimitError",
    "Operator",
    "OptionError",
    "Params",
    "Plan",
    "QueryError",
    "Relation",
    "Session",
    "SessionClosedError",
    "SqlError",
    "WorkerError",
    "__version__",
    "default_session",
    "enable",
    "join",
    "partition",
    "read",
    "sql",
    "sql_async",
]


def sql(query: str, /, params: Params = None, **tables: Any) -> Relation:
    """Runs SQL statements in the default session, and returns the rows of the last one. See
    `Session.sql`.

    >>> import annulus_data as an
    >>> import pyarrow as pa
    >>> an.sql("SELECT max(a) AS m FROM t", t=pa.table({"a": [1, 5, 3]})).fetchall()
    [(5,)]
    """
    frame = sys._getframe(1)
    return default_session()._run(query, tables, frame, True, params)


def sql_async(query: str, /, params: Params = None, **tables: Any) -> Coroutine[Any, Any, Relation]:
    """Runs statements in the default session while other tasks of the event loop run. See
    `Session.sql_async`.

    >>> import asyncio
    >>> import annulus_data as an
    >>> async def main():
    ...     return (await an.sql_async("SELECT 1 AS a")).fetchall()
    >>> asyncio.run(main())
    [(1,)]
    """
    session = default_session()
    return session._run_async(query, session._named(query, tables, sys._getframe(1)), params)


def read(path: str | os.PathLike[str] | Sequence[str], **options: object) -> Relation:
    """Returns the rows of files. See `Session.read`."""
    return default_session().read(path, **options)


def join(
    left: Any,
    right: Any,
    on: str | Sequence[str] | None = None,
    how: JoinType = "inner",
    *,
    where: str | None = None,
    asof: str | None = None,
    nearest: str | None = None,
    suffix: str = "_right",
) -> Relation:
    """Joins two tables, which are called ``l`` and ``r`` in conditions. See `Session.join`.

    >>> import annulus_data as an
    >>> import pyarrow as pa
    >>> trades = pa.table({"s": ["a", "a"], "t": [3, 9]})
    >>> quotes = pa.table({"s": ["a", "a"], "t": [1, 8], "price": [10.0, 11.0]})
    >>> an.join(trades, quotes, on="s", asof="l.t >= r.t", how="left").sort("t").to_dicts()[1]
    {'s': 'a', 't': 9, 't_right': 8, 'price': 11.0}
    """
    return default_session().join(left, right, on, how, where=where, asof=asof, nearest=nearest, suffix=suffix)


def partition(
    data: Any,
    *,
    output: str | os.PathLike[str],
    by: str | Sequence[str] | None = None,
    into: int | None = None,
    sort_by: str | Sequence[str] | None = None,
    progress: Progress = None,
    **options: object,
) -> dict[str, Any]:
    """Splits a table into files by the values of a key, in bounded memory, as ``annulus partition`` does.

    Args:
        data: Files (a path, a folder, a glob, a URL, or a list of them), which are read once; or a table, which
            is written to a file first.
        output: The folder of the files, or a URL such as ``s3://bucket/parts``.
        by: The columns of the key.
        into: The number of partitions. Not needed with ``by_value=True``.
        sort_by: The columns by which the rows of each file are sorted; ``"time:desc"`` is descending.
        progress: Whether a bar is shown, or what makes it.
        options: The other options of ``annulus partition --help``, with ``_`` for ``-``: ``memory_limit="512M"``,
            ``threads=4``, ``by_value=True``, ``ranges="sample"``, ``format="arrow"``, ``compression="zstd"``,
            ``max_file_size="256M"``, ``resume=True``, ``overwrite=True``, ``append=True``, ``on_bad_row="skip"``.

    Returns:
        The report: rows in and out, partitions, files, bytes, seconds and hot keys.

    Raises:
        OptionError: If an option is wrong.
        InputError: If a file cannot be read or written. Finished partitions stay, and ``resume=True`` goes on.

    >>> import tempfile
    >>> import annulus_data as an
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     rows = an.sql("SELECT value AS id FROM generate_series(1, 1000)")
    ...     report = an.partition(rows, by="id", into=8, output=folder + "/parts")
    >>> report["rows_out"]
    1000
    """
    return default_session().partition(
        data, output=output, by=by, into=into, sort_by=sort_by, progress=progress, **options
    )
