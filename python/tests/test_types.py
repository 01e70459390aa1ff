"""Values of each type, in and out."""

from __future__ import annotations

import datetime as dt
import decimal
import zoneinfo

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import annulus_data as an

UTC = dt.timezone.utc
VALUES = {
    "bool": pa.array([True, None]),
    "i8": pa.array([-128, None], pa.int8()),
    "u64": pa.array([2**64 - 1, None], pa.uint64()),
    "f16": pa.array([1.5, None], pa.float16()),
    "f32": pa.array([0.1, None], pa.float32()),
    "f64": pa.array([float("inf"), None]),
    "text": pa.array(["ä🙂", None]),
    "large_text": pa.array(["x", None], pa.large_string()),
    "text_view": pa.array(["a text of more than twelve bytes", None], pa.string_view()),
    "bytes": pa.array([b"\x00\xff", None]),
    "fixed": pa.array([b"abc", None], pa.binary(3)),
    "date": pa.array([dt.date(1600, 2, 29), None]),
    "date64": pa.array([dt.date(2026, 11, 30), None], pa.date64()),
    "time": pa.array([dt.time(23, 59, 59, 999999), None]),
    "time32": pa.array([dt.time(1, 2, 3), None], pa.time32("s")),
    "ts_s": pa.array([dt.datetime(1969, 12, 31, 23, 59, 59), None], pa.timestamp("s")),
    "ts_us": pa.array([dt.datetime(2026, 1, 2, 3, 4, 5, 678901), None], pa.timestamp("us")),
    "ts_ns": pa.array([dt.datetime(2026, 1, 2, 3, 4, 5, 678901), None], pa.timestamp("ns")),
    "ts_utc": pa.array([dt.datetime(2026, 7, 1, 12, tzinfo=UTC), None], pa.timestamp("us", "UTC")),
    "ts_zone": pa.array([dt.datetime(2026, 7, 1, 12, tzinfo=UTC), None], pa.timestamp("ms", "Europe/Berlin")),
    "ts_offset": pa.array([dt.datetime(2026, 7, 1, 12, tzinfo=UTC), None], pa.timestamp("ms", "-03:30")),
    "duration": pa.array([dt.timedelta(days=-1, microseconds=5), None]),
    "decimal": pa.array([decimal.Decimal("-123456789012345678901234567890.12"), None]),
    "decimal256": pa.array([decimal.Decimal("1e-10"), None], pa.decimal256(60, 10)),
    "list": pa.array([[1, None], None]),
    "fixed_list": pa.array([[1.0, 2.0], None], pa.list_(pa.float64(), 2)),
    "struct": pa.array([{"a": 1, "b": "x"}, None]),
    "map": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64())),
    "category": pa.array(["x", None]).dictionary_encode(),
    "runs": pa.RunEndEncodedArray.from_arrays([1, 2], pa.array(["x", None])),
    "nothing": pa.nulls(2),
}


@pytest.mark.parametrize("name", VALUES)
def test_values_go_through_unchanged(session: an.Session, name: str) -> None:
    column = VALUES[name]
    table = pa.table({"a": column})
    rows = session.sql("SELECT * FROM table_", table_=table)
    back = rows.to_arrow()["a"]
    assert back.to_pylist() == column.to_pylist()
    assert back.type == column.type
    expected = [dict(value) if name == "map" and value else value for value in column.to_pylist()]
    assert [row[0] for row in rows.fetchall()] == expected


def test_times_have_their_zone(session: an.Session) -> None:
    table = pa.table({name: VALUES[name] for name in ("ts_utc", "ts_zone", "ts_offset")})
    (utc, berlin, offset), _ = session.sql("SELECT * FROM t", t=table).fetchall()
    assert utc.tzinfo == UTC
    assert berlin.tzinfo == zoneinfo.ZoneInfo("Europe/Berlin")
    assert berlin.hour == 14
    assert offset.utcoffset() == dt.timedelta(hours=-3, minutes=-30)


def test_nanoseconds_are_not_lost_without_a_word(session: an.Session) -> None:
    rows = session.sql("SELECT TIMESTAMP '2026-01-02T03:04:05.123456789' AS t")
    assert rows.to_arrow()["t"].cast(pa.int64())[0].as_py() % 1000 == 789
    with pytest.raises(an.QueryError, match="nanoseconds"):
        rows.fetchall()


def test_times_that_python_does_not_have_are_errors(session: an.Session) -> None:
    rows = session.sql("SELECT arrow_cast(-10000000000000, 'Timestamp(Second, None)') AS t")
    with pytest.raises(an.QueryError, match="datetime cannot hold"):
        rows.fetchall()


def test_polars_and_pandas_get_the_same_values(session: an.Session) -> None:
    names = [name for name in VALUES if name not in ("map", "runs", "f16", "decimal256", "ts_offset", "nothing")]
    table = pa.table({name: VALUES[name] for name in names})
    rows = session.sql("SELECT * FROM table_", table_=table)
    frame = rows.to_polars()
    for name in names:
        expected = pl.Series(name, VALUES[name])
        assert frame[name].to_list() == expected.to_list(), name
    pandas = rows.to_pandas()
    assert pandas.equals(table.to_pandas())
    assert isinstance(pandas, pd.DataFrame)


def test_numpy_gets_numbers_without_a_copy(session: an.Session) -> None:
    values = pa.array(range(1000))
    found = session.sql("SELECT * FROM t", t=pa.table({"a": values})).collect().to_numpy()["a"]
    assert found.tolist() == values.to_pylist()
    assert session.sql("SELECT a FROM (VALUES (1), (NULL)) t(a)").to_numpy()["a"][0] == 1.0


def test_intervals_are_months_days_and_nanoseconds(session: an.Session) -> None:
    assert session.sql("SELECT INTERVAL '1 month 2 days 3 seconds' AS i").fetchone() == ((1, 2, 3_000_000_000),)
