"""Faults that once were: each has a test of its own."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import datafusion
import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import annulus_data as an


def batches():
    for start in range(3):
        yield pa.record_batch({"a": [2 * start, 2 * start + 1]})


def test_streams_within_streams(session: an.Session) -> None:
    rows = session.sql("SELECT a FROM t", t=pa.table({"a": list(range(100000))}))

    def inner():
        yield from pa.RecordBatchReader.from_stream(rows)

    assert session.sql("SELECT count(*) FROM g", g=inner).fetchone() == (100000,)
    lazy = pl.LazyFrame({"x": [1]}).map_batches(lambda _: pl.DataFrame(rows), schema={"a": pl.Int64})
    assert session.sql("SELECT count(*) FROM lazy").fetchone() == (100000,)
    relation = duckdb.sql("SELECT * FROM rows")
    assert session.sql("SELECT count(*) FROM relation").fetchone() == (100000,)


@pytest.mark.parametrize("threads", [1, 2])
def test_functions_may_query_their_session(threads: int) -> None:
    with an.Session(threads=threads) as session:

        def more(x):
            return pc.add(x, session.sql("SELECT 1 AS a").fetchone()[0])

        session.create_function("more", more, ["int"], "int")
        rows = session.sql("SELECT sum(more(a)) FROM t", t=pa.table({"a": list(range(100000))}))
        assert rows.fetchone() == (5000050000,)


def test_durations_of_milliseconds(session: an.Session) -> None:
    rows = session.sql("SELECT arrow_cast(1500, 'Duration(Millisecond)'), arrow_cast(-1, 'Duration(Millisecond)')")
    assert rows.fetchone() == (dt.timedelta(seconds=1.5), dt.timedelta(milliseconds=-1))


def test_streams_are_read_once_by_all_statements(session: an.Session) -> None:
    stream = batches()
    with pytest.raises(an.SqlError):
        session.sql("SELECT nope FROM stream")
    first, second = session.sql("SELECT * FROM stream"), session.sql("SELECT * FROM stream")
    assert first.fetchall() == [(value,) for value in range(6)]
    with pytest.raises(an.InputError, match="read once"):
        second.fetchall()
    reader = pa.RecordBatchReader.from_batches(pa.schema({"a": pa.int64()}), batches())
    assert session.sql("SELECT count(*) FROM reader").fetchone() == (6,)
    with pytest.raises(an.InputError, match="read once"):
        session.sql("SELECT count(*) FROM reader").fetchone()
    session.register("s", batches())
    rows = session.sql("SELECT * FROM s")
    assert "read once" in repr(rows)
    assert rows.count() == 6


def test_names_of_tables_need_no_lower_case(session: an.Session) -> None:
    Trades = pa.table({"x": ["variable"]})
    assert session.sql("SELECT * FROM Trades", Trades=pa.table({"x": ["argument"]})).fetchone() == ("argument",)
    session.register("Trades", pa.table({"x": ["session"]}))
    assert session.sql("SELECT * FROM Trades").fetchone() == ("session",)


def test_slices_of_nested_structs(session: an.Session) -> None:
    table = pa.table({"x": pa.array([{"f": {"a": value}} for value in range(3)])})
    rows = session.sql("SELECT * FROM t", t=table.slice(1))
    assert rows.fetchall() == [({"f": {"a": 1}},), ({"f": {"a": 2}},)]
    with pytest.raises(an.InputError, match="slice of nested structs"):
        session.sql("SELECT * FROM g", g=iter(table.slice(1).to_batches()))


def test_rows_that_are_null_are_refused(session: an.Session) -> None:
    structs = pa.array([{"a": 1}, None])
    for rows in (structs, pa.chunked_array([structs]), iter([structs])):
        with pytest.raises(an.InputError, match="null as a whole"):
            session.sql("SELECT * FROM t", t=rows)


def test_tables_of_the_caller_are_not_changed(session: an.Session) -> None:
    table = pa.table({"a": [1, 2]})
    for statement in ("INSERT INTO t VALUES (3)", "DELETE FROM t", "UPDATE t SET a = 1"):
        with pytest.raises(an.AnnulusError, match="is a table of the caller"):
            session.sql(statement, t=table)
    assert session.sql("CREATE TABLE t AS SELECT * FROM table_; INSERT INTO t VALUES (3)", table_=table).count() == 1


def test_tables_that_a_statement_makes_come_before_variables(session: an.Session) -> None:
    made = pa.table({"a": [1, 2]})
    rows = session.sql("CREATE TABLE made AS SELECT 99 AS a; SELECT * FROM made")
    assert rows.fetchall() == [(99,)]


def test_cross_joins_take_no_condition(session: an.Session) -> None:
    with pytest.raises(an.OptionError, match="cross join has no condition"):
        session.join(pa.table({"a": [1]}), pa.table({"a": [1]}), on="a", how="cross")


def test_sorted_rows_stay_sorted(session: an.Session) -> None:
    table = pa.table({"a": list(range(200000))})
    ordered = session.sql("SELECT * FROM t", t=table).sort("a DESC")
    expected = list(range(199999, -1, -1))
    for rows in (ordered, ordered.with_columns(c="a + 1"), ordered.select("a"), ordered.filter("a >= 0")):
        assert rows.to_arrow()["a"].to_pylist() == expected
    kept = ordered.collect()
    kept.write("kept.parquet")
    assert pl.read_parquet("kept.parquet")["a"].to_list() == expected
    assert [value for batch in kept.batches() for value in pa.record_batch(batch)["a"].to_pylist()] == expected
    assert session.sql("SELECT a FROM (SELECT a FROM t ORDER BY a DESC) LIMIT 2", t=table).fetchall() == [
        (199999,),
        (199998,),
    ]


def test_sessions_end_at_once_while_a_stream_waits() -> None:
    def endless():
        while True:
            yield pa.record_batch({"a": [1]})

    for end in ("close", "forget"):
        session = an.Session(threads=2)
        rows = session.sql("SELECT a FROM g", g=endless()).batches()
        next(rows)
        start = time.monotonic()
        if end == "close":
            session.close()
        del session, rows
        assert time.monotonic() - start < 3


def threads_of_sessions() -> set[str]:
    threads = Path("/proc/self/task").iterdir()
    return {thread.name for thread in threads if (thread / "comm").read_text().startswith("annulus")}


@pytest.mark.parametrize(
    "join",
    [
        "CROSS JOIN generate_series(1, 1000000) b(v)",
        "JOIN generate_series(1, 100000000) b(v) ON a.v % 7 = b.v % 11",
    ],
)
def test_a_session_that_is_closed_meanwhile_is_no_cancelled_task(join: str) -> None:
    before = threads_of_sessions()
    session = an.Session(threads=2)
    rows = session.sql(f"SELECT count(*) FROM generate_series(1, 100000000) a(v) {join}")
    closing = threading.Timer(0.3, session.close)
    closing.start()
    with pytest.raises(an.SessionClosedError):
        rows.fetchall()
    closing.join()
    # A query without a pause would go on.
    assert threads_of_sessions() <= before


def test_columns_of_one_name_are_numbered(session: an.Session) -> None:
    left, right = pa.table({"k": [1], "x": [2]}), pa.table({"k": [1], "x": [3]})
    rows = session.sql("SELECT * FROM l JOIN r ON l.k = r.k", l=left, r=right)
    assert rows.to_dicts() == [{"k": 1, "x": 2, "k_1": 1, "x_1": 3}]
    assert rows.collect().filter("x_1 = 3").fetchone() == rows.limit(1).fetchone() == (1, 2, 1, 3)
    assert rows.to_polars().columns == ["k", "x", "k_1", "x_1"]


def test_functions_do_not_round(session: an.Session) -> None:
    session.create_function("half", lambda x: pc.divide(x, 2.0), ["int"], "int")
    with pytest.raises(an.QueryError, match="'half' returned Float64 and promised Int64: convert"):
        session.sql("SELECT half(value) FROM generate_series(1, 3)").fetchall()


def test_volatile_functions_are_called_for_each_row(session: an.Session) -> None:
    count = iter(range(1000))
    session.create_function("next", lambda x: [next(count) for _ in x], ["int"], "int", is_volatile=True)
    assert session.sql(
        "SELECT count(DISTINCT v) FROM (SELECT next(1) AS v FROM generate_series(1, 30))"
    ).fetchone() == (30,)


def test_lazy_frames_may_have_columns_of_nulls(session: an.Session) -> None:
    lazy = pl.LazyFrame({"a": [None, None], "b": [[], []]})
    assert session.sql("SELECT count(a), count(*) FROM lazy").fetchone() == (0, 2)


def test_errors_have_the_documented_classes(session: an.Session, tmp_path) -> None:
    rows = session.sql("SELECT 1 AS a")
    (tmp_path / "there.csv").write_text("a\n1\n")
    for path in ("there.csv", "there.xyz", "nowhere/a.csv"):
        with pytest.raises(an.InputError):
            rows.write(tmp_path / path)
    with pytest.raises(an.InputError):
        session.read("nowhere.csv")
    with pytest.raises(an.OptionError):
        session.read(tmp_path / "there.csv", no_such_option=1)
    with pytest.raises(an.OptionError):
        an.Session(settings={"nope": 1})
    with pytest.raises(an.OptionError):
        session.create_function("f", 5, ["int"], "int")  # type: ignore[arg-type]
    with pytest.raises(an.OptionError):
        an.Session(threads=2**70)


def test_paths_and_values_in_errors_are_not_changed(session: an.Session) -> None:
    with pytest.raises(an.AnnulusError, match="--rows-x.csv"):
        session.read("--rows-x.csv")
    with pytest.raises(an.AnnulusError, match="--abc"):
        session.sql("SELECT CAST('--abc' AS INT)").fetchall()


def test_paths_may_have_commas_and_dashes(session: an.Session, tmp_path) -> None:
    for name in ("a,b.csv", "-x.csv", "{c}.csv"):
        (tmp_path / name).write_text("id,k\n1,2\n")
    assert session.read(["a,b.csv", "-x.csv", "{c}.csv"]).count() == 3
    report = session.partition("-x.csv", by="id", into=1, output="parts", types=["id=text", "k=text"])
    assert report["rows_out"] == 1
    assert session.read("parts").types == ["Utf8View", "Utf8View"]


def test_notes_are_about_their_own_query(session: an.Session, tmp_path) -> None:
    (tmp_path / "a.csv").write_text("a,b\n1,2\n3\n")
    rows = session.read("a.csv", on_bad_row="skip")
    with pytest.warns(an.AnnulusWarning, match="skipped 1 bad row") as caught:
        list(rows.batches())
    assert caught[0].filename == __file__


def test_variables_are_found_in_comprehensions_and_lambdas(session: an.Session) -> None:
    rows = pa.table({"a": [1, 2]})
    assert [session.sql("SELECT sum(a) FROM rows").fetchone() for _ in range(1)] == [(3,)]
    assert (lambda: session.sql("SELECT sum(a) FROM rows").fetchone())() == (3,)


def test_comments_in_expressions_end_with_them(session: an.Session) -> None:
    rows = session.sql("SELECT 1 AS id, 2 AS k")
    assert rows.select("id -- the key", "k").columns == ["id", "k"]
    assert rows.with_columns(z="1 -- one").columns == ["id", "k", "z"]


def test_odd_values_are_shown(session: an.Session) -> None:
    assert "\\x1b" in repr(session.sql("SELECT chr(27) AS c"))
    assert "2 rows" in repr(
        session.sql("SELECT arrow_cast(9999999999999, 'Timestamp(Second, None)') AS t UNION ALL SELECT NULL")
    )


def test_enabling_twice_changes_nothing_and_frames_outlive_their_context(session: an.Session) -> None:
    def load():
        context = an.enable(an.enable(datafusion.SessionContext(), session), session)
        context.from_pydict({"a": [1, 2]}, name="t")
        return context.sql("SELECT sum(a) AS s FROM t")

    assert load().to_pydict() == {"s": [3]}


def test_enabled_contexts_keep_their_session() -> None:
    context = an.enable(datafusion.SessionContext(), an.Session(threads=2))
    assert context.sql("SELECT 1 AS a").to_pydict() == {"a": [1]}
    closed = an.Session(threads=2)
    context = an.enable(datafusion.SessionContext(), closed)
    closed.close()
    with pytest.raises(Exception, match="the session is closed"):
        context.sql("SELECT 1 AS a").to_pydict()


def test_programs_end_while_work_runs() -> None:
    program = """
        import threading, time
        import annulus_data as an
        rows = an.sql("SELECT count(*) FROM generate_series(1, 10000000000)")
        threading.Thread(target=rows.fetchall, daemon=True).start()
        time.sleep(0.3)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=30)
    assert done.returncode == 0
