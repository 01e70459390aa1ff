"""Sessions of datafusion-python with Annulus."""

from __future__ import annotations

import datafusion
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import annulus_data as an


@pytest.fixture
def ctx(session: an.Session) -> datafusion.SessionContext:
    context = datafusion.SessionContext()
    an.enable(context, session)
    return context


def test_tables_in_memory_and_in_files(ctx: datafusion.SessionContext, tmp_path) -> None:
    pq.write_table(pa.table({"id": list(range(1000)), "k": [i % 7 for i in range(1000)]}), tmp_path / "a.parquet")
    ctx.register_parquet("a", tmp_path / "a.parquet")
    ctx.from_pydict({"k": [0, 1, 2], "name": ["x", "y", "z"]}, name="b")
    rows = ctx.sql("SELECT name, count(*) AS n FROM a JOIN b ON a.k = b.k GROUP BY name ORDER BY name")
    assert rows.to_pydict() == {"name": ["x", "y", "z"], "n": [143, 143, 143]}
    plan = rows.execution_plan().display_indent()
    assert "AnnulusExec" in plan
    assert ctx.table("b").filter(datafusion.col("k") > 0).count() == 2


def test_operators_are_those_of_annulus(ctx: datafusion.SessionContext, tmp_path) -> None:
    for name in ("a", "b"):
        pq.write_table(pa.table({"t": list(range(2000))}), tmp_path / f"{name}.parquet")
        ctx.register_parquet(name, tmp_path / f"{name}.parquet")
    rows = ctx.sql("SELECT count(*) AS n FROM a JOIN b ON a.t BETWEEN b.t - 1 AND b.t + 1")
    assert rows.to_pydict() == {"n": [5998]}
    assert "BandJoinExec" in rows.execution_plan().display_indent()


def test_functions_of_the_other_session(ctx: datafusion.SessionContext) -> None:
    double = datafusion.udf(lambda x: pa.compute.multiply(x, 2), [pa.int64()], pa.int64(), "immutable", name="double")
    ctx.register_udf(double)
    ctx.from_pydict({"a": [1, 2, 3]}, name="t")
    assert ctx.sql("SELECT double(a) AS b FROM t ORDER BY a").to_pydict() == {"b": [2, 4, 6]}


def test_functions_are_those_of_annulus(ctx: datafusion.SessionContext) -> None:
    ctx.from_pydict({"t": ["b", "a"], "d": ["2026-01-02T03:04:05", "2026-01-03T00:00:00"]}, name="t")
    rows = ctx.sql(
        "SELECT string_agg(t, ',' ORDER BY t) AS s, max(date_part('hour', CAST(d AS TIMESTAMP))) AS h, "
        "min(date_trunc('day', CAST(d AS TIMESTAMP))) AS d FROM t"
    )
    assert rows.to_pydict()["s"] == ["a,b"]
    assert rows.to_pydict()["h"] == [3]
    frame = "ORDER BY t ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"
    numbered = ctx.sql(f"SELECT t, nth_value(t, 2) OVER ({frame}) AS n FROM t")
    assert numbered.to_pydict()["n"] == ["b", "b"]


def test_errors_come_back(ctx: datafusion.SessionContext) -> None:
    with pytest.raises(Exception, match="Divide by zero"):
        ctx.sql("SELECT 1 / (value - 5) FROM generate_series(1, 9)").collect()


def test_explain_and_statements(ctx: datafusion.SessionContext, tmp_path) -> None:
    ctx.sql("CREATE TABLE t AS SELECT value AS a FROM generate_series(1, 10)").collect()
    assert ctx.sql("SELECT sum(a) AS s FROM t").to_pydict() == {"s": [55]}
    assert ctx.sql("EXPLAIN SELECT a FROM t").to_pydict()["plan_type"] == ["logical_plan", "physical_plan"]
    with pytest.raises(Exception, match="FFI does not support"):
        ctx.sql(f"COPY t TO '{tmp_path}/out.parquet'").collect()
    rows = ctx.table("t")
    assert an.sql("SELECT * FROM rows").write(tmp_path / "out.parquet") == 10


def test_other_versions_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.metadata.version", lambda _: "56.0.0")
    with pytest.raises(an.OptionError, match="datafusion is 56.0.0"):
        an.enable(datafusion.SessionContext())
