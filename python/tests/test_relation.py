"""Relations: their rows, what is built on them, and how they are shown."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import annulus_data as an

A = pa.table({"id": [1, 2, 3], "x": [10, 20, 30]})
B = pa.table({"id": [2, 3, 4], "x": [200, 300, 400], "y": ["b", "c", "d"]})


def ordered(rows: an.Relation) -> list[tuple]:
    return sorted(rows.fetchall(), key=lambda row: [(value is None, value) for value in row])


def test_joins_keep_what_they_say(session: an.Session) -> None:
    def joined(how):
        return ordered(session.join(A, B, on="id", how=how))

    assert joined("inner") == [(2, 20, 200, "b"), (3, 30, 300, "c")]
    assert joined("left") == [(1, 10, None, None), (2, 20, 200, "b"), (3, 30, 300, "c")]
    assert joined("right") == [(2, 20, 200, "b"), (3, 30, 300, "c"), (4, None, 400, "d")]
    assert len(joined("full")) == 4
    assert [row[0] for row in joined("full")] == [1, 2, 3, 4]
    assert joined("semi") == [(2, 20), (3, 30)]
    assert joined("anti") == [(1, 10)]
    assert session.join(A, B, how="cross").count() == 9
    assert session.join(A, B, on="id").columns == ["id", "x", "x_right", "y"]


def test_joins_without_equal_keys(session: an.Session) -> None:
    near = session.join(A, B, where="l.x BETWEEN r.x / 10 - 5 AND r.x / 10 + 5", suffix="_b")
    assert ordered(near) == [(2, 20, 2, 200, "b"), (3, 30, 3, 300, "c")]
    assert near.columns == ["id", "x", "id_b", "x_b", "y"]
    nearest = session.join(A, B, nearest="1 BY DISTANCE abs(l.id - r.id)")
    assert [(row[0], row[2]) for row in ordered(nearest)] == [(1, 2), (2, 2), (3, 3)]
    asof = session.sql("SELECT * FROM a", a=A).join(B, asof="l.id >= r.id", how="left")
    assert [(row[0], row[2]) for row in ordered(asof)] == [(1, None), (2, 2), (3, 3)]
    inner = session.join(A, B, asof="l.id >= r.id")
    assert [(row[0], row[2]) for row in ordered(inner)] == [(2, 2), (3, 3)]


def test_joins_say_what_is_missing(session: an.Session) -> None:
    with pytest.raises(an.OptionError, match="a join needs a condition"):
        session.join(A, B)
    with pytest.raises(an.OptionError, match="the left side has no column 'z': it has id, x"):
        session.join(A, B, on="z")
    with pytest.raises(an.OptionError, match="invalid how 'outer': expected one of inner, left"):
        session.join(A, B, on="id", how="outer")  # type: ignore[arg-type]
    with pytest.raises(an.OptionError, match="asof cannot be used with where"):
        session.join(A, B, asof="l.id >= r.id", where="true")


def test_names_may_have_any_letters(session: an.Session) -> None:
    odd = pa.table({'a "b"': [1, 1], "c,d": [2, 3], "Ü": [4, 5]})
    rows = session.table(odd)
    assert rows.with_columns(**{"c,d": '"c,d" * 2'}).to_dicts()[0] == {'a "b"': 1, "c,d": 4, "Ü": 4}
    assert session.join(odd, odd, on=['a "b"', "c,d"]).count() == 2


def test_relations_are_built_on_each_other(session: an.Session) -> None:
    rows = session.table(A).filter("id > 1 -- a comment").select("id", "x / 10 AS tens").sort("id DESC").limit(1)
    assert rows.to_dicts() == [{"id": 3, "tens": 3}]
    assert session.table(A).union(A).distinct().count() == 3
    assert session.table(A).aggregate("sum(x) AS s").fetchone() == (60,)
    with pytest.raises(an.OptionError):
        session.table(A).select()


def test_results_are_streamed(session: an.Session) -> None:
    rows = session.sql("SELECT value AS a FROM generate_series(1, 1000000)")
    batches = rows.batches()
    first = next(batches)
    assert pa.record_batch(first).column_names == ["a"]
    assert pl.DataFrame(first).height == first.num_rows
    assert len(first) < 100_000
    assert len(first) + sum(len(batch) for batch in batches) == 1_000_000
    reader = pa.RecordBatchReader.from_stream(rows)
    assert sum(batch.num_rows for batch in reader) == 1_000_000
    assert pl.DataFrame(rows).height == 1_000_000


def test_a_stream_that_is_left_ends_its_query(session: an.Session) -> None:
    for _ in range(20):
        next(session.sql("SELECT value FROM generate_series(1, 100000000000)").batches())
    assert session.sql("SELECT 1 AS a").fetchone() == (1,)


def test_errors_in_streams_reach_their_readers(session: an.Session) -> None:
    rows = session.sql("SELECT 1 / (value - 100000) AS a FROM generate_series(1, 200000)")
    with pytest.raises(an.QueryError, match="Divide by zero"):
        list(rows.batches())
    with pytest.raises(Exception, match="Divide by zero"):
        pa.RecordBatchReader.from_stream(rows).read_all()


def test_files_have_their_names_when_they_are_complete(session: an.Session, tmp_path) -> None:
    path = tmp_path / "a.parquet"
    rows = session.table(A)
    assert rows.write(path) == 3
    assert sorted(pq.read_table(path).to_pylist(), key=lambda row: row["id"]) == A.to_pylist()
    with pytest.raises(an.AnnulusError, match="exists"):
        rows.write(path)
    assert rows.write(path, overwrite=True) == 3
    bad = session.sql("SELECT 1 / (value - 100000) AS a FROM generate_series(1, 200000)")
    with pytest.raises(an.QueryError, match="Divide by zero"):
        bad.write(tmp_path / "b.csv")
    assert [file.name for file in tmp_path.iterdir() if file.is_file()] == ["a.parquet"]
    with pytest.raises(an.AnnulusError, match=r"\.parquet"):
        rows.write(tmp_path / "a.xyz")


def test_statements_that_are_no_queries_run_at_once(session: an.Session, tmp_path) -> None:
    session.sql("CREATE TABLE t AS SELECT * FROM a", a=A)
    assert session.tables() == ["t"]
    copied = session.sql(f"COPY t TO '{tmp_path / 'c.parquet'}'")
    assert copied.fetchall() == [(3,)]
    session.sql("INSERT INTO t SELECT 4, 40; SET datafusion.execution.batch_size = 100")
    assert session.sql("SELECT count(*) FROM t").fetchone() == (4,)
    assert session.sql("SHOW datafusion.execution.batch_size").fetchone()[1] == "100"
    session.sql("CREATE VIEW v AS SELECT id FROM t WHERE id > 2")
    assert session.sql("SELECT count(*) FROM v").fetchone() == (2,)
    assert session.sql("DROP VIEW v").fetchall() == []


def test_relations_show_their_first_rows(session: an.Session) -> None:
    shown = repr(session.table(B))
    assert "| id    | x     | y    |" in shown
    assert shown.endswith("3 rows")
    many = session.sql("SELECT value FROM generate_series(1, 1000)")
    assert repr(many).endswith("the first 20 rows")
    assert repr(many.collect()).endswith("1,000 rows, of which the first 20 are shown")
    html = session.sql("SELECT '<b>' AS \"<i>\", NULL AS n")._repr_html_()
    assert "&lt;b&gt;" in html
    assert "&lt;i&gt;" in html
    assert "<i>null</i>" in html


def test_plans_are_texts_and_pictures(session: an.Session) -> None:
    rows = session.sql("SELECT a.x, count(*) AS n FROM a JOIN b USING (id) GROUP BY a.x", a=A, b=B)
    assert "HashJoin" in rows.explain(format="indent")
    assert "┌" in rows.explain()
    assert "output_rows=2" in rows.explain(analyze=True)
    plan = rows.plan()
    assert plan.root.rows == 2
    assert any("Join" in operator.name for operator in plan.operators())
    svg = plan._repr_svg_()
    assert svg.startswith("<svg")
    assert svg.count("<rect") == len(plan.operators())
    with pytest.raises(an.OptionError, match="expected tree or indent"):
        rows.explain(format="dot")  # type: ignore[arg-type]


def test_names_of_formats_are_those_of_methods(session: an.Session, tmp_path: Path) -> None:
    rows = session.sql("SELECT 1 AS a, 'x' AS b")
    for write in (rows.write_parquet, rows.write_csv, rows.write_json, rows.write_arrow):
        name = write.__name__.removeprefix("write_")
        target = tmp_path / f"rows-{name}"
        assert write(target) == 1
        with pytest.raises(an.InputError, match="overwrite=True"):
            write(target)
        assert session.read(target, format=name).fetchall() == [(1, "x")]
    with pytest.raises(an.OptionError, match="parquet, csv"):
        rows.write(tmp_path / "rows.x", format="xls")  # type: ignore[arg-type]
