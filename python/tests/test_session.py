"""Sessions: limits, threads, forks, their end, and statements beside an event loop."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import os
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from pathlib import Path

import pyarrow as pa
import pytest
from conftest import leftovers

import annulus_data as an

ENDLESS = (
    "SELECT count(*) FROM generate_series(1, 100000000) a(v) "
    "JOIN generate_series(1, 100000000) b(v) ON a.v % 7 = b.v % 11"
)


def test_options_are_checked() -> None:
    with pytest.raises(an.OptionError, match="memory_limit: invalid size '5X'"):
        an.Session(memory_limit="5X")
    with pytest.raises(an.OptionError, match="threads is 0"):
        an.Session(threads=0)
    with pytest.raises(an.AnnulusError, match="no.such.option"):
        an.Session(settings={"no.such.option": 1})
    with pytest.raises(an.InputError, match="/no/such/folder"):
        an.Session(spill_folder="/no/such/folder")


def test_rows_that_do_not_fit_go_to_disk(tmp_path: Path) -> None:
    with an.Session(memory_limit="64MB", threads=2, spill_folder=tmp_path) as session:
        rows = session.sql("SELECT value % 1000003 AS k, count(*) AS n FROM generate_series(1, 6000000) GROUP BY 1")
        assert rows.aggregate("sum(n)", "count(*)").fetchone() == (6_000_000, 1_000_003)
    with (
        an.Session(memory_limit="64MB", disk_limit="1MB", threads=2, spill_folder=tmp_path) as session,
        pytest.raises(an.MemoryLimitError, match="memory_limit|disk"),
    ):
        session.sql("SELECT value, random() AS r FROM generate_series(1, 9000000) ORDER BY r").to_arrow()
    assert list(tmp_path.iterdir()) == []


def test_closed_sessions_say_so(tmp_path: Path) -> None:
    session = an.Session(spill_folder=tmp_path)
    rows = session.sql("SELECT 1 AS a")
    kept = rows.collect()
    session.close()
    session.close()
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(an.SessionClosedError, match="open another one"):
        rows.fetchall()
    with pytest.raises(an.SessionClosedError):
        session.sql("SELECT 1")
    assert kept.fetchall() == [(1,)]
    assert repr(session) == "<annulus_data.Session, closed>"


def test_a_session_that_nobody_has_leaves_nothing(tmp_path: Path) -> None:
    session = an.Session(spill_folder=tmp_path)
    rows = session.sql("SELECT 1 AS a")
    del session
    gc.collect()
    assert rows.fetchall() == [(1,)]
    del rows
    gc.collect()
    assert list(tmp_path.iterdir()) == []


def test_a_program_that_closes_nothing_leaves_nothing() -> None:
    before = leftovers()
    program = "import annulus_data as an; rows = an.sql('SELECT 1 AS a'); print(rows.fetchall(), an.Session())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert leftovers() <= before


def test_closing_ends_what_runs() -> None:
    session = an.Session(threads=2)
    rows = session.sql(ENDLESS)
    errors: list[BaseException] = []

    def run() -> None:
        try:
            rows.fetchall()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    time.sleep(0.3)
    session.close()
    thread.join(30)
    assert not thread.is_alive()
    assert len(errors) == 1


def test_threads_share_a_session(session: an.Session) -> None:
    table = pa.table({"a": range(1000)})
    found: list[int] = []

    def run(number: int) -> None:
        for _ in range(5):
            rows = session.sql("SELECT sum(a) + ? AS s FROM t".replace("?", str(number)), t=table)
            found.append(rows.fetchone()[0] - number)  # type: ignore[index]

    threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [499_500] * 40


def test_other_threads_run_while_a_query_does(session: an.Session) -> None:
    ticks = 0
    is_over = threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not is_over.wait(0.001):
            ticks += 1

    thread = threading.Thread(target=tick)
    thread.start()
    session.sql("SELECT count(DISTINCT value) FROM generate_series(1, 3000000)").fetchall()
    is_over.set()
    thread.join()
    assert ticks > 10


def _in_child(session: an.Session, rows: an.Relation, results) -> None:
    for use in (rows.fetchall, lambda: session.sql("SELECT 1")):
        try:
            use()
            results.put("no error")
        except an.ForkError as error:
            results.put(str(error))
    session.close()
    results.put(an.Session(threads=1).sql("SELECT 42 AS a").fetchall())


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork")
def test_a_forked_process_gets_an_error_and_does_no_harm(tmp_path: Path) -> None:
    with an.Session(spill_folder=tmp_path, threads=2) as session:
        rows = session.sql("SELECT 1 AS a")
        context = multiprocessing.get_context("fork")
        results = context.Queue()
        child = context.Process(target=_in_child, args=(session, rows, results))
        child.start()
        first, second, own = (results.get(timeout=60) for _ in range(3))
        child.join(60)
        assert child.exitcode == 0
        assert "forked" in first
        assert first == second
        assert own == [(42,)]
        assert len(list(tmp_path.iterdir())) == 1
        assert rows.fetchall() == [(1,)]
        sys.stdout.flush()
        if (pid := os.fork()) == 0:
            del session, rows
            gc.collect()
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        assert len(list(tmp_path.iterdir())) == 1


def test_statements_run_beside_an_event_loop(session: an.Session) -> None:
    async def main() -> tuple[list, int]:
        rows = pa.table({"a": [1, 2, 3]})
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                await asyncio.sleep(0.001)
                ticks += 1

        ticking = asyncio.create_task(tick())
        results = await asyncio.gather(
            session.sql_async("SELECT sum(a) AS s FROM rows"),
            session.sql_async("SELECT count(DISTINCT value) AS s FROM generate_series(1, 1000000)"),
        )
        ticking.cancel()
        return [result.fetchall() for result in results], ticks

    (first, second), ticks = asyncio.run(main())
    assert (first, second) == ([(6,)], [(1_000_000,)])
    assert ticks > 3


def test_errors_beside_an_event_loop(session: an.Session) -> None:
    with pytest.raises(an.SqlError):
        asyncio.run(session.sql_async("SELECT nothing"))
    with pytest.raises(an.QueryError):
        asyncio.run(session.sql_async("SELECT 1 / (value - 5) FROM generate_series(1, 9)"))


def test_cancelled_tasks_end_their_queries(session: an.Session) -> None:
    async def main() -> None:
        for _ in range(5):
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(session.sql_async(ENDLESS), 0.1)
        assert (await session.sql_async("SELECT 1 AS a")).fetchall() == [(1,)]

    start = time.monotonic()
    asyncio.run(main())
    assert time.monotonic() - start < 30


def test_an_interrupt_ends_a_query_at_once() -> None:
    program = textwrap.dedent(
        f"""
        import _thread, os, signal, tempfile, threading, time
        import annulus_data as an

        folder = tempfile.mkdtemp()
        session = an.Session(threads=2, memory_limit="100MB", spill_folder=folder)
        queries = [
            "{ENDLESS}",
            "SELECT value, random() AS r FROM generate_series(1, 100000000) ORDER BY r",
            "SELECT value % 10000019 AS k, count(*) FROM generate_series(1, 1000000000) GROUP BY 1",
        ]
        for turn in range(12):
            query = queries[turn % len(queries)]
            timer = threading.Timer(0.05 + 0.02 * turn, lambda: os.kill(os.getpid(), signal.SIGINT))
            timer.start()
            try:
                session.sql(query).to_arrow()
                raise SystemExit("not interrupted")
            except KeyboardInterrupt:
                pass
            timer.join()
            assert session.sql("SELECT 1 AS a").fetchall() == [(1,)]
        session.close()
        assert os.listdir(folder) == [], os.listdir(folder)
        os.rmdir(folder)
        print("well")
        """
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "well\n"), done.stderr


def test_interrupts_reach_readers_of_streams() -> None:
    program = textwrap.dedent(
        f"""
        import os, signal, threading
        import annulus_data as an, pyarrow as pa

        session = an.Session(threads=2)
        for read in (list, lambda rows: pa.RecordBatchReader.from_stream(rows).read_all()):
            rows = session.sql("{ENDLESS}")
            threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
            try:
                read(rows.batches() if read is list else rows)
                raise SystemExit("not interrupted")
            except (KeyboardInterrupt, pa.ArrowException, OSError) as error:
                kind = type(error).__name__
            try:
                for _ in range(1000):
                    pass
            except KeyboardInterrupt:
                pass
        print("well")
        """
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "well\n"), done.stderr


class Bar:
    """A bar with tqdm's protocol, which keeps what it gets."""

    made: list[Bar] = []  # noqa: RUF012

    def __init__(self, **keywords) -> None:
        self.keywords, self.total, self.done, self.is_closed = keywords, keywords["total"], 0, False
        Bar.made.append(self)

    def update(self, n: float = 1) -> None:
        self.done += n

    def close(self) -> None:
        self.is_closed = True


def test_progress_is_that_of_tqdm(session: an.Session, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    session.sql("SELECT value AS a, md5(CAST(value AS TEXT)) AS t FROM generate_series(1, 1000000)").write(path)
    Bar.made.clear()
    rows = session.sql(f"SELECT count(DISTINCT a), count(DISTINCT t), max(md5(md5(t))) FROM '{path}'")
    rows.collect(progress=Bar)
    (bar,) = Bar.made
    assert bar.keywords["unit"] == "rows"
    assert bar.is_closed
    assert 0 < bar.done <= 1_000_000

    def broken(**_):
        raise KeyError("no bar")

    with pytest.raises(KeyError, match="no bar"):
        rows.collect(progress=broken)
    assert session.sql("SELECT 1 AS a").fetchone() == (1,)


def test_notes_are_warnings(session: an.Session, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a\n" + "1\n" * 50 + "x\n")
    with pytest.warns(an.AnnulusWarning, match="column 'a' is text because of 1 of 51"):
        session.sql(f"SELECT * FROM '{tmp_path}/a.csv'")
    with warnings.catch_warnings():
        warnings.simplefilter("error", an.AnnulusWarning)
        assert session.sql("SELECT 1 AS a").fetchone() == (1,)
