"""Functions in Python, as a session calls them."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

from .errors import InputError, OptionError, QueryError

__all__ = ["aggregate", "scalar"]


def _pyarrow() -> Any:
    try:
        return importlib.import_module("pyarrow")
    except ImportError:
        raise InputError("functions in Python get columns of pyarrow: pip install pyarrow") from None


_TYPES: dict[object, str] = {int: "int", float: "float", str: "text", bool: "bool", bytes: "Binary"}
"""The types of Python that have one in Arrow."""


def type_of(given: object) -> object:
    """Returns a type of an argument or a result as the session takes it."""
    if isinstance(given, str) or hasattr(given, "__arrow_c_schema__"):
        return given
    known = next((name for kind, name in _TYPES.items() if given is kind), None)
    if known is None:
        raise OptionError(f"unknown type {given!r}: give a name such as 'int', a type of pyarrow, or int, float or str")
    return known


def _array(values: Any, kind: Any, pa: Any, what: str) -> Any:
    """Returns what a function returned as an array."""
    if hasattr(values, "combine_chunks"):
        values = values.combine_chunks()
    if hasattr(values, "__arrow_c_array__"):
        return values
    if not hasattr(values, "__iter__"):
        raise QueryError(f"{what} returned {values!r}: return an array, or a list of values")
    return pa.array(values, from_pandas=False, type=kind if isinstance(kind, pa.DataType) else None)


def scalar(name: str, function: Callable[..., Any], returns: object) -> Callable[..., Any]:
    """Returns a function that gets columns with ``__arrow_c_array__`` and returns one."""
    pa = _pyarrow()

    def call(*columns: Any) -> Any:
        return _array(function(*(pa.array(column) for column in columns)), returns, pa, f"function '{name}'")

    return call


def aggregate(given: type[Any], returns: object, state: Sequence[object]) -> Callable[[], Any]:
    """Returns what makes objects whose methods take and return columns with ``__arrow_c_array__``."""
    pa = _pyarrow()
    for method in ("update", "state", "merge", "evaluate"):
        if not callable(getattr(given, method, None)):
            raise InputError(f"the aggregate {given.__qualname__} has no method '{method}'")

    class Group:
        def __init__(self) -> None:
            self._group = given()

        def update(self, *columns: Any) -> None:
            self._group.update(*(pa.array(column) for column in columns))

        def merge(self, *columns: Any) -> None:
            self._group.merge(*(pa.array(column) for column in columns))

        def state(self) -> list[Any]:
            return [_array([value], kind, pa, "state") for value, kind in zip(self._group.state(), state, strict=True)]

        def evaluate(self) -> Any:
            return _array([self._group.evaluate()], returns, pa, "evaluate")

    return Group
