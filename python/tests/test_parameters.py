"""Parameters of statements."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import polars as pl
import pytest

import annulus_data as an


def test_parameters_have_the_values_of_python(session: an.Session) -> None:
    noon = dt.datetime(2026, 1, 2, 12, 0, 0, 5)
    values: list[object] = [
        None,
        True,
        -3,
        2**63,
        1.5,
        "o'x",
        b"\x00",
        Decimal("12.50"),
        Decimal("-0.001"),
        noon.date(),
        noon.time(),
        noon,
        noon.replace(tzinfo=dt.timezone.utc),
        dt.timedelta(days=-1, microseconds=7),
        [1, None, 3],
        [],
    ]
    names = ", ".join(f"${number} AS c{number}" for number in range(1, len(values) + 1))
    assert session.sql(f"SELECT {names}", values).fetchall() == [tuple(values)]
    zone = dt.timezone(dt.timedelta(hours=2))
    moment = noon.replace(tzinfo=zone)
    assert session.sql("SELECT $at AS at", {"at": moment}).fetchall() == [(moment,)]
    for found in (np.int32(4), np.float64(0.5), np.str_("a"), np.bool_(True)):
        assert session.sql("SELECT $a AS a", params={"a": found}).fetchall() == [(found.item(),)]


def test_parameters_stand_where_values_do(session: an.Session) -> None:
    session.sql("CREATE TABLE t AS SELECT value AS a, concat($x, value) AS b FROM generate_series(1, 9)", {"x": "x"})
    session.sql("INSERT INTO t VALUES ($1, $2)", [100, "y"])
    query = "SELECT b FROM t WHERE a >= $low AND a IN (SELECT a FROM t WHERE b <> $other) ORDER BY a LIMIT $n"
    assert session.sql(query, {"low": 8, "other": "x9", "n": 2}).fetchall() == [("x8",), ("y",)]
    rows = session.sql("SELECT count(*) AS n FROM t WHERE a < $low", {"low": 4})
    assert session.sql("SELECT n FROM rows").fetchall() == [(3,)]
    assert session.sql("SELECT array_has($list, 3) AS a", {"list": [1, 3]}).fetchall() == [(True,)]


def test_parameters_that_have_no_value_are_errors(session: an.Session) -> None:
    for params in (None, {}, {"b": 1}, [], [1]):
        with pytest.raises(an.AnnulusError, match=r"\$a"):
            session.sql("SELECT $a AS a", params).fetchall()
    for value, named in ((object(), "object"), ([1, "a"], "different types"), (2**64, "64 bits"), ({}, "dict")):
        with pytest.raises(an.OptionError, match=named):
            session.sql("SELECT $a AS a", {"a": value})
    with pytest.raises(an.OptionError, match="DataFrame"):
        session.sql("SELECT 1", pl.DataFrame({"a": [1]}))  # type: ignore[arg-type]
