"""Tables of the caller, in memory and as streams."""

from __future__ import annotations

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from conftest import reset_peak, resident, resident_peak

import annulus_data as an

ROWS = {"id": [1, 2, 3], "name": ["a", None, "c"]}


def test_variables_of_the_caller_are_tables(session: an.Session) -> None:
    arrow = pa.table(ROWS)
    frame = pl.DataFrame(ROWS)
    pandas = pd.DataFrame(ROWS)
    batch = pa.record_batch(ROWS)
    for table in (arrow, frame, pandas, batch):
        assert session.sql("SELECT * FROM table_ ORDER BY id", table_=table).fetchall() == [
            (1, "a"),
            (2, None),
            (3, "c"),
        ]
    total = session.sql("SELECT count(*) FROM arrow, frame, pandas, batch").fetchone()
    assert total == (81,)


def test_names_are_looked_up_in_arguments_then_session_then_variables(session: an.Session) -> None:
    t = pa.table({"a": [1]})
    assert session.sql("SELECT a FROM t").fetchall() == [(1,)]
    session.register("t", pa.table({"a": [2]}))
    assert session.sql("SELECT a FROM t").fetchall() == [(2,)]
    assert session.sql("SELECT a FROM t", t=pa.table({"a": [3]})).fetchall() == [(3,)]
    assert session.sql("SELECT a FROM t").fetchall() == [(2,)]
    assert session.unregister("t")
    assert not session.unregister("t")
    assert session.sql("SELECT a FROM t").fetchall() == [(t["a"][0].as_py(),)]


def test_variables_need_no_lower_case(session: an.Session) -> None:
    Trades = pa.table({"Price": [1.5]})
    assert session.sql('SELECT "Price" FROM Trades').fetchall() == [(1.5,)]
    assert session.sql('SELECT "Price" FROM "Trades"').fetchall() == [(1.5,)]


def test_what_is_no_table_is_an_error(session: an.Session) -> None:
    with pytest.raises(an.InputError, match="'x' is a int, which is not a table"):
        session.sql("SELECT * FROM x", x=5)
    text = "a text"
    with pytest.raises(an.SqlError, match="table 'text' not found"):
        session.sql("SELECT * FROM text")


def test_relations_are_tables(session: an.Session) -> None:
    base = session.sql("SELECT value AS a FROM generate_series(1, 10)")
    evens = session.sql("SELECT * FROM base WHERE a % 2 = 0")
    kept = evens.collect()
    assert session.sql("SELECT sum(a) FROM evens").fetchone() == (30,)
    assert session.sql("SELECT sum(a) FROM kept").fetchone() == (30,)
    with an.Session() as other:
        assert other.sql("SELECT sum(a) FROM kept").fetchone() == (30,)


def test_generators_are_read_once_and_functions_again(session: an.Session) -> None:
    def batches():
        for start in range(0, 30, 10):
            yield pa.record_batch({"a": list(range(start, start + 10))})

    generator = batches()
    rows = session.sql("SELECT sum(a) AS s FROM g", g=generator)
    assert "read once" in repr(rows)
    assert rows.fetchall() == [(435,)]
    with pytest.raises(an.InputError, match="read once"):
        rows.fetchall()
    again = session.sql("SELECT sum(a) AS s FROM g", g=batches)
    assert again.fetchall() == again.fetchall() == [(435,)]


def test_errors_of_generators_are_raised_as_they_are(session: an.Session) -> None:
    def batches():
        yield pa.record_batch({"a": [1]})
        raise KeyError("missing")

    with pytest.raises(KeyError, match="missing"):
        session.sql("SELECT * FROM g", g=batches()).fetchall()

    def others():
        yield pa.record_batch({"a": [1]})
        yield pa.record_batch({"b": [1]})

    with pytest.raises(an.InputError, match="other columns than the first: b Int64 after a Int64"):
        session.sql("SELECT * FROM g", g=others()).fetchall()
    with pytest.raises(an.InputError, match="yield at least one"):
        session.sql("SELECT * FROM g", g=iter([]))
    with pytest.raises(TypeError, match="yield Arrow record batches"):
        session.sql("SELECT * FROM g", g=iter([1]))


def test_readers_of_pyarrow_and_relations_of_duckdb_are_streams(session: an.Session) -> None:
    reader = pa.RecordBatchReader.from_batches(pa.schema({"a": pa.int64()}), [pa.record_batch({"a": [1, 2]})])
    rows = session.sql("SELECT sum(a) FROM reader")
    assert rows.fetchall() == [(3,)]
    with pytest.raises(an.InputError, match="read once"):
        rows.fetchall()
    relation = duckdb.sql("SELECT range AS a FROM range(100)")
    rows = session.sql("SELECT sum(a) FROM relation")
    assert rows.fetchall() == duckdb.sql("SELECT sum(a) FROM relation").fetchall() == rows.fetchall() == [(4950,)]


def test_a_stream_cannot_be_read_twice_in_one_query(session: an.Session) -> None:
    reader = iter([pa.record_batch({"a": [1, 2]})])
    with pytest.raises(an.InputError, match="read once"):
        session.sql("SELECT count(*) FROM reader x JOIN reader y ON x.a = y.a").fetchall()


def test_datasets_and_lazy_frames_are_read_by_each_query(session: an.Session, tmp_path) -> None:
    pq.write_table(pa.table({"a": [1, 2, 3]}), tmp_path / "a.parquet")
    dataset = ds.dataset(tmp_path / "a.parquet")
    lazy = pl.scan_parquet(tmp_path / "a.parquet")
    rows = session.sql("SELECT sum(d.a) AS s, count(*) AS n FROM dataset d JOIN lazy l ON d.a = l.a")
    assert rows.fetchall() == rows.fetchall() == [(6, 3)]


def test_the_index_of_pandas_does_not_come_back(session: an.Session) -> None:
    frame = pd.DataFrame({"a": [1, 2, 3]}, index=pd.Index([7, 8, 9], name="k"))
    rows = session.sql("SELECT * FROM frame WHERE a > 1 ORDER BY a DESC").to_pandas()
    assert rows.columns.tolist() == ["a", "k"]
    assert rows.index.tolist() == [0, 1]
    assert rows["k"].tolist() == [9, 8]
    assert frame.index.tolist() == [7, 8, 9]


def test_categories_are_texts_in_queries(session: an.Session) -> None:
    texts = ["x", "y", None, "x"]
    polars = pl.DataFrame(
        {"c": pl.Series(texts, dtype=pl.Categorical), "e": pl.Series(texts, dtype=pl.Enum(["x", "y"]))}
    )
    pandas = pd.DataFrame({"c": pd.Categorical(texts), "e": pd.Categorical(texts)})
    for frame in (polars, pandas):
        rows = session.sql("SELECT c, count(*) AS n FROM f WHERE e IS NOT NULL GROUP BY c ORDER BY c", f=frame)
        assert rows.fetchall() == [("x", 2), ("y", 1)]
        joined = session.sql("SELECT count(*) FROM f a JOIN f b ON a.c = b.e", f=frame)
        assert joined.fetchone() == (5,)


def test_columns_that_may_not_be_null_are_checked(session: an.Session) -> None:
    schema = pa.schema([pa.field("a", pa.int64(), nullable=False)])
    table = pa.table({"a": pa.array([1, None])}, schema=schema)
    with pytest.raises(an.InputError, match="null"):
        session.sql("SELECT * FROM t", t=table)


def test_tables_without_rows_or_columns(session: an.Session) -> None:
    empty = pa.table({"a": pa.array([], pa.int64())})
    assert session.sql("SELECT count(*), sum(a) FROM empty").fetchone() == (0, None)
    assert session.sql("SELECT * FROM empty").to_arrow().schema.names == ["a"]
    assert session.sql("SELECT * FROM f", f=pl.DataFrame({"a": []})).fetchall() == []


@pytest.mark.parametrize("kind", ["arrow", "polars"])
def test_tables_in_memory_are_not_copied(session: an.Session, kind: str) -> None:
    values = np.arange(40_000_000)
    table = pa.table({"a": values}) if kind == "arrow" else pl.DataFrame({"a": values})
    assert session.sql("SELECT max(a) FROM table_ WHERE a < 10", table_=table).fetchone() == (9,)
    before = resident()
    reset_peak()
    assert session.sql("SELECT sum(a) FROM table_", table_=table).fetchone() == (int(values.sum()),)
    assert resident_peak() - before < 50 << 20
    column = table["a"].chunk(0) if kind == "arrow" else table["a"].to_arrow()
    rows = session.sql("SELECT * FROM table_", table_=table).to_arrow()
    found = rows["a"].chunk(0).buffers()[1]
    start, end = column.buffers()[1].address, column.buffers()[1].address + column.buffers()[1].size
    assert start <= found.address < end


def test_an_index_without_a_name_is_no_column(session: an.Session) -> None:
    frame = pd.DataFrame({"a": [1, 2, 3]})
    filtered = frame[frame["a"] > 1]
    assert session.sql("SELECT * FROM filtered").columns == ["a"]
    levels = pd.MultiIndex.from_tuples([(1, "x"), (2, "y"), (3, "z")], names=[None, "k"])
    named = frame.set_index(levels)
    assert session.sql("SELECT * FROM named ORDER BY a").to_dicts()[0] == {"a": 1, "k": "x"}


def test_a_series_is_a_table_of_one_column(session: an.Session) -> None:
    prices = pd.Series([1.5, 2.5], name="price", index=[4, 5])
    texts = pl.Series(["a", "b"])
    assert session.sql("SELECT * FROM prices").to_dicts() == [{"price": 1.5}, {"price": 2.5}]
    assert session.sql("SELECT * FROM texts").to_dicts() == [{"value": "a"}, {"value": "b"}]
