"""Errors: their classes, their words, and their places in statements."""

from __future__ import annotations

import pyarrow as pa
import pytest

import annulus_data as an


def test_all_are_of_one_class() -> None:
    kinds = [kind for kind in vars(an).values() if isinstance(kind, type) and issubclass(kind, Exception)]
    assert all(issubclass(kind, (an.AnnulusError, Warning)) for kind in kinds)
    assert issubclass(an.OptionError, ValueError)
    assert issubclass(an.MemoryLimitError, MemoryError)


def test_the_place_of_an_error_is_marked(session: an.Session) -> None:
    with pytest.raises(an.SqlError) as caught:
        session.sql("SELECT 1;\nSELECT a,\n  b FRM t WHERE c d e")
    assert (caught.value.line, caught.value.column) == (3, 9)
    assert str(caught.value).endswith("\n  line 3:   b FRM t WHERE c d e\n                  ^")
    t = pa.table({"price": [1]})
    with pytest.raises(an.SqlError) as caught:
        session.sql("SELECT\n  prise FROM t", t=t)
    assert (caught.value.line, caught.value.column) == (2, 3)
    assert caught.value.sql == "SELECT\n  prise FROM t"
    with pytest.raises(an.SqlError):
        session.sql("SELECT count(*) FROM t WHERE price > 'x' + 1", t=t).fetchall()


def test_errors_of_files_name_them(session: an.Session, tmp_path) -> None:
    with pytest.raises(an.AnnulusError, match="no/such/file.parquet"):
        session.sql("SELECT * FROM 'no/such/file.parquet'")
    with pytest.raises(an.AnnulusError, match="nowhere"):
        session.read("nowhere/*.csv")
    (tmp_path / "a.csv").write_text("a,b\n1,2\n3\n")
    with pytest.raises(an.InputError, match=r"a.csv', line 3"):
        session.read(tmp_path / "a.csv").fetchall()
    with pytest.warns(an.AnnulusWarning, match="skipped 1 bad row"):
        assert session.read(tmp_path / "a.csv", on_bad_row="skip").fetchall() == [(1, 2)]
    with pytest.raises(an.OptionError, match="only partition has"):
        session.read(tmp_path / "a.csv", on_bad_row="quarantine")
    with pytest.raises(an.AnnulusError, match="delimitter"):
        session.read(tmp_path / "a.csv", delimitter=";")


def test_options_are_named_as_in_python(session: an.Session, tmp_path) -> None:
    (tmp_path / "a.csv").write_text("id\n1\n")
    with pytest.raises(an.OptionError, match="into"):
        an.partition(tmp_path / "a.csv", by="id", into=0, output=tmp_path / "out")
    with pytest.raises(an.OptionError, match="by_value"):
        an.partition(tmp_path / "a.csv", by="id", output=tmp_path / "out")
    with pytest.raises(an.OptionError, match="unexpected argument 'colour'"):
        an.partition(tmp_path / "a.csv", by="id", into=2, output=tmp_path / "out", colour="red")
    with pytest.raises(an.AnnulusError) as caught:
        an.partition(tmp_path / "a.csv", by="ib", into=2, output=tmp_path / "out")
    assert "--" not in str(caught.value)
    assert "'ib'" in str(caught.value)


def test_memory_that_is_exhausted_has_a_remedy() -> None:
    with an.Session(memory_limit="1MB", threads=1) as session, pytest.raises(an.MemoryLimitError) as caught:
        session.sql("SELECT array_agg(value) FROM generate_series(1, 10000000)").to_arrow()
    assert "memory_limit" in str(caught.value)
    assert "--" not in str(caught.value)
