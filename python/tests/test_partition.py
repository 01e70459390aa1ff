"""Splitting tables into files."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap

import polars as pl
import pytest

import annulus_data as an


def test_files_and_tables_are_split(session: an.Session, tmp_path) -> None:
    source = tmp_path / "events.parquet"
    session.sql("SELECT value AS id, value % 10 AS user FROM generate_series(1, 10000)").write(source)
    report = session.partition(source, by="user", into=4, output=tmp_path / "a", sort_by="id:desc")
    assert (report["rows_in"], report["rows_out"], report["partitions"]) == (10000, 10000, 4)
    frame = pl.read_parquet(source)
    report = session.partition(frame, by=["user"], by_value=True, output=tmp_path / "b", format="csv")
    assert report["files"] == 10
    counts = session.sql(f"SELECT count(*), count(DISTINCT id) FROM '{tmp_path}/a/'")
    assert counts.fetchone() == (10000, 10000)
    assert session.read(tmp_path / "b").count() == 10000
    assert session.read([tmp_path / "a", tmp_path / "a"]).count() == 10000
    with pytest.raises(an.AnnulusError, match="overwrite"):
        session.partition(source, by="user", into=4, output=tmp_path / "a")
    more = session.partition(source, by="user", into=4, output=tmp_path / "a", sort_by="id:desc", append=True)
    assert more["rows_total"] == 20000


def test_an_interrupt_leaves_finished_partitions_only(tmp_path) -> None:
    program = textwrap.dedent(
        f"""
        import os, signal, threading
        import annulus_data as an

        session = an.Session(threads=2)
        session.sql("SELECT value AS id, md5(CAST(value AS TEXT)) AS t FROM generate_series(1, 3000000)").write(
            "{tmp_path}/a.parquet")
        for turn in range(6):
            threading.Timer(0.05 + 0.05 * turn, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
            try:
                session.partition("{tmp_path}/a.parquet", by="id", into=8, output="{tmp_path}/parts", sort_by="t")
                raise SystemExit("not interrupted")
            except KeyboardInterrupt:
                print(sorted(os.listdir("{tmp_path}")))
            if os.path.exists("{tmp_path}/parts"):
                import shutil
                shutil.rmtree("{tmp_path}/parts")
        report = session.partition("{tmp_path}/a.parquet", by="id", into=8, output="{tmp_path}/parts")
        assert report["rows_out"] == 3000000
        """
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.splitlines()) <= {"['a.parquet']", "['a.parquet', 'parts']"}


def test_the_command_is_there(tmp_path) -> None:
    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "annulus_data", *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)

    assert run("--version").stdout == f"annulus {an.__version__}\n"
    assert run("sql", "--format", "csv", "SELECT 1 AS a").stdout == "a\n1\n"
    failed = run("sql", "SELEC 1")
    assert failed.returncode == 1
    assert failed.stderr.startswith("error: SQL error")
    cluster = run("sql", "--cluster", "2", "--format", "csv", "SELECT 1 AS a")
    assert (cluster.stdout, cluster.stderr) == ("a\n1\n", "")
    assert run("help", "csv").returncode == 0


def test_the_command_ends_at_an_interrupt() -> None:
    query = "SELECT count(*) FROM generate_series(1, 1000000000) a JOIN generate_series(1, 1000000000) b ON a.value % 7 = b.value % 11"  # noqa: E501
    process = subprocess.Popen(
        [sys.executable, "-m", "annulus_data", "sql", query], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(1.5)
    os.kill(process.pid, signal.SIGINT)
    assert process.wait(20) == 130


def test_workers_of_this_machine() -> None:
    with an.Cluster(2, threads=2) as cluster:
        rows = cluster.sql("SELECT value % 5 AS k, count(*) AS n FROM generate_series(1, 100000) GROUP BY 1 ORDER BY 1")
        assert rows.fetchall() == [(k, 20000) for k in range(5)]
    with pytest.raises(an.OptionError, match="retries is -1"):
        an.Cluster(1, retries=-1)
    with pytest.raises(an.OptionError, match="workers is 0"):
        an.Cluster(0)
    with pytest.raises(an.AnnulusError):
        an.Cluster(["not an address"])
