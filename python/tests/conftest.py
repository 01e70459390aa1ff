"""What all tests share."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import annulus_data as an

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs each test in a folder of its own, so that relative paths and modules are not those of the clone."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def session(tmp_path: Path) -> Iterator[an.Session]:
    """A session, which leaves nothing in its folder."""
    folder = tmp_path / "spill"
    folder.mkdir()
    with an.Session(spill_folder=folder, threads=2) as opened:
        yield opened
    assert list(folder.iterdir()) == []


def resident_peak() -> int:
    """Returns the most memory that this process has had, in bytes."""
    return _status("VmHWM")


def resident() -> int:
    """Returns the memory that this process has now, in bytes."""
    return _status("VmRSS")


def reset_peak() -> None:
    """Makes the peak start from now."""
    Path("/proc/self/clear_refs").write_text("5")


def _status(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) * 1024
    raise AssertionError(name)


def leftovers() -> set[str]:
    """Returns what sessions have in the folder for temporary files."""
    return {name for name in os.listdir(tempfile.gettempdir()) if name.startswith("annulus")}
