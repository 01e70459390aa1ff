"""The programs in documents run, and print what stands below them."""

from __future__ import annotations

import contextlib
import io
import os
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```(python|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("name", ["README.md", "python/README.md", "docs/python.md"])
def test_programs_of_documents_run(name: str, tmp_path: Path) -> None:
    names: dict[str, object] = {"__name__": "document"}
    printed = ""
    with contextlib.chdir(tmp_path) if hasattr(contextlib, "chdir") else _chdir(tmp_path):
        for kind, text in BLOCK.findall((ROOT / name).read_text()):
            if kind == "text":
                assert printed.strip() == text.strip()
                continue
            output = io.StringIO()
            with contextlib.redirect_stdout(output):
                exec(compile(text, name, "exec"), names)
            printed = output.getvalue()


@contextlib.contextmanager
def _chdir(folder: Path):
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
