"""Progress bars: those of tqdm, or of anything with its protocol."""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Protocol, TextIO

__all__ = ["Bar", "Progress", "watch"]


class Bar(Protocol):
    """A bar, as tqdm has it."""

    total: Any

    def update(self, n: float = 1) -> Any:
        """Adds ``n`` to what is done."""
        ...

    def close(self) -> Any:
        """Removes or ends the bar."""
        ...


Progress = bool | Callable[..., Any] | None
"""Whether bars are shown, or what makes them: a callable with the keywords of tqdm, ``total``, ``desc``,
``unit``, ``unit_scale`` and ``leave``. ``None`` shows bars to people who wait for long."""

_PATIENCE = 2.0
"""The seconds after which people who wait see a bar."""


class _TextBar:
    """A bar on a terminal, where tqdm is not installed."""

    def __init__(self, total: float | None, desc: str, unit: str, stream: TextIO) -> None:
        self.total: float | None = total
        self._done = 0.0
        self._desc = desc
        self._unit = unit
        self._stream = stream

    def update(self, n: float = 1) -> None:
        self._done += n
        share = f"{100 * self._done / self.total:3.0f} %" if self.total else ""
        self._stream.write(f"\r{self._desc} {share} {self._done:,.0f} {self._unit}\x1b[K")
        self._stream.flush()

    def close(self) -> None:
        self._stream.write("\r\x1b[K")
        self._stream.flush()


def _is_notebook() -> bool:
    shell: Any = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"


def _is_interactive() -> bool:
    return _is_notebook() or (hasattr(sys, "ps1") and sys.stderr.isatty())


def _make(progress: Progress, total: int | None, desc: str, unit: str) -> Any:
    if callable(progress):
        factory: Callable[..., Any] = progress
    else:
        try:
            factory = importlib.import_module("tqdm.auto").tqdm
        except ImportError:
            return _TextBar(total, desc, unit, sys.stderr)
    return factory(total=total, desc=desc, unit=unit, unit_scale=True, leave=False)


@contextmanager
def watch(progress: Progress, desc: str, unit: str) -> Generator[Callable[[int, int | None], None] | None, None, None]:
    """Yields what work calls with what it has done and with all that it is to do, and shows that."""
    if progress is False or (progress is None and not _is_interactive()):
        yield None
        return
    start = time.monotonic()
    patience = 0.0 if progress is not None else _PATIENCE
    bar: Any = None
    shown = 0

    def on_progress(done: int, total: int | None) -> None:
        nonlocal bar, shown
        if bar is None:
            if time.monotonic() - start < patience or done == 0:
                return
            bar = _make(progress, total, desc, unit)
        if total is not None:
            bar.total = total
        bar.update(max(0, done - shown))
        shown = max(shown, done)

    try:
        yield on_progress
    finally:
        if bar is not None:
            bar.close()
