"""Queries whose rows are made when they are needed."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from . import _display, _internal
from ._modules import needed
from ._notes import warn
from ._plan import Plan
from ._progress import Progress
from .errors import OptionError

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    import polars as pl

    from .session import Session

__all__ = ["FileFormat", "Grouping", "JoinType", "Relation"]

JoinType = Literal["inner", "left", "right", "full", "semi", "anti", "cross"]

FileFormat = Literal["parquet", "csv", "tsv", "json", "arrow"]

_SHOWN = 20
"""The rows that a relation shows of itself."""

JOINS: dict[str, str] = {
    "inner": "JOIN",
    "left": "LEFT JOIN",
    "right": "RIGHT JOIN",
    "full": "FULL JOIN",
    "semi": "LEFT SEMI JOIN",
    "anti": "LEFT ANTI JOIN",
    "cross": "CROSS JOIN",
}


def quoted(name: str) -> str:
    """Returns a name as SQL takes it whatever its letters are.

    >>> print(quoted('a "b'))
    "a ""b"
    """
    return '"' + name.replace('"', '""') + '"'


def _selected(expressions: Sequence[str], named: Mapping[str, str]) -> list[str]:
    """Returns the columns of a query. Each expression ends with its line, so that a comment ends with it."""
    return [*expressions, *(f"{text}\n AS {quoted(name)}" for name, text in named.items())]


def listed(items: str | Sequence[str]) -> list[str]:
    return [items] if isinstance(items, str) else list(items)


class Relation:
    """The rows of a query. They are made when they are needed, each time anew; `collect` keeps them.

    A relation can be a table of other queries, by the name of its variable or as an argument, and it has
    ``__arrow_c_stream__``, so libraries that read Arrow read it.

    >>> import annulus_data as an
    >>> evens = an.sql("SELECT value AS x FROM generate_series(1, 6) WHERE value % 2 = 0")
    >>> an.sql("SELECT sum(x) AS total FROM evens").fetchall()
    [(12,)]
    """

    def __init__(self, session: Session, query: _internal.Query, rows: _internal.Rows | None = None) -> None:
        self._session = session
        self._query = query
        self._rows = rows

    # The columns.

    @property
    def columns(self) -> list[str]:
        """The names of the columns.

        >>> import annulus_data as an
        >>> an.sql("SELECT 1 AS a, 'x' AS b").columns
        ['a', 'b']
        """
        return self._query.schema.names

    @property
    def types(self) -> list[str]:
        """The Arrow types of the columns.

        >>> import annulus_data as an
        >>> an.sql("SELECT 1 AS a, 'x' AS b").types
        ['Int64', 'Utf8']
        """
        return self._query.schema.types

    # The rows.

    def _collected(self, progress: Progress = None) -> _internal.Rows:
        if self._rows is not None:
            return self._rows
        return self._session._rows(self._query.collect(), progress)

    def collect(self, progress: Progress = None) -> Relation:
        """Runs the query, and returns a relation that has its rows in memory.

        Args:
            progress: Whether a bar is shown, or what makes it, such as ``tqdm.tqdm``.

        Raises:
            QueryError: If the query fails.
            MemoryLimitError: If it needs more memory than the session may have.

        >>> import annulus_data as an
        >>> len(an.sql("SELECT * FROM generate_series(1, 5)").collect())
        5
        """
        return self._session._kept(self._collected(progress))

    async def collect_async(self) -> Relation:
        """Runs the query like `collect` while other tasks of the event loop run. If the task is
        cancelled, so is the query.

        >>> import asyncio
        >>> import annulus_data as an
        >>> len(asyncio.run(an.sql("SELECT 1").collect_async()))
        1
        """
        if self._rows is not None:
            return self
        rows = await self._session._rows_async(self._query.collect())
        return self._session._kept(rows)

    def to_arrow(self, progress: Progress = None) -> Any:
        """Returns the rows as a ``pyarrow.Table``. Nothing is copied.

        >>> import annulus_data as an
        >>> an.sql("SELECT 1 AS a").to_arrow().num_rows
        1
        """
        pyarrow = needed("pyarrow", "to_arrow")
        return pyarrow.table(self._collected(progress))

    def to_polars(self, progress: Progress = None) -> pl.DataFrame:
        """Returns the rows as a data frame of Polars. Nothing is copied but what Polars stores otherwise.

        >>> import annulus_data as an
        >>> an.sql("SELECT 1 AS a").to_polars().shape
        (1, 1)
        """
        polars = needed("polars", "to_polars")
        frame: pl.DataFrame = polars.DataFrame(self._collected(progress))
        return frame

    def to_pandas(self, progress: Progress = None, **options: Any) -> pd.DataFrame:
        """Returns the rows as a data frame of pandas.

        Args:
            progress: Whether a bar is shown, or what makes it.
            options: Those of ``pyarrow.Table.to_pandas``, such as ``types_mapper``.

        >>> import annulus_data as an
        >>> an.sql("SELECT 1 AS a").to_pandas()["a"].sum()
        np.int64(1)
        """
        needed("pandas", "to_pandas")
        frame: pd.DataFrame = self.to_arrow(progress).to_pandas(**options)
        return frame

    def to_numpy(self, progress: Progress = None) -> dict[str, np.ndarray[Any, Any]]:
        """Returns an array of NumPy for each column, by name. Numbers without nulls are not copied if
        they come in one batch; integers with nulls become floats, and null is NaN.

        >>> import annulus_data as an
        >>> an.sql("SELECT 1.5 AS a").to_numpy()["a"].tolist()
        [1.5]
        """
        needed("numpy", "to_numpy")
        table: Any = self.to_arrow(progress)
        return {name: column.to_numpy() for name, column in zip(self.columns, table.columns, strict=True)}

    def fetchall(self, progress: Progress = None) -> list[tuple[Any, ...]]:
        """Returns the rows as tuples: numbers, texts, bytes, ``datetime``, ``Decimal``, lists and
        dictionaries. Needs no other library.

        >>> import annulus_data as an
        >>> an.sql("SELECT 1 AS a, [1, NULL] AS b, DATE '2026-01-02' AS c").fetchall()
        [(1, [1, None], datetime.date(2026, 1, 2))]
        """
        return self._collected(progress).tuples()

    def fetchone(self) -> tuple[Any, ...] | None:
        """Returns the first row, or ``None`` if there is none.

        >>> import annulus_data as an
        >>> an.sql("SELECT 1 AS a").fetchone()
        (1,)
        """
        rows = self.limit(1).fetchall()
        return rows[0] if rows else None

    def to_dicts(self, progress: Progress = None) -> list[dict[str, Any]]:
        """Returns the rows as dictionaries.

        >>> import annulus_data as an
        >>> an.sql("SELECT 1 AS a").to_dicts()
        [{'a': 1}]
        """
        names = self.columns
        return [dict(zip(names, row, strict=True)) for row in self.fetchall(progress)]

    def batches(self) -> Iterator[_internal.Batch]:
        """Returns the rows batch by batch, as the query makes them. What is not read is not made, so the
        memory is that of the query and of a few batches.

        A batch has ``__arrow_c_array__``: ``pyarrow.record_batch(batch)`` and ``polars.DataFrame(batch)``
        read it without a copy.

        >>> import annulus_data as an
        >>> sum(len(batch) for batch in an.sql("SELECT * FROM generate_series(1, 100)").batches())
        100
        """
        return self._batches()

    def _batches(self) -> Iterator[_internal.Batch]:
        if self._rows is not None:
            yield from self._rows.batches()
            return
        try:
            yield from self._query.batches()
        finally:
            warn()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        source = self._query if self._rows is None else self._rows
        return source.__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        return self._query.schema.__arrow_c_schema__()

    def count(self, progress: Progress = None) -> int:
        """Returns the number of rows.

        >>> import annulus_data as an
        >>> an.sql("SELECT * FROM generate_series(1, 100)").count()
        100
        """
        if self._rows is not None:
            return len(self._rows)
        count: int = self._session._result(self._query.count(), progress)
        return count

    def __len__(self) -> int:
        return self.count()

    def write(
        self,
        path: str | os.PathLike[str],
        *,
        format: FileFormat | None = None,
        overwrite: bool = False,
        progress: Progress = None,
    ) -> int:
        """Writes the rows to a file or an object, which has its name when it is complete.

        Args:
            path: A path, or a URL such as ``s3://bucket/rows.parquet``.
            format: ``parquet``, ``csv``, ``tsv``, ``json`` (an object in each line) or ``arrow``. Without it, the
                name says it, as ``.parquet`` does.
            overwrite: Whether a file of this name is replaced.
            progress: Whether a bar is shown, or what makes it.

        Returns:
            The number of rows.

        Raises:
            InputError: If it cannot be written, or is there and is not to be replaced.

        >>> import os, tempfile
        >>> import annulus_data as an
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     an.sql("SELECT 1 AS a").write(os.path.join(folder, "a.parquet"))
        1
        """
        work = self._query.write(os.fspath(path), format, overwrite)
        written: int = self._session._result(work, progress)
        return written

    def write_parquet(self, path: str | os.PathLike[str], *, overwrite: bool = False, progress: Progress = None) -> int:
        """Writes the rows as a Parquet file, compressed by Zstandard, whatever its name is. See `write`."""
        return self.write(path, format="parquet", overwrite=overwrite, progress=progress)

    def write_csv(self, path: str | os.PathLike[str], *, overwrite: bool = False, progress: Progress = None) -> int:
        """Writes the rows as a CSV file with a header, whatever its name is. See `write`."""
        return self.write(path, format="csv", overwrite=overwrite, progress=progress)

    def write_json(self, path: str | os.PathLike[str], *, overwrite: bool = False, progress: Progress = None) -> int:
        """Writes the rows as JSON, an object in each line, whatever the file's name is. See `write`."""
        return self.write(path, format="json", overwrite=overwrite, progress=progress)

    def write_arrow(self, path: str | os.PathLike[str], *, overwrite: bool = False, progress: Progress = None) -> int:
        """Writes the rows as an Arrow IPC file, whatever its name is. See `write`."""
        return self.write(path, format="arrow", overwrite=overwrite, progress=progress)

    # What the engine does.

    def explain(self, *, analyze: bool = False, format: Literal["tree", "indent"] = "tree") -> str:
        """Returns the plan of the query as text.

        Args:
            analyze: Whether the query runs, and the plan has what its operators did. It is then in lines.
            format: ``tree``, or ``indent`` for one line an operator.

        >>> import annulus_data as an
        >>> print(an.sql("SELECT 1 AS a").explain(format="indent"))
        ProjectionExec: expr=[1 as a]
          PlaceholderRowExec
        <BLANKLINE>
        """
        text: str = self._session._result(self._query.explain(analyze, format), False)
        return text

    def plan(self, progress: Progress = None) -> Plan:
        """Runs the query, drops its rows, and returns what its operators did. In a notebook that is a picture.

        >>> import annulus_data as an
        >>> an.sql("SELECT 1 AS a").plan().root.rows
        1
        """
        text: str = self._session._result(self._query.profile(), progress)
        return Plan(text)

    # Other queries over these rows. Expressions are SQL.

    def _over(self, text: str, **tables: Any) -> Relation:
        return self._session._run(text, {"this": self, **tables}, None, False)

    def select(self, *expressions: str, **named: str) -> Relation:
        """Returns the rows with these columns, which are SQL expressions, or expressions by name.

        >>> import annulus_data as an
        >>> an.sql("SELECT 3 AS a, 4 AS b").select("a", "a * b AS c", d="b - a").to_dicts()
        [{'a': 3, 'c': 12, 'd': 1}]
        """
        columns = _selected(expressions, named)
        if not columns:
            raise OptionError("select takes at least one expression, such as 'a' or 'a + b AS c'")
        return self._over("SELECT " + "\n, ".join(columns) + "\nFROM this")

    def with_columns(self, **expressions: str) -> Relation:
        """Returns the rows with further columns, or with other values of columns that are there.

        >>> import annulus_data as an
        >>> an.sql("SELECT 3 AS a").with_columns(b="a + 1", a="a * 10").to_dicts()
        [{'a': 30, 'b': 4}]
        """
        kept = {name: expressions.get(name, quoted(name)) for name in self.columns}
        return self._over("SELECT " + "\n, ".join(_selected((), {**kept, **expressions})) + "\nFROM this")

    def filter(self, condition: str) -> Relation:
        """Returns the rows for which a condition is true.

        >>> import annulus_data as an
        >>> an.sql("SELECT value FROM generate_series(1, 5)").filter("value > 3").fetchall()
        [(4,), (5,)]
        """
        return self._over(f"SELECT * FROM this WHERE\n{condition}")

    def sort(self, *keys: str) -> Relation:
        """Returns the rows in the order of ``keys``, such as ``"a"`` or ``"b DESC NULLS LAST"``.

        >>> import annulus_data as an
        >>> an.sql("SELECT value FROM generate_series(1, 3)").sort("value DESC").fetchall()
        [(3,), (2,), (1,)]
        """
        if not keys:
            raise OptionError("sort takes at least one key, such as 'a' or 'a DESC'")
        return self._over(f"SELECT * FROM this ORDER BY\n{', '.join(keys)}")

    def limit(self, rows: int, offset: int = 0) -> Relation:
        """Returns the first ``rows`` rows after ``offset`` rows."""
        return self._over(f"SELECT * FROM this LIMIT {int(rows)} OFFSET {int(offset)}")

    def head(self, rows: int = 5) -> Relation:
        """Returns the first ``rows`` rows.

        >>> import annulus_data as an
        >>> an.sql("SELECT * FROM generate_series(1, 9)").head(2).fetchall()
        [(1,), (2,)]
        """
        return self.limit(rows)

    def distinct(self) -> Relation:
        """Returns each different row once.

        >>> import annulus_data as an
        >>> an.sql("SELECT value % 2 AS a FROM generate_series(1, 9)").distinct().count()
        2
        """
        return self._over("SELECT DISTINCT * FROM this")

    def union(self, other: Any) -> Relation:
        """Returns the rows of both, with repetitions. The columns correspond by name."""
        return self._over("SELECT * FROM this UNION ALL BY NAME SELECT * FROM other", other=other)

    def group_by(self, *keys: str) -> Grouping:
        """Returns the groups of the rows with equal values of ``keys``.

        >>> import annulus_data as an
        >>> rows = an.sql("SELECT value, value % 2 AS odd FROM generate_series(1, 5)")
        >>> rows.group_by("odd").agg("count(*) AS n", "max(value) AS last").sort("odd").fetchall()
        [(0, 2, 4), (1, 3, 5)]
        """
        if not keys:
            raise OptionError("group_by takes at least one key; for all rows together, use aggregate")
        return Grouping(self, keys)

    def aggregate(self, *expressions: str, **named: str) -> Relation:
        """Returns one row with functions over all rows.

        >>> import annulus_data as an
        >>> an.sql("SELECT value FROM generate_series(1, 4)").aggregate(total="sum(value)").to_dicts()
        [{'total': 10}]
        """
        return self.select(*expressions, **named)

    def join(
        self,
        other: Any,
        on: str | Sequence[str] | None = None,
        how: JoinType = "inner",
        *,
        where: str | None = None,
        between: str | None = None,
        asof: str | None = None,
        nearest: str | None = None,
        suffix: str = "_right",
    ) -> Relation:
        """Joins these rows, which are called ``l``, with those of a table, which are called ``r``.

        Args:
            other: A relation, a table of another library, or a path.
            on: Columns that must be equal, which the result has once.
            how: Which rows without a partner stay: those of the left, the right or both sides. ``semi`` returns
                the rows of the left side that have a partner, ``anti`` the others.
            where: A condition for pairs of rows, such as ``"l.t BETWEEN r.start AND r.stop"``.
            between: Another name of ``where``.
            asof: A comparison of times, such as ``"l.t >= r.t"``: the nearest row in time is the only partner.
                ``how`` is ``left`` or ``inner``.
            nearest: The order of the partners, such as ``"3 BY DISTANCE abs(l.x - r.x)"``: the first of them are
                the partners. ``how`` is ``inner`` or ``left``.
            suffix: What is added to names of the right side's columns that the left side also has.

        >>> import annulus_data as an
        >>> a = an.sql("SELECT * FROM (VALUES (1, 'x'), (2, 'y')) t(id, a)")
        >>> b = an.sql("SELECT * FROM (VALUES (2, 'z')) t(id, b)")
        >>> a.join(b, on="id").to_dicts()
        [{'id': 2, 'a': 'y', 'b': 'z'}]
        >>> a.join(b, where="l.id < r.id").columns
        ['id', 'a', 'id_right', 'b']
        """
        return self._session.join(
            self,
            other,
            on,
            how,
            where=where if where is not None else between,
            asof=asof,
            nearest=nearest,
            suffix=suffix,
        )

    def partition(
        self, output: str | os.PathLike[str], *, by: str | Sequence[str], into: int | None = None, **options: Any
    ) -> dict[str, Any]:
        """Writes the rows to files, by the values of a key. See `annulus_data.partition`.

        >>> import tempfile
        >>> import annulus_data as an
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     report = an.sql("SELECT value AS id FROM generate_series(1, 100)").partition(
        ...         folder + "/parts", by="id", into=4)
        >>> report["rows_out"], report["partitions"]
        (100, 4)
        """
        return self._session.partition(self, output=output, by=by, into=into, **options)

    # How it is shown.

    def _annulus_table(self, parts: int) -> _internal.Table:
        if self._rows is not None:
            return _internal.Table.in_memory(self._rows, parts)
        return self._query.as_table()

    def _head(self) -> tuple[list[list[str | None]], str]:
        if self._query.is_once and self._rows is None:
            return [], "rows of a stream, which can be read once: collect() keeps them"
        if self._rows is not None:
            total = len(self._rows)
            rows = self._rows.texts(_SHOWN)
            shown = "" if total <= _SHOWN else f", of which the first {_SHOWN} are shown"
            return rows, f"{total:,} row{'' if total == 1 else 's'}{shown}"
        work = self._query.collect(_SHOWN + 1)
        rows = self._session._rows(work, None).texts(_SHOWN + 1)
        if len(rows) > _SHOWN:
            return rows[:_SHOWN], f"the first {_SHOWN} rows"
        return rows, f"{len(rows)} row{'' if len(rows) == 1 else 's'}"

    def __repr__(self) -> str:
        rows, summary = self._head()
        return _display.as_text(self.columns, self.types, rows, summary)

    def _repr_html_(self) -> str:
        rows, summary = self._head()
        return _display.as_html(self.columns, self.types, rows, summary)

    def show(self, rows: int = _SHOWN) -> None:
        """Prints the first rows.

        >>> import annulus_data as an
        >>> an.sql("SELECT 1 AS a").show()
        +-------+
        | a     |
        | Int64 |
        +-------+
        |     1 |
        +-------+
        1 row
        """
        first = self.limit(rows).collect()
        texts = first._collected().texts(rows)
        summary = f"{len(texts):,} row{'' if len(texts) == 1 else 's'}"
        print(_display.as_text(self.columns, self.types, texts, summary))


class Grouping:
    """The rows of a relation, in groups."""

    def __init__(self, relation: Relation, keys: Sequence[str]) -> None:
        self._relation = relation
        self._keys = list(keys)

    def agg(self, *expressions: str, **named: str) -> Relation:
        """Returns a row for each group: its keys, and functions over its rows.

        >>> import annulus_data as an
        >>> an.sql("SELECT 1 AS k, 2 AS v").group_by("k").agg("sum(v) AS total", n="count(*)").to_dicts()
        [{'k': 1, 'total': 2, 'n': 1}]
        """
        keys = ", ".join(self._keys)
        columns = "\n, ".join([*self._keys, *_selected(expressions, named)])
        return self._relation._over(f"SELECT {columns}\nFROM this GROUP BY {keys}")
