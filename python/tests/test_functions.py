"""Functions in Python: over columns, and over the rows of a group."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import annulus_data as an


def test_functions_get_and_return_columns(session: an.Session) -> None:
    session.create_function("half", lambda x: pc.divide(x, 2.0), ["float"], "float")
    session.create_function("shout", lambda x: [value and value.upper() for value in x.to_pylist()], ["text"], "text")
    session.create_function("squared", lambda x: np.square(x.to_numpy(zero_copy_only=False)), [pa.int64()], pa.int64())
    rows = session.sql("SELECT half(value), shout('a' || value), squared(value) FROM generate_series(1, 2)")
    assert rows.fetchall() == [(0.5, "A1", 1), (1.0, "A2", 4)]
    assert session.sql("SELECT half(3), shout(NULL)").fetchall() == [(1.5, None)]


def test_types_may_be_those_of_python(session: an.Session) -> None:
    session.create_function("shown", lambda x: [str(value) for value in x.to_pylist()], [int], str)
    assert session.sql("SELECT shown(7)").fetchone() == ("7",)
    with pytest.raises(an.OptionError, match="unknown type"):
        session.create_function("f", lambda x: x, [dict], str)


def test_functions_may_be_conditions_of_joins(session: an.Session) -> None:
    session.create_function("near", lambda a, b: pc.less(pc.abs(pc.subtract(a, b)), 2), ["int", "int"], "bool")
    t = pa.table({"a": [1, 5, 9]})
    u = pa.table({"b": [2, 3, 8]})
    rows = session.sql("SELECT a, b FROM t JOIN u ON near(a, b) ORDER BY a, b", t=t, u=u)
    assert rows.fetchall() == [(1, 2), (9, 8)]
    left = session.sql("SELECT a, b FROM t LEFT JOIN u ON near(a, b) ORDER BY a", t=t, u=u)
    assert left.fetchall() == [(1, 2), (5, None), (9, 8)]


def test_functions_that_are_wrong_say_so(session: an.Session) -> None:
    def failing(_):
        raise RuntimeError("not today")

    session.create_function("failing", failing, ["int"], "int")
    session.create_function("short", lambda x: x[:-1], ["int"], "int")
    session.create_function("other", lambda x: ["x"] * len(x), ["int"], "int")
    with pytest.raises(RuntimeError, match="not today"):
        session.sql("SELECT failing(value) FROM generate_series(1, 9)").fetchall()
    with pytest.raises(an.QueryError, match="'short' returned 8 values for 9 rows"):
        session.sql("SELECT short(value) FROM generate_series(1, 9)").fetchall()
    with pytest.raises(an.QueryError, match="'other' returned Utf8 and promised Int64"):
        session.sql("SELECT other(value) FROM generate_series(1, 9)").fetchall()
    with pytest.raises(an.OptionError, match="'integral'"):
        session.create_function("f", failing, ["integral"], "int")
    with pytest.raises(an.OptionError, match="at least one argument"):
        session.create_function("f", failing, [], "int")


class Range:
    """The difference of the largest and the smallest value."""

    def __init__(self) -> None:
        self.least: float | None = None
        self.most: float | None = None

    def update(self, values: pa.Array) -> None:
        self.merge(values, values)

    def merge(self, least: pa.Array, most: pa.Array) -> None:
        for value in (pc.min(least).as_py(), self.least):
            if value is not None:
                self.least = value if self.least is None else min(self.least, value)
        for value in (pc.max(most).as_py(), self.most):
            if value is not None:
                self.most = value if self.most is None else max(self.most, value)

    def state(self) -> list[float | None]:
        return [self.least, self.most]

    def evaluate(self) -> float | None:
        return None if self.least is None or self.most is None else self.most - self.least


def test_aggregates_merge_their_states(session: an.Session) -> None:
    session.create_aggregate("spread", Range, ["float"], "float", state=["float", "float"])
    rows = session.sql(
        "SELECT value % 3 AS k, spread(value) AS s, spread(CASE WHEN value % 3 = 1 THEN value END) AS t "
        "FROM generate_series(1, 100000) GROUP BY 1 ORDER BY 1"
    )
    assert rows.fetchall() == [(0, 99996.0, None), (1, 99999.0, 99999.0), (2, 99996.0, None)]


def test_aggregates_that_are_wrong_say_so(session: an.Session) -> None:
    with pytest.raises(an.InputError, match="has no method 'merge'"):
        session.create_aggregate("a", type("Half", (), {"update": print, "state": print}), ["int"], "int", ["int"])
    broken = type("Broken", (Range,), {"evaluate": lambda self: "x"})
    session.create_aggregate("broken", broken, ["float"], "float", state=["float", "float"])
    with pytest.raises((an.QueryError, pa.ArrowInvalid)):
        session.sql("SELECT broken(value) FROM generate_series(1, 9)").fetchall()


def test_a_function_that_returns_no_array_is_named(session: an.Session) -> None:
    session.create_function("two", lambda a: 2, ["int"], "int")
    with pytest.raises(an.QueryError, match="function 'two' returned 2"):
        session.sql("SELECT two(value) FROM generate_series(1, 3)").fetchall()
