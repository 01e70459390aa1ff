"""Tables of the caller, as a session reads them."""

from __future__ import annotations

import importlib
import weakref
from collections.abc import Callable, Iterator, Mapping
from types import FrameType, FunctionType, GeneratorType, ModuleType
from typing import Any

from . import _internal
from ._modules import needed
from .errors import InputError

__all__ = ["find", "table_of"]


_IS_GENERATOR = 0x20
"""The flag of functions that are generators (``inspect.CO_GENERATOR``; ``inspect`` takes long to import)."""


def _in_memory(data: Any, origin: str, parts: int) -> _internal.Table:
    try:
        return _internal.Table.in_memory(data, parts)
    except InputError as error:
        if origin != "pyarrow" or "slice of nested structs" not in str(error):
            raise
        # arrow-rs 59 cannot read them where they are.
        return _internal.Table.in_memory(data.take(list(range(len(data)))), parts)


def _is_iterator(data: Any) -> bool:
    return isinstance(data, (GeneratorType, Iterator))


def _is_sized(data: Any) -> bool:
    """Whether an object with a stream has all its rows in memory."""
    return not hasattr(data, "__next__") and any(hasattr(data, name) for name in ("__len__", "num_rows", "shape"))


def _origin(data: Any) -> str:
    return str(type(data).__module__).split(".")[0].lstrip("_")


_readings: weakref.WeakKeyDictionary[Any, _internal.Reading] = weakref.WeakKeyDictionary()
"""How far the objects have been read that one query can read."""


def _once(data: Any) -> _internal.Table:
    """Returns the table of an object that one query can read."""
    try:
        reading = _readings.setdefault(data, _internal.Reading())
    except TypeError:
        # There are no weak references to it: it is known by this table alone.
        reading = _internal.Reading()
    return _internal.Table.of_stream(_internal.Stream(lambda: data), True, None, reading)


def _again(open_stream: Callable[[], Any], sample: Callable[[], Any] | None = None) -> _internal.Table:
    """Returns the table of a stream that each query opens; ``sample`` has the same columns, and no rows."""
    columns = None if sample is None else _internal.Stream(sample)
    return _internal.Table.of_stream(_internal.Stream(open_stream), False, columns)


def table_of(data: Any, parts: int) -> _internal.Table | None:
    """Returns the table of an object, in ``parts`` parts; ``None`` if it is not one."""
    if isinstance(data, _internal.Table):
        return data
    as_table: Callable[[int], _internal.Table] | None = getattr(data, "_annulus_table", None)
    if as_table is not None:
        return as_table(parts)
    if isinstance(data, (type, ModuleType)):
        return None
    origin = _origin(data)
    if origin in ("pandas", "polars") and hasattr(data, "to_frame"):
        # A column, whose name is that of the series.
        return table_of(_framed(data), parts)
    if origin == "pandas" and hasattr(data, "columns") and hasattr(data, "index"):
        return _internal.Table.in_memory(_without_unnamed_index(data), parts)
    if origin == "polars" and hasattr(data, "collect"):
        return _again(lambda: _without_nulls(data.collect()), lambda: _without_nulls(data.limit(0).collect()))
    if origin == "pyarrow" and hasattr(data, "scanner"):
        return _again(lambda: data.scanner().to_reader(), lambda: data.schema.empty_table())
    if origin == "pyarrow" and hasattr(data, "to_reader") and hasattr(data, "projected_schema"):
        return _again(data.to_reader, lambda: data.projected_schema.empty_table())
    if hasattr(data, "__arrow_c_stream__"):
        if origin == "duckdb":
            return _again(lambda: data, lambda: data.limit(0))
        if not _is_sized(data):
            return _once(data)
        if origin == "polars":
            data = _without_nulls(data)
        if origin == "pyarrow" and getattr(data, "null_count", False):
            raise InputError("rows of a table cannot be null as a whole: give the columns as a table")
        return _in_memory(data, origin, parts)
    if hasattr(data, "__arrow_c_array__"):
        return _internal.Table.of_batch(data, parts)
    if hasattr(data, "__dataframe__"):
        needed("pyarrow", "the interchange protocol")
        interchange: Any = importlib.import_module("pyarrow.interchange")
        return _internal.Table.in_memory(interchange.from_dataframe(data), parts)
    if _is_iterator(data):
        return _once(data)
    return None


def _framed(series: Any) -> Any:
    """Returns a series as a data frame of one column."""
    return series.to_frame(series.name or "value")


def _without_unnamed_index(frame: Any) -> Any:
    """Returns a data frame of pandas as a table of pyarrow. An index becomes columns, if it has names."""
    names = list(frame.index.names)
    is_named = any(name is not None for name in names)
    if is_named and None in names:
        unnamed = [level for level, name in enumerate(names) if name is None]
        frame = frame.reset_index(level=unnamed, drop=True)
    return needed("pyarrow", "tables of pandas").Table.from_pandas(frame, preserve_index=None if is_named else False)


def _without_nulls(frame: Any) -> Any:
    """Returns a data frame of Polars whose columns without values and types can be read: Polars 2.1 passes
    them with a buffer that Arrow does not give them, and arrow-rs refuses that."""
    if not any("Null" in str(kind) for kind in frame.dtypes):
        return frame
    return needed("pyarrow", "a column of nulls of Polars").table(frame)


def given(name: str, data: Any, parts: int) -> _internal.Table:
    """Returns the table of an argument.

    Raises:
        InputError: If it is not one.
    """
    if isinstance(data, FunctionType) and data.__code__.co_flags & _IS_GENERATOR:
        # Called by each query, so that it can be read again.
        return _again(data)
    table = table_of(data, parts)
    if table is None:
        kind = type(data).__qualname__
        raise InputError(
            f"'{name}' is a {kind}, which is not a table: give an object with __arrow_c_stream__, such as one of "
            "pyarrow, Polars, pandas or DuckDB, or a generator of record batches"
        )
    return table


def find(name: str, frame: FrameType | None, parts: int) -> _internal.Table | None:
    """Returns the table that a variable of the caller's ``frame`` has, if there is one."""
    scopes: list[Mapping[str, Any]] = []
    while frame is not None:
        scopes.append(frame.f_locals)
        if not frame.f_code.co_name.startswith("<") or frame.f_code.co_name == "<module>":
            scopes.append(frame.f_globals)
            break
        # Comprehensions and lambdas have frames of their own.
        frame = frame.f_back
    for scope in scopes:
        if name in scope:
            return table_of(scope[name], parts)
        # Names without quotes are lower case in SQL.
        alike = [variable for variable in scope if variable.lower() == name]
        if len(alike) == 1 and (table := table_of(scope[alike[0]], parts)) is not None:
            return table
    return None
