"""Sessions: where queries run, and the tables that they know."""

from __future__ import annotations

import atexit
import os
import sys
import weakref
from collections.abc import Callable, Coroutine, Mapping, Sequence
from types import FrameType, TracebackType
from typing import Any, cast

from . import _functions, _internal, _tables
from ._notes import warn
from ._progress import Progress, watch
from .errors import OptionError
from .relation import JOINS, JoinType, Relation, listed, quoted

__all__ = ["Cluster", "Session", "default_session"]

Params = Sequence[Any] | Mapping[str, Any] | None
"""Values of the parameters of a statement: in a list for ``$1``, by name for ``$name``."""

_MOST_THREADS = 4096

_open_sessions: weakref.WeakSet[Session] = weakref.WeakSet()


def _close_all() -> None:
    """Ends what still runs, and removes the files of sessions that were not closed."""
    for session in list(_open_sessions):
        session.close()


atexit.register(_close_all)


def _size(value: int | str | None) -> str | None:
    return None if value is None else str(value)


def _text(value: object) -> str:
    """Returns the value of a setting as SQL and command lines take it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


class Session:
    """A session: tables by name, and statements over them. Queries run in this process.

    It can be used by several threads at once. With ``with``, or `close`, it ends: what runs is
    cancelled, and its files are removed.

    Args:
        memory_limit: The memory for operators, such as ``"4GB"`` or a number of bytes. What needs more goes to
            disk, or fails. Without it, memory is unlimited. Tables of the caller are not counted.
        disk_limit: The disk space for rows that do not fit in memory. The default is DataFusion's, 100 GB.
        threads: The number of threads, and of partitions of a query. The default is the number of cores.
        spill_folder: The folder for rows on disk. The default is that of temporary files.
        settings: Options of DataFusion and Annulus by name, as ``SHOW ALL`` lists them.
        progress: Whether bars are shown, or what makes them, such as ``tqdm.tqdm``. By default, people in
            notebooks and interactive shells see one if they wait for more than two seconds.

    Raises:
        OptionError: If an argument is wrong.

    >>> import annulus_data as an
    >>> with an.Session(memory_limit="1GB", threads=2) as session:
    ...     session.sql("SELECT 1 + 1 AS two").fetchall()
    [(2,)]
    """

    def __init__(
        self,
        *,
        memory_limit: int | str | None = None,
        disk_limit: int | str | None = None,
        threads: int | None = None,
        spill_folder: str | os.PathLike[str] | None = None,
        settings: Mapping[str, object] | None = None,
        progress: Progress = None,
    ) -> None:
        self._open(
            {
                "memory_limit": _size(memory_limit),
                "disk_limit": _size(disk_limit),
                "threads": threads,
                "spill_folder": None if spill_folder is None else os.fspath(spill_folder),
                "settings": [(name, _text(value)) for name, value in (settings or {}).items()],
            },
            progress,
        )

    def _open(self, options: dict[str, object], progress: Progress) -> None:
        threads = options.get("threads")
        if threads is not None and (not isinstance(threads, int) or not 0 < threads <= _MOST_THREADS):
            raise OptionError(f"threads is {threads!r}: expected a number from 1 to {_MOST_THREADS}")
        if progress is not None and not isinstance(progress, bool) and not callable(progress):
            raise OptionError(f"progress is {progress!r}: expected True, False or a callable such as tqdm.tqdm")
        empty = {"workers": None, "local_workers": None, "certificates": None, "silence": None, "retries": None}
        _internal.set_program(*_program())
        self._session = _internal.Session({**empty, **options})
        self._progress: Progress = progress
        self._parts = threads or os.cpu_count() or 1
        self._registered: dict[str, _internal.Table] = {}
        self._foreign: list[object] = []
        _open_sessions.add(self)

    # Statements.

    def sql(self, query: str, /, params: Params = None, **tables: Any) -> Relation:
        """Runs SQL statements, and returns the rows of the last one.

        A query runs when its rows are needed. Other statements, such as ``CREATE TABLE`` and ``COPY``, have
        run when this returns.

        A table's name is looked up in ``tables``, in the session, in the variables of the caller, and then
        as a path: a file, a folder, a glob or a URL, as in ``FROM 'orders/*.parquet'``.

        Args:
            query: Statements, separated by semicolons.
            params: Values for ``$1``, ``$2`` and so on, as a list, or for ``$name``, as a dictionary.
            tables: Tables by name: of pyarrow, Polars, pandas or DuckDB, relations, generators of record
                batches, and everything else that has ``__arrow_c_stream__`` or ``__arrow_c_array__``. Tables in
                memory are not copied. Streams are read once, as the query goes.

        Raises:
            SqlError: If a statement is wrong. It marks the place.
            InputError: If a table cannot be read.

        >>> import annulus_data as an
        >>> import pyarrow as pa
        >>> orders = pa.table({"id": [1, 2], "price": [10.0, 5.5]})
        >>> with an.Session() as session:
        ...     session.sql("SELECT sum(price) AS total FROM orders WHERE id >= $least", {"least": 2}).fetchall()
        [(5.5,)]
        """
        return self._run(query, tables, sys._getframe(1), True, params)

    def sql_async(self, query: str, /, params: Params = None, **tables: Any) -> Coroutine[Any, Any, Relation]:
        """Runs statements like `sql` while other tasks of the event loop run, and returns the rows of
        the last one, in memory. If the task is cancelled, so is the statement.

        >>> import asyncio
        >>> import annulus_data as an
        >>> async def main():
        ...     with an.Session() as session:
        ...         return (await session.sql_async("SELECT 1 AS a")).fetchall()
        >>> asyncio.run(main())
        [(1,)]
        """
        # Variables are looked up now: when the coroutine runs, the caller's frame is another.
        named = self._named(query, tables, sys._getframe(1))
        return self._run_async(query, named, params)

    async def _run_async(self, query: str, named: _Named, params: Params) -> Relation:
        planned: _internal.Query | None = await self._result_async(self._session.sql(query, *named, params))
        relation = self._relation(planned)
        return relation if relation._rows is not None else await relation.collect_async()

    def _named(self, query: str, tables: Mapping[str, Any], frame: FrameType | None) -> _Named:
        """Returns the tables that a statement names: those that were given, and variables of ``frame``."""
        given = {name: _tables.given(name, data, self._parts) for name, data in tables.items()}
        found: dict[str, _internal.Table] = {}
        for name in self._session.names(query):
            if name in given or name in found or not name.isidentifier():
                continue
            # Names without quotes are lower case in SQL.
            if (table := _alike(name, given)) is not None:
                given[name] = table
            elif self._session.has_table(name):
                continue
            elif (table := _alike(name, self._registered)) is not None:
                given[name] = table
            elif frame is not None and (table := _tables.find(name, frame, self._parts)) is not None:
                found[name] = table
        return given, found

    def _run(
        self,
        query: str,
        tables: Mapping[str, Any],
        frame: FrameType | None,
        is_progress: bool,
        params: Params = None,
    ) -> Relation:
        given, found = self._named(query, tables, frame)
        planned: _internal.Query | None = self._result(
            self._session.sql(query, given, found, params), self._progress if is_progress else False
        )
        return self._relation(planned)

    def _relation(self, planned: _internal.Query | None) -> Relation:
        if planned is None:
            return self._run("SELECT 'done' AS result WHERE false", {}, None, False)
        return Relation(self, planned)

    def _kept(self, rows: _internal.Rows) -> Relation:
        # In one part, so that the rows keep their order.
        table = _internal.Table.in_memory(rows, 1)
        planned: _internal.Query = self._session.sql("SELECT * FROM kept", {"kept": table}, {}).wait(None)
        return Relation(self, planned, rows)

    def _result(self, work: _internal.Work, progress: Progress) -> Any:
        with watch(self._progress if progress is None else progress, "query", "rows") as on_progress:
            try:
                return work.wait(on_progress)
            finally:
                warn()

    def _rows(self, work: _internal.Work, progress: Progress) -> _internal.Rows:
        rows: _internal.Rows = self._result(work, progress)
        return rows

    async def _result_async(self, work: _internal.Work) -> Any:
        # Imported where it is needed, as it takes longer to import than this package.
        import asyncio

        loop = asyncio.get_running_loop()
        is_over = asyncio.Event()
        work.on_end(lambda: loop.call_soon_threadsafe(is_over.set))
        try:
            await is_over.wait()
            return work.result()
        except asyncio.CancelledError:
            await loop.run_in_executor(None, work.cancel)
            raise
        finally:
            warn()

    async def _rows_async(self, work: _internal.Work) -> _internal.Rows:
        rows: _internal.Rows = await self._result_async(work)
        return rows

    # Tables.

    def table(self, source: Any) -> Relation:
        """Returns the rows of a table: one of the session by its name, a path, a URL, or a table of another
        library.

        >>> import annulus_data as an
        >>> import pyarrow as pa
        >>> an.default_session().table(pa.table({"a": [1, 2]})).count()
        2
        """
        if isinstance(source, Relation):
            return source
        if isinstance(source, (str, os.PathLike)):
            return self._run(f"SELECT * FROM {_from(os.fspath(cast('str', source)))}", {}, None, True)
        return self._run("SELECT * FROM source", {"source": source}, None, True)

    def read(self, path: str | os.PathLike[str] | Sequence[str], **options: object) -> Relation:
        """Returns the rows of files: Parquet, CSV, JSON, Arrow, Avro or page files.

        Args:
            path: A file, a folder, a glob or a URL, or a list of them.
            options: How they are read, such as ``delimiter=";"``, ``header=False``, ``types="zip=text"``,
                ``null="NA"`` or ``format="csv"``; a list gives an option several times. ``annulus help csv``
                describes them.

        Raises:
            InputError: If there is no such file, or it cannot be read.
            OptionError: If an option is unknown.

        >>> import os, tempfile
        >>> import annulus_data as an
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = os.path.join(folder, "a.csv")
        ...     written = an.sql("SELECT 7 AS a").write(path)
        ...     an.default_session().read(path, types="a=text").fetchall()
        [('7',)]
        """
        paths: list[str] = [os.fspath(each) for each in _all(path)]
        pairs = [(name, _text(value)) for name, values in options.items() for value in _all(values)]
        return self._relation(self._result(self._session.read(paths, pairs), None))

    def register(self, name: str, table: Any) -> None:
        """Gives a table a name in the session, until `unregister`. Another table of the name is
        replaced. A relation is a view, whose rows are made by each query.

        >>> import annulus_data as an
        >>> import pyarrow as pa
        >>> with an.Session() as session:
        ...     session.register("t", pa.table({"a": [1, 2]}))
        ...     session.sql("SELECT max(a) AS m FROM t").fetchall()
        [(2,)]
        """
        made = _tables.given(name, table, self._parts)
        self._session.register(name, made)
        self._registered[name] = made

    def unregister(self, name: str) -> bool:
        """Takes a table's name away, and returns whether it had one."""
        self._registered.pop(name, None)
        return self._session.deregister(name)

    def tables(self) -> list[str]:
        """Returns the names of the session's tables and views.

        >>> import annulus_data as an
        >>> with an.Session() as session:
        ...     _ = session.sql("CREATE TABLE t AS SELECT 1 AS a")
        ...     session.tables()
        ['t']
        """
        found = self._run(
            "SELECT table_name FROM information_schema.tables "
            "WHERE table_schema <> 'information_schema' ORDER BY table_name",
            {},
            None,
            False,
        )
        return [name for (name,) in found.fetchall()]

    # Joins, and datasets.

    def join(
        self,
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
        """Joins two tables, which are called ``l`` and ``r`` in conditions. See `Relation.join`.

        Args:
            left: A relation, a table of another library, or a path.
            right: The same.
            on: Columns that must be equal, which the result has once.
            how: Which rows without a partner stay.
            where: A condition for pairs of rows.
            asof: A comparison of times, such as ``"l.t >= r.t"``.
            nearest: The order of the partners, such as ``"3 BY DISTANCE abs(l.x - r.x)"``.
            suffix: What is added to names of the right side's columns that the left side also has.

        >>> import annulus_data as an
        >>> import pyarrow as pa
        >>> events = pa.table({"t": [5, 20]})
        >>> alerts = pa.table({"t": [4, 9], "level": ["low", "high"]})
        >>> joined = an.default_session().join(events, alerts, where="l.t BETWEEN r.t AND r.t + 3")
        >>> joined.to_dicts()
        [{'t': 5, 't_right': 4, 'level': 'low'}]
        """
        sides = (self.table(left), self.table(right))
        text = _join_text(sides, [] if on is None else listed(on), how, where, asof, nearest, suffix)
        return self._run(text, {"annulus_l": sides[0], "annulus_r": sides[1]}, None, True)

    def partition(
        self,
        data: Any,
        *,
        output: str | os.PathLike[str],
        by: str | Sequence[str] | None = None,
        into: int | None = None,
        sort_by: str | Sequence[str] | None = None,
        progress: Progress = None,
        **options: object,
    ) -> dict[str, Any]:
        """Splits a table into files by the values of a key, in bounded memory. See
        `annulus_data.partition`."""
        import json
        import tempfile

        with tempfile.TemporaryDirectory(prefix="annulus-partition-") as folder:
            inputs = [os.fspath(path) for path in _paths(data)]
            if not inputs:
                inputs = [os.path.join(folder, "rows.arrow")]
                self.table(data).write(inputs[0], progress=progress)
            words = [f"--output={os.fspath(output)}"]
            words += [f"--by={_columns(by)}"] if by is not None else []
            words += [f"--into={into}"] if into is not None else []
            words += [f"--sort-by={_columns(sort_by)}"] if sort_by is not None else []
            words += [*_words(options), "--", *inputs]
            with watch(self._progress if progress is None else progress, "partition", "B") as on_progress:
                try:
                    report = self._session.partition(words).wait(on_progress)
                finally:
                    warn()
        result: dict[str, Any] = json.loads(report)
        return result

    # Functions in Python.

    def create_function(
        self,
        name: str,
        function: Callable[..., Any],
        arguments: Sequence[object],
        returns: object,
        *,
        is_volatile: bool = False,
    ) -> None:
        """Adds a function over columns, which SQL then calls by its name.

        Args:
            name: Its name in SQL.
            function: Gets a ``pyarrow.Array`` for each argument, of as many values, and returns as many
                values: an array of pyarrow or NumPy, or a list. It is called for some thousand rows at a time,
                by several threads, one after the other.
            arguments: The types of the arguments: ``"int"``, ``"float"``, ``"text"``, ``"bool"``, ``"date"``,
                ``"timestamp"``, ``"timestamptz"`` (in UTC), ``"decimal(10,2)"``, the name of an Arrow type, a type of
                pyarrow, or ``int``, ``float``, ``str``, ``bool`` or ``bytes``.
            returns: The type of the result.
            is_volatile: Whether calls with the same arguments may return different values.

        Raises:
            OptionError: If a type is unknown.

        >>> import annulus_data as an
        >>> import pyarrow.compute as pc
        >>> with an.Session() as session:
        ...     session.create_function("doubled", lambda x: pc.multiply(x, 2), ["int"], "int")
        ...     session.sql("SELECT doubled(21) AS a").fetchall()
        [(42,)]
        """
        if not callable(function):
            raise OptionError(f"function is {function!r}: expected a callable")
        if not arguments:
            raise OptionError("a function takes at least one argument: give the type of each in arguments")
        called = _functions.scalar(name, function, returns)
        types = [_functions.type_of(kind) for kind in arguments]
        self._session.create_function(name, called, types, _functions.type_of(returns), is_volatile)

    def create_aggregate(
        self, name: str, aggregate: type[Any], arguments: Sequence[object], returns: object, state: Sequence[object]
    ) -> None:
        """Adds a function over the rows of a group, which SQL then calls by its name.

        Args:
            name: Its name in SQL.
            aggregate: A class with the methods ``update(*columns)``, which adds rows;
                ``state()``, which returns what they come to as a list of values; ``merge(*columns)``, which adds
                states, a column for each of their values; and ``evaluate()``, which returns the result.
            arguments: The types of the arguments, as in `create_function`.
            returns: The type of the result.
            state: The types of the values of a state.

        >>> import annulus_data as an
        >>> import pyarrow.compute as pc
        >>> class Product:
        ...     def __init__(self):
        ...         self.value = 1
        ...     def update(self, values):
        ...         self.value *= pc.product(values).as_py() or 1
        ...     def state(self):
        ...         return [self.value]
        ...     def merge(self, products):
        ...         self.update(products)
        ...     def evaluate(self):
        ...         return self.value
        >>> with an.Session() as session:
        ...     session.create_aggregate("product", Product, ["int"], "int", state=["int"])
        ...     session.sql("SELECT product(value) AS a FROM generate_series(1, 5)").fetchall()
        [(120,)]
        """
        if not arguments:
            raise OptionError("an aggregate takes at least one argument: give the type of each in arguments")
        made = _functions.aggregate(aggregate, returns, list(state))
        types, states = ([_functions.type_of(kind) for kind in kinds] for kinds in (arguments, state))
        self._session.create_aggregate(name, made, types, _functions.type_of(returns), states)

    # Its end.

    def close(self) -> None:
        """Ends the session: what runs is cancelled, and its files are removed. Relations of the session that
        were not collected cannot be read any more."""
        self._session.close()
        self._foreign.clear()
        _open_sessions.discard(self)

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<annulus_data.{type(self).__name__}{', closed' if self._session.is_closed else ''}>"


class Cluster(Session):
    """A session whose queries run on workers. Small ones run in this process.

    Args:
        workers: The addresses of workers that ``annulus worker`` serves, such as ``["10.0.0.1:7500"]``, or a
            number of workers to start on this machine, which end with the session.
        certificates: The folder with the certificate and the key of a submitter, if the workers have
            certificates. Workers of this machine get their own.
        silence: The seconds without an answer after which a worker is lost. The default is 10.
        retries: The times that a query starts again if a worker is lost. The default is 2. The rows of a query are
            held until it has ended; with 0, they arrive as they are found.
        memory_limit: The memory for operators: of each worker that is started on this machine, and of this
            process.
        threads: The partitions of a worker's tasks.
        settings: Options of DataFusion and Annulus by name.
        progress: Whether bars are shown, or what makes them.

    Files that queries name are read by the workers, at the same paths. Functions in Python run in this
    process only.

    Raises:
        WorkerError: If no worker answers when a query needs them.

    >>> import annulus_data as an
    >>> with an.Cluster(2) as cluster:
    ...     cluster.sql("SELECT 1 AS a").fetchall()
    [(1,)]
    """

    def __init__(
        self,
        workers: int | Sequence[str] | str,
        *,
        certificates: str | os.PathLike[str] | None = None,
        silence: float | None = None,
        retries: int | None = None,
        memory_limit: int | str | None = None,
        threads: int | None = None,
        settings: Mapping[str, object] | None = None,
        progress: Progress = None,
    ) -> None:
        addresses: str | None = None
        if isinstance(workers, int):
            if workers < 1:
                raise OptionError(f"workers is {workers}: expected a number from 1 on, or addresses")
            if certificates is not None:
                raise OptionError("certificates is for workers that are named: those of this machine get their own")
        else:
            addresses = workers if isinstance(workers, str) else ",".join(workers)
        if retries is not None and retries < 0:
            raise OptionError(f"retries is {retries}: expected a number from 0 on")
        self._open(
            {
                "memory_limit": _size(memory_limit),
                "disk_limit": None,
                "threads": threads,
                "spill_folder": None,
                "settings": [(name, _text(value)) for name, value in (settings or {}).items()],
                "workers": addresses,
                "local_workers": workers if isinstance(workers, int) else None,
                "certificates": None if certificates is None else os.fspath(certificates),
                "silence": silence,
                "retries": retries,
            },
            progress,
        )


_default: Session | None = None


def default_session() -> Session:
    """Returns the session of ``annulus_data.sql`` and the other functions of the module, which is opened
    when it is first needed.

    >>> import annulus_data as an
    >>> an.default_session() is an.default_session()
    True
    """
    global _default
    if _default is None or _default._session.is_closed:
        _default = Session()
    return _default


def _program() -> tuple[str, list[str]]:
    """Returns what runs the command in a process that finds the same modules as this one."""
    text = f"import sys; sys.path = {sys.path!r}; from annulus_data.__main__ import main; main()"
    return sys.executable, ["-c", text]


_Named = tuple[dict[str, _internal.Table], dict[str, _internal.Table]]


def _alike(name: str, tables: Mapping[str, _internal.Table]) -> _internal.Table | None:
    """Returns the one of ``tables`` whose name is ``name`` apart from its case, if there is one."""
    alike = [table for other, table in tables.items() if other.lower() == name]
    return alike[0] if len(alike) == 1 else None


def _all(values: object) -> list[Any]:
    """Returns the values of an option, which may be given several times."""
    return list(cast("Sequence[Any]", values)) if isinstance(values, (list, tuple)) else [values]


def _from(path: str | os.PathLike[str]) -> str:
    return "'" + os.fspath(path).replace("'", "''") + "'"


def _paths(data: Any) -> list[str]:
    """Returns the paths that an argument names; none if it is a table."""
    items: list[Any] = _all(data)
    return [os.fspath(item) for item in items] if all(isinstance(item, (str, os.PathLike)) for item in items) else []


def _columns(columns: str | Sequence[str]) -> str:
    return ",".join(quoted(column) if '"' in column or "," in column else column for column in listed(columns))


def _words(options: Mapping[str, object]) -> list[str]:
    """Returns options as the words of a command line."""
    words: list[str] = []
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        if value is True:
            words.append(flag)
        elif isinstance(value, (list, tuple)) and name in ("null", "read"):
            words += [f"{flag}={_text(each)}" for each in _all(cast("object", value))]
        elif isinstance(value, (list, tuple)):
            words.append(f"{flag}={','.join(_text(each) for each in _all(cast('object', value)))}")
        elif value is not None and value is not False:
            words.append(f"{flag}={_text(value)}")
    return words


def _join_text(
    sides: tuple[Relation, Relation],
    on: Sequence[str],
    how: JoinType,
    where: str | None,
    asof: str | None,
    nearest: str | None,
    suffix: str,
) -> str:
    """Returns the query of a join of ``annulus_l`` and ``annulus_r``."""
    if how not in JOINS:
        raise OptionError(f"invalid how '{how}': expected one of {', '.join(JOINS)}")
    if not on and where is None and asof is None and nearest is None and how != "cross":
        raise OptionError("a join needs a condition: give on, where, asof or nearest, or how='cross'")
    if how == "cross" and (on or where is not None or asof is not None or nearest is not None):
        raise OptionError("a cross join has no condition: leave out on, where, asof and nearest, or choose another how")
    left, right = (side.columns for side in sides)
    for name in on:
        for side, columns in (("left", left), ("right", right)):
            if name not in columns:
                raise OptionError(f"the {side} side has no column '{name}': it has {', '.join(columns)}")
    equal = [f"l.{quoted(name)} = r.{quoted(name)}" for name in on]
    tables = "annulus_l AS l {} annulus_r AS r"
    if asof is not None:
        if where is not None or nearest is not None or how not in ("left", "inner"):
            raise OptionError("asof cannot be used with where or nearest, and how is 'left' or 'inner'")
        tables = "annulus_l AS l ASOF JOIN (SELECT *, true AS __annulus_found FROM annulus_r) AS r"
        text = f"{tables} MATCH_CONDITION ({asof}\n)"
        text += f" ON {' AND '.join(equal)}" if equal else ""
        text += " WHERE r.__annulus_found" if how == "inner" else ""
    elif nearest is not None:
        if where is not None or equal or how not in ("left", "inner"):
            raise OptionError("nearest cannot be used with on or where, and how is 'inner' or 'left'")
        text = tables.format(f"{'LEFT ' if how == 'left' else ''}JOIN") + f" EXACT NEAREST {nearest}"
    else:
        conditions = equal + ([f"({where}\n)"] if where is not None else [])
        text = tables.format(JOINS[how]) + (f" ON {' AND '.join(conditions)}" if how != "cross" else "")
    names: list[str] = []
    for name in left:
        column = (
            f"coalesce(l.{quoted(name)}, r.{quoted(name)})"
            if how in ("right", "full") and name in on
            else f"l.{quoted(name)}"
        )
        names.append(f"{column} AS {quoted(name)}")
    if how not in ("semi", "anti"):
        taken = set(left)
        for name in right:
            if name in on:
                continue
            shown = name
            while shown in taken:
                shown += suffix or "_right"
            taken.add(shown)
            names.append(f"r.{quoted(name)} AS {quoted(shown)}")
    return f"SELECT {', '.join(names)}\nFROM {text}"
